"""A sweep at a glance: what each value of the swept settings ends with, and how fast it gets there.

One setting is drawn as points, two as a heat map, more as lines through one axis a setting.
"""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from spjax.analysis import statistics
from spjax.analysis.curves import metric_label, seeds_text
from spjax.analysis.style import MARK, NEUTRAL, PALETTE, styled
from spjax.analysis.text import setting_text, symbol
from spjax.runs.read import Run
from spjax.runs.schema import Setting

FRACTION = 0.8  # of the way from the first return to the best final one
STOPPED = "#dddddd"  # cells without a value
LARGEST_WITH_NUMBERS = 100  # cells of a heat map


class Outcome(NamedTuple):
    """One quantity of every value of the sweep, mean over the seeds with its standard error."""

    label: str
    mean: Float[np.ndarray, " group"]
    error: Float[np.ndarray, " group"]
    higher_is_better: bool


class Grid(NamedTuple):
    """The swept settings: their values in order, and which of them each group of lanes has."""

    names: tuple[str, ...]
    values: tuple[tuple[Setting, ...], ...]
    places: Int[np.ndarray, "group setting"]


@styled
def sweep_picture(run: Run) -> Figure:
    """Returns final return and iterations to a threshold against the swept settings.

    The threshold is 80 % of the way from the mean return before training to the best final mean; a seed that never gets there
    counts as the last iteration. A setting that stopped early has no final return, and is said to have stopped.

    Raises:
        ValueError: nothing is swept.
    """
    if not run.config.over:
        raise ValueError(f"{run.path} is no sweep")
    outcomes, grid = outcomes_of(run), grid_of(run)
    draw = {1: _points, 2: _heat_maps}.get(len(grid.names), _lines)
    figure = draw(outcomes, grid)
    figure.suptitle(
        f"{run.config.task_name}, {run.config.agent}, {run.config.teacher}: mean ± standard error, {seeds_text([run])}"
        + (
            f"; {len(run.cuts)} of {len(run.groups())} stopped early"
            if run.cuts
            else ""
        ),
        x=0.01,
        ha="left",
        color=NEUTRAL,
        fontsize=10,
    )
    return figure


def grid_of(run: Run) -> Grid:
    """Returns the swept settings; numbers in ascending order, others in the order of the sweep."""
    names = tuple(run.config.over)
    values = tuple(_ordered(run.config.over[name]) for name in names)
    places = [
        [
            of_name.index(group.settings[name])
            for name, of_name in zip(names, values, strict=True)
        ]
        for group in run.groups()
    ]
    return Grid(names, values, np.array(places))


def outcomes_of(run: Run) -> list[Outcome]:
    """Returns the final return of every group of lanes, and its iterations to the threshold."""
    groups = run.groups()
    curves = [run.evaluation_curves("discounted_return", group) for group in groups]
    finals = [curve.values[:, -1] for curve in curves]
    first = float(statistics.mean(np.concatenate([c.values[:, 0] for c in curves])))
    means = [float(statistics.mean(values)) for values in finals]
    known = [value for value in means if np.isfinite(value)]
    threshold = first + FRACTION * (max(known, default=first) - first)
    crossings = [
        statistics.iterations_to_threshold(
            curve.iterations, curve.values, threshold
        ).iterations
        for curve in curves
    ]
    for group, curve, crossing in zip(groups, curves, crossings, strict=True):
        if run.cut(group):  # what stopped may have got there later
            never = ~(curve.values >= threshold).any(axis=1)
            crossing[never] = np.nan
    label = metric_label([run], "discounted_return").partition(" on ")[0]
    return [
        _outcome(f"final {label}", finals, True),
        _outcome(f"iterations to {threshold:.3g}", crossings, False),
    ]


def _outcome(
    label: str, values: Sequence[Float[np.ndarray, " seed"]], higher_is_better: bool
) -> Outcome:
    mean = np.array([float(statistics.mean(of_group)) for of_group in values])
    error = np.array(
        [float(statistics.standard_error(of_group)) for of_group in values]
    )
    return Outcome(label, mean, error, higher_is_better)


def _ordered(values: Sequence[Setting]) -> tuple[Setting, ...]:
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in values
    )
    return tuple(sorted(values)) if numbers else tuple(values)  # type: ignore[type-var]


def _points(outcomes: Sequence[Outcome], grid: Grid) -> Figure:
    """Draws each outcome over the values of the one setting."""
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    for axes, outcome, color in zip(
        figure.subplots(1, len(outcomes)), outcomes, PALETTE, strict=False
    ):
        axes.errorbar(
            grid.places[:, 0],
            outcome.mean,
            np.nan_to_num(outcome.error),
            fmt="o",
            color=color,
            capsize=3,
        )
        _name_values(axes.xaxis, grid, 0)
        axes.set_ylabel(outcome.label)
    return figure


def _heat_maps(outcomes: Sequence[Outcome], grid: Grid) -> Figure:
    """Draws each outcome over the values of both settings."""
    rows, columns = len(grid.values[1]), len(grid.values[0])
    size = (2.2 + 2 * max(2.2, 0.75 * columns), 1.3 + max(2.0, 0.42 * rows))
    figure = Figure(figsize=size, layout="constrained")
    for axes, outcome in zip(figure.subplots(1, len(outcomes)), outcomes, strict=True):
        table = np.full((rows, columns), np.nan)
        table[grid.places[:, 1], grid.places[:, 0]] = outcome.mean
        image = axes.imshow(
            table, cmap=_colours(outcome), aspect="auto", origin="lower"
        )
        axes.grid(visible=False)
        axes.set_facecolor(STOPPED)
        _name_values(axes.xaxis, grid, 0)
        _name_values(axes.yaxis, grid, 1)
        figure.colorbar(image, ax=axes, label=outcome.label)
        if table.size <= LARGEST_WITH_NUMBERS:
            _write_numbers(axes, image, outcome, grid)
    return figure


def _write_numbers(axes: Axes, image: AxesImage, outcome: Outcome, grid: Grid) -> None:
    """Writes mean and standard error into the cells, black or white, whatever can be read."""
    decimals = 1 if outcome.higher_is_better else 0
    for place, mean, error in zip(
        grid.places, outcome.mean, outcome.error, strict=True
    ):
        if not np.isfinite(mean):
            continue
        red, green, blue, _ = image.to_rgba(mean)
        light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
        text = f"{mean:.{decimals}f}"
        text += f"\n± {error:.{decimals}f}" if np.isfinite(error) else ""
        color = MARK if light else "white"
        x, y = place.tolist()
        axes.text(x, y, text, color=color, ha="center", va="center", fontsize=7)


def _lines(outcomes: Sequence[Outcome], grid: Grid) -> Figure:
    """Draws one line a group through an axis for each setting and each outcome, in the colour of the first outcome."""
    columns = len(grid.names) + len(outcomes)
    figure = Figure(figsize=(1.6 * columns + 1.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    heights = np.column_stack(
        [
            *(
                places / max(1, len(values) - 1)
                for places, values in zip(grid.places.T, grid.values, strict=True)
            ),
            *(_scaled(outcome.mean) for outcome in outcomes),
        ]
    )
    main = outcomes[0].mean
    norm = matplotlib.colors.Normalize(*_range(main))
    scale = matplotlib.cm.ScalarMappable(norm, _colours(outcomes[0]))
    order = np.argsort(np.nan_to_num(main, nan=-np.inf))
    for group in order:
        axes.plot(
            heights[group],
            color=scale.to_rgba(main[group]),
            linewidth=2.6 if group == order[-1] else 1.0,
            alpha=1.0 if group == order[-1] else 0.6,
        )
    for column in range(columns):
        axes.axvline(column, color=NEUTRAL, linewidth=0.8)
    for column, values in enumerate(grid.values):
        for place, value in enumerate(values):
            height = place / max(1, len(values) - 1)
            axes.text(column + 0.04, height, setting_text(value), fontsize=8)
    for column, outcome in enumerate(outcomes, start=len(grid.names)):
        for height, value in enumerate(_range(outcome.mean)):
            axes.text(column + 0.04, height, f"{value:.3g}", fontsize=8)
    names = [symbol(name) for name in grid.names]
    axes.set_xticks(range(columns), names + [outcome.label for outcome in outcomes])
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    figure.colorbar(scale, ax=axes, label=outcomes[0].label)
    return figure


def _scaled(values: Float[np.ndarray, " group"]) -> Float[np.ndarray, " group"]:
    low, high = _range(values)
    return (values - low) / (high - low if high > low else 1.0)


def _range(values: Float[np.ndarray, " group"]) -> tuple[float, float]:
    """Returns the lowest and the highest, of what is finite."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _colours(outcome: Outcome) -> str:
    return "viridis" if outcome.higher_is_better else "viridis_r"


def _name_values(axis: Axis, grid: Grid, column: int) -> None:
    values = grid.values[column]
    axis.set_ticks(range(len(values)), [setting_text(value) for value in values])
    axis.set_label_text(symbol(grid.names[column]))
