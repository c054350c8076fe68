"""The common look of all pictures: sizes, fonts, colours, and saving without a display."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypedDict

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.typing import LineStyleType

from spjax.runs.files import write_atomically

DPI = 150
FORMATS = ("png", "pdf", "svg")
LEGEND_CHARACTERS = 100  # a line, at the legend's font and the width of the pictures
# Okabe and Ito's palette, told apart by colour-blind readers; the faint yellow is left out
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("solid", "dashed", "dashdot", "dotted")
GOOD, BAD, NEUTRAL, MARK = "#0072B2", "#D55E00", "#555555", "#000000"


class Look(TypedDict, total=False):
    """How a line and its markers look, in the words of Matplotlib's `plot` and `Line2D`."""

    color: str
    linestyle: LineStyleType
    linewidth: float
    solid_capstyle: Literal["butt", "projecting", "round"]
    marker: str
    markersize: float
    markerfacecolor: str
    markeredgecolor: str
    markeredgewidth: float
    zorder: float
    clip_on: bool


styled = matplotlib.rc_context(  # decorates the functions that draw
    {
        "font.size": 11,
        "axes.titlesize": 11,
        "axes.labelsize": 11,
        "legend.fontsize": 10,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#555555",
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.8,
        "axes.axisbelow": True,
        "lines.linewidth": 2.0,
        "legend.frameon": False,
        "figure.facecolor": "white",
        "mathtext.fontset": "dejavusans",
        "svg.fonttype": "none",  # text stays text
        "pdf.fonttype": 42,
    }
)


def series_style(index: int, count: int) -> tuple[object, str]:
    """Returns (colour, line style) of one series; many series, which are swept values, get an ordered scale."""
    if count <= len(PALETTE):
        return PALETTE[index], DASHES[index % len(DASHES)]
    return matplotlib.colormaps["viridis"](0.92 * index / (count - 1)), "solid"


def from_zero(row: Iterable[Axes]) -> None:
    """Lets axes of one common height begin at zero, or lower where something is drawn lower."""
    axes = list(row)
    axes[0].set_ylim(bottom=min(0.0, *(one.dataLim.y0 for one in axes)))


def legend_below(figure: Figure, handles: Sequence[Artist | Container]) -> None:
    """Puts the legend under the axes, where it hides nothing and leaves them the full width."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(len(handles), LEGEND_CHARACTERS // (longest + 8)))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, columnspacing=1.6
    )


def check_format(name: str) -> None:
    """Raises ValueError where pictures have no such format."""
    if name not in FORMATS:
        raise ValueError(
            f"pictures are {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {name!r}"
        )


def save(figure: Figure, path: Path) -> Path:
    """Writes a picture in the format of its suffix (`FORMATS`), whole or not at all, and returns its path."""

    def write(temporary: Path) -> None:
        figure.savefig(
            temporary,
            dpi=DPI,
            format=path.suffix[1:],
            bbox_inches="tight",
            pad_inches=0.06,
        )

    write_atomically(path, write)
    return path
