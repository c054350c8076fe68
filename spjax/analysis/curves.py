"""Curves over the iterations: return on the target tasks, KL to the target distribution, alpha."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from spjax.analysis import statistics
from spjax.analysis.arrival import KL_TO_TARGET
from spjax.analysis.style import NEUTRAL, from_zero, legend_below, series_style, styled
from spjax.analysis.text import settings_label
from spjax.runs.read import Group, Run
from spjax.runs.schema import Reference

Spread = Literal["standard-error", "quantiles"]
Metric = Literal["discounted_return", "episode_return", "success_rate"]

REFERENCE_DASHES = (0, (5, 4))
ALPHA = "teacher.alpha"
MOST_NAMED = 12  # curves in a legend, and with bands
KL_DECADE = (
    -4
)  # a divergence below 1e-4 nats is the target itself; how far below is rounding
METRIC_LABELS: dict[Metric, str] = {
    "discounted_return": "discounted return on target tasks",
    "episode_return": "episode return on target tasks",
    "success_rate": "success rate on target tasks",
}
SPREAD_LABELS: dict[Spread, str] = {
    "standard-error": "mean ± 2 standard errors",
    "quantiles": "median and 10–90 % quantiles",
}


class Series(NamedTuple):
    """The lanes of one curve and its look."""

    run: Run
    group: Group
    label: str
    color: object
    dashes: str
    crowded: bool = False  # one of too many for a band


@styled
def learning_curve(
    runs: Sequence[Run],
    labels: Sequence[str],
    metric: Metric = "discounted_return",
    spread: Spread = "standard-error",
) -> Figure:
    """Returns the performance on the target tasks over the iterations, one curve a run and swept value.

    Where a folder carries published results of its experiment, the final value is a dashed line in the colour of the
    curve, with a diamond and its standard error at the end of a run that is as long as the published ones.

    Args:
        runs: the runs to compare.
        labels: a legend entry a run.
        metric: which evaluation column.
        spread: the shaded band over seeds: the paper's step-based or its episodic convention.
    """
    figure, axes = _canvas()
    for series in _series(runs, labels):
        curves = series.run.evaluation_curves(metric, series.group)
        band = _band(curves.values, spread)
        if metric == "success_rate":
            edges = (
                np.clip(edge, 0.0, 1.0) for edge in (band.low, band.middle, band.high)
            )
            band = statistics.Band(*edges)
        draw_band(axes, series, curves.iterations, band)
        reference = series.run.config.reference
        if reference and metric == reference.metric and not series.group.settings:
            _draw_reference(axes, series, reference)
    axes.set_ylabel(metric_label(runs, metric))
    from_zero([axes])
    if metric == "success_rate":
        axes.set_ylim(-0.02, 1.02)
    _finish(figure, axes, runs, SPREAD_LABELS[spread])
    return figure


@styled
def kl_to_target_curve(runs: Sequence[Run], labels: Sequence[str]) -> Figure:
    """Returns KL(p || target) of the teacher's distribution over the iterations, nats, on a logarithmic axis."""
    figure, axes = _canvas()
    for series in _series(runs, labels):
        curves = series.run.metric_curves(KL_TO_TARGET, series.group)
        draw_band(axes, series, curves.iterations, statistics.quantiles(curves.values))
    axes.set_yscale("log")
    lowest, highest = np.log10(axes.get_ylim())
    bottom = max(np.floor(lowest), KL_DECADE)
    axes.set_ylim(10**bottom, 10 ** max(np.ceil(highest), bottom + 1))
    axes.set_ylabel("KL to the target distribution [nats]")
    _finish(figure, axes, runs, SPREAD_LABELS["quantiles"])
    return figure


@styled
def alpha_curve(runs: Sequence[Run], labels: Sequence[str]) -> Figure:
    """Returns the weight alpha of the target over the iterations; logarithmic, but linear near 0, where it starts."""
    figure, axes = _canvas()
    smallest = np.inf
    for series in _series(runs, labels):
        curves = series.run.metric_curves(ALPHA, series.group)
        smallest = min(smallest, curves.values[curves.values > 0].min(initial=np.inf))
        draw_band(axes, series, curves.iterations, statistics.quantiles(curves.values))
    axes.set_yscale(
        "symlog",
        linthresh=10 ** np.floor(np.log10(smallest)) if np.isfinite(smallest) else 1.0,
    )
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("weight $\\alpha$ of the target")
    _finish(figure, axes, runs, SPREAD_LABELS["quantiles"])
    return figure


def _canvas() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.0, 4.6), layout="constrained")
    return figure, figure.add_subplot()


def _series(runs: Sequence[Run], labels: Sequence[str]) -> Iterator[Series]:
    """Yields each run's lanes by swept settings, with the style of its curve."""
    if len(runs) != len(labels):
        raise ValueError(
            f"one label a run is needed, got {len(labels)} labels for {len(runs)} runs"
        )
    pairs = [
        (run, group, label)
        for run, label in zip(runs, labels, strict=True)
        for group in run.groups()
    ]
    for index, (run, group, label) in enumerate(pairs):
        swept = settings_label(group.settings)
        name = ", ".join(
            part for part in ("" if swept and len(runs) == 1 else label, swept) if part
        )
        num_frozen = run.num_frozen(group)
        name += f", {num_frozen} of {len(group.lanes)} frozen" if num_frozen else ""
        cut = run.cut(group)
        name += f", stopped after {cut.iteration}" if cut else ""
        look = series_style(index, len(pairs))
        yield Series(run, group, name, *look, crowded=len(pairs) > MOST_NAMED)


def _band(values: Float[np.ndarray, "seed point"], spread: Spread) -> statistics.Band:
    return (
        statistics.quantiles(values)
        if spread == "quantiles"
        else statistics.two_standard_errors(values)
    )


def draw_band(
    axes: Axes, series: Series, iterations: np.ndarray, band: statistics.Band
) -> Line2D:
    """Draws the band and its central curve, and returns the curve."""
    if not series.crowded:
        axes.fill_between(
            iterations, band.low, band.high, color=series.color, alpha=0.18, linewidth=0
        )
    alone = np.isfinite(band.middle).sum() == 1  # a line of one point does not show
    if series.run.cut(series.group) and np.isfinite(band.middle).any():
        end = np.flatnonzero(np.isfinite(band.middle))[-1]
        at = iterations[end], band.middle[end]
        axes.plot(*at, "x", color=series.color, markersize=5)  # it went no further
    (line,) = axes.plot(
        iterations,
        band.middle,
        label=series.label,
        color=series.color,
        linestyle=series.dashes,
        marker="o" if alone else None,
        linewidth=1.0 if series.crowded else None,
    )
    return line


def _draw_reference(axes: Axes, series: Series, reference: Reference) -> None:
    """Draws the published final value: a line, and its standard error at the end of a run of the published length."""
    length, final = reference.num_iterations, reference.final
    label = f"{reference.source}, after {length}: {final.mean:.2f} ± {final.standard_error:.2f}"
    line = axes.axhline(
        final.mean, color=series.color, linestyle=REFERENCE_DASHES, linewidth=1.2
    )
    if series.run.config.num_iterations != length:
        line.set_label(label)
        return
    axes.errorbar(
        length,
        *final,
        fmt="D",
        zorder=3,
        clip_on=False,
        label=label,
        color=series.color,
        markersize=6,
        capsize=3,
        linewidth=1.2,
    )


def metric_label(runs: Sequence[Run], metric: Metric) -> str:
    """Returns the label of the vertical axis; a rollout of an episodic learner has one reward."""
    episodic = all(run.config.rollouts_per_iteration for run in runs)
    return (
        "reward on target tasks"
        if episodic and metric == "discounted_return"
        else METRIC_LABELS[metric]
    )


def iterations_label(runs: Sequence[Run]) -> str:
    """Returns the label of the horizontal axis."""
    steps = {run.config.steps_per_iteration for run in runs}
    same = steps.pop() if len(steps) == 1 else None
    return "iterations" + (f" of {same:,} environment steps" if same else "")


def seeds_text(runs: Sequence[Run]) -> str:
    """Returns for example "20 seeds" or "10 to 20 seeds"."""
    return range_of_seeds(len(group.lanes) for run in runs for group in run.groups())


def range_of_seeds(counts: Iterable[int]) -> str:
    """Returns the same from how many there are of each."""
    known = list(counts)
    least, most = min(known), max(known)
    seeds = f"{least}" if least == most else f"{least} to {most}"
    return f"{seeds} seed{'' if most == 1 else 's'}"


def _finish(figure: Figure, axes: Axes, runs: Sequence[Run], caption: str) -> None:
    axes.set_xlabel(iterations_label(runs))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    handles, _ = axes.get_legend_handles_labels()
    title = f"{caption}, {seeds_text(runs)}"
    if len(handles) > MOST_NAMED:
        middle = caption.partition(" ")[0]  # without its band
        named = np.linspace(0, len(handles) - 1, MOST_NAMED // 2).round().astype(int)
        title = f"{middle}, {seeds_text(runs)}; {len(named)} of {len(handles)} curves are named"
        handles = [handles[index] for index in named]
    axes.set_title(title, loc="left", color=NEUTRAL, fontsize=10)
    legend_below(figure, handles)
