"""What the terminal shows: names as they are, and characters that it has."""

import codecs
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDEST = 10_000  # columns, for whatever is printed
_SIMILAR = {
    "–": "-",
    "—": "-",
    "−": "-",
    "±": "+-",
    "×": "x",
    "²": "^2",
    "…": "...",
    "│": "|",
    "─": "-",
}


def console() -> "Console":
    """Returns where to print; brackets and colons in a name are no markup."""
    from rich.console import Console  # which the first help need not wait for

    return Console(markup=False, emoji=False, highlight=False)


def print_table(terminal: "Console", table: "Table") -> None:
    """Prints a table whose columns of numbers are aligned to the right.

    A terminal that is too narrow for it gets no lines between the columns, and rather a line over its edge than a number that
    is cut.
    """
    from rich.measure import Measurement

    whole = terminal.options.update_width(_WIDEST)
    if Measurement.get(terminal, whole, table).maximum > terminal.width:
        table.box, table.padding = None, (0, 1)
    for column in table.columns:
        if column.justify == "right":
            cells = (column.header, *column.cells)
            column.no_wrap = True
            column.min_width = max(
                Measurement.get(terminal, whole, cell).maximum for cell in cells
            )
    terminal.print(table, crop=False)


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
