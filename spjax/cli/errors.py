"""What the command line says in one sentence instead of a traceback."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UsageError(Exception):
    """What the user typed is wrong. No ValueError, because tyro would draw a box around that."""


class Failure(Exception):
    """What the user typed is right and it went wrong all the same."""


class Stopped(Exception):
    """The user stopped it by Ctrl-C, or a cluster by SIGTERM."""

    def __init__(self, what: object, number: int = signal.SIGINT) -> None:
        super().__init__(what)
        self.code = 128 + number  # as shells have it


@contextmanager
def run_continues(folder: Path) -> Iterator[None]:
    """Turns a failed write or a lack of memory into a sentence that says how to go on with the run in this folder.

    Raises:
        Failure: instead of an OSError or MemoryError.
    """
    try:
        yield
    except (OSError, MemoryError) as error:
        saved = (folder / "config.json").is_file()
        hint = (
            f"; what was saved before is intact, continue with: spjax resume {folder}"
            if saved
            else ""
        )
        said = (
            describe(error)
            if isinstance(error, OSError)
            else str(error) or "memory ran out"
        )
        raise Failure(said + hint) from error


def describe(error: OSError) -> str:
    """Returns one sentence about a failed read or write."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full{where}"
    return f"{error.strerror or error}{where}"
