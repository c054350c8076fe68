"""What a swept setting trades: the final return against the iterations that it takes to get somewhere."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from spjax.analysis.style import BAD, GOOD, NEUTRAL, styled
from spjax.analysis.text import setting_text, symbol
from spjax.runs.results import Record


@styled
def trade_off_figure(sweeps: Mapping[str, Sequence[Record]]) -> Figure:
    """Returns a panel a sweep: final return (left axis) and iterations to the threshold (right axis) by the setting.

    Bars are standard errors. Numbers at the top say how many seeds never got there, where any did; they count as the last
    iteration.

    Args:
        sweeps: swept setting, which is zero or positive -> the records of the sweep, of both metrics.
    """
    figure = Figure(figsize=(5.2 * len(sweeps), 4.0), layout="constrained")
    row = figure.subplots(1, len(sweeps), squeeze=False)[0]
    for axes, (name, records) in zip(row, sweeps.items(), strict=True):
        _draw_sweep(axes, name, records)
    return figure


def _draw_sweep(axes: Axes, name: str, records: Sequence[Record]) -> None:
    returns = [record for record in records if record["metric"] == "discounted_return"]
    crossings = [
        record for record in records if record["metric"] == "iterations_to_threshold"
    ]
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.grid(False)
    _draw_metric(axes, name, returns, GOOD, "o", "final discounted return")
    _draw_metric(
        right,
        name,
        crossings,
        BAD,
        "s",
        f"iterations to a return of {crossings[0]['threshold']:g}",
    )
    for record in crossings:
        if record["never_reached"]:
            (value,) = _values(name, [record])
            place = right.get_xaxis_transform()
            right.text(
                value,
                0.95,
                str(record["never_reached"]),
                transform=place,
                ha="center",
                fontsize=9,
                color=BAD,
            )
    places = _values(name, returns)
    if places.min() > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=places[places > 0].min(), linscale=0.5)
    axes.set_xticks(
        places, [setting_text(record["settings"][name]) for record in returns]
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(symbol(name))
    for each in (axes, right):
        each.set_ylim(0, 1.12 * each.get_ylim()[1])
    seeds = sorted({len(record["seeds"]) for record in returns})
    title = f"mean ± standard error, {' to '.join(map(str, seeds))} seeds; on top: how many never got there"
    axes.set_title(title, loc="left", color=NEUTRAL, fontsize=9)


def _draw_metric(
    axes: Axes,
    name: str,
    records: Sequence[Record],
    color: str,
    marker: str,
    label: str,
) -> None:
    means = np.array([record["mean"] for record in records], dtype=float)
    errors = np.array([record["standard_error"] for record in records], dtype=float)
    axes.errorbar(
        _values(name, records),
        means,
        errors,
        color=color,
        marker=marker,
        markersize=5,
        capsize=3,
        linewidth=1.6,
    )
    axes.set_ylabel(label, color=color)
    axes.tick_params(axis="y", colors=color)


def _values(name: str, records: Sequence[Record]) -> Float[np.ndarray, " record"]:
    """Returns the swept setting of each record."""
    return np.array([record["settings"][name] for record in records], dtype=float)
