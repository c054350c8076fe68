"""Measurements behind the numbers of the README; not part of the package."""

import shlex
import sys
from pathlib import Path


def command_line(module: str) -> str:
    """Returns the command that runs a module as this process does, for the record: without folders of this machine."""
    return shlex.join(["python", "-m", module, *map(_anywhere, sys.argv[1:])])


def _anywhere(word: str) -> str:
    """Returns an absolute path from its folder of runs on, or else its name; and every other word as it is."""
    path = Path(word)
    if not path.is_absolute():
        return word
    start = path.parts.index("runs") if "runs" in path.parts else -1
    return str(Path(*path.parts[start:]))
