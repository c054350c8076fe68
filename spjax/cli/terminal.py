"""What the terminal shows: names as they are, and characters that it has."""

import codecs
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_SIMILAR = {"–": "-", "—": "-", "−": "-", "±": "+-", "×": "x", "²": "^2", "…": "...", "│": "|", "─": "-"}


def console() -> "Console":
    """Returns where to print; brackets and colons in a name are no markup."""
    from rich.console import Console  # which the first help need not wait for

    return Console(markup=False, emoji=False, highlight=False)


def replace_missing_characters() -> None:
    """Has characters that the terminal's encoding lacks replaced by similar ones, where they would end the program."""
    codecs.register_error("spjax.similar", _similar)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="spjax.similar")


def _similar(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_SIMILAR.get(character, "?") for character in missing), error.end
