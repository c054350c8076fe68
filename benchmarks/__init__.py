"""Measurements behind the numbers of the README; not part of the package."""

import shlex
import sys


def command_line(module: str) -> str:
    """Returns the command that runs a module as this process does, for the record."""
    return shlex.join(["python", "-m", module, *sys.argv[1:]])
