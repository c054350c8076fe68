"""What the command line says in one sentence instead of a traceback."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UsageError(Exception):
    """What the user typed is wrong. No ValueError, because tyro would draw a box around that."""


class Failure(Exception):
    """What the user typed is right and it went wrong all the same."""


class Stopped(Exception):
    """The user stopped it, by Ctrl-C."""


@contextmanager
def run_continues(folder: Path) -> Iterator[None]:
    """Turns a failed write into a sentence that says how to go on with the run in this folder.

    Raises:
        Failure: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        saved = (folder / "config.json").is_file()
        hint = (
            f"; what was saved before is intact, continue with: spjax resume {folder}"
            if saved
            else ""
        )
        raise Failure(describe(error) + hint) from error


def describe(error: OSError) -> str:
    """Returns one sentence about a failed read or write."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full{where}"
    return f"{error.strerror or error}{where}"
