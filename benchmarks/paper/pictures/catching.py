"""Pictures of ball catching: how many balls are caught, and where the curriculum throws them from and at.

A context is (angle, radius, distance): the ball flies from ``distance`` in front of the arm to a point of the plane x = 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon, Rectangle

from benchmarks.paper.pictures.curricula import Curriculum, curriculum_of
from spjax.analysis import statistics
from spjax.analysis.curves import SPREAD_LABELS, range_of_seeds
from spjax.analysis.snapshots import (
    NUM_LANES,
    available,
    evenly_spaced,
    sampled_contexts,
    seed_handles,
)
from spjax.analysis.style import MARK, NEUTRAL, PALETTE, styled
from spjax.analysis.tables import finite_values
from spjax.runs.read import Run
from spjax.runs.results import Record
from spjax.runs.schema import RunRecord

PAPER_ITERATIONS = (0, 50, 80, 110, 150, 200)  # of the paper's figure
TARGET_HEIGHT = 0.75  # m, of the center of the arc of targets
RESTING_NET = (-0.707, 1.272)  # m, y and z of the net under a policy that holds still
NET_RADIUS = 0.06  # m
NUM_TARGET_SAMPLES = 200
HATCH = "////"  # of starred curricula
SEED_LOOK: dict[str, Any] = {
    "color": MARK,
    "s": 7,
    "alpha": 0.55,
    "linewidths": 0,
    "zorder": 3,
}
TARGET_COLOR = "#c4c4c4"
NET_LOOK: dict[str, Any] = {"facecolor": "none", "edgecolor": MARK, "linewidth": 1.2}


def thrown_at(contexts: Float[np.ndarray, "*batch 3"]) -> Float[np.ndarray, "*batch 2"]:
    """Returns y and z of the point of the plane x = 0 that the ball of each context is thrown at [m]."""
    angle, radius = contexts[..., 0], contexts[..., 1]
    return np.stack(
        [-radius * np.cos(angle), TARGET_HEIGHT + radius * np.sin(angle)], axis=-1
    )


@styled
def catch_rates(
    panels: Mapping[str, Mapping[Curriculum, Record]], curricula: Sequence[Curriculum]
) -> Figure:
    """Returns how many throws at the target distribution are caught at the end: a panel a learner, a bar a curriculum.

    Bars are means over the seeds, which are dots, with two standard errors; with an asterisk they are hatched.

    Args:
        panels: learner -> the final success rates of its finished runs by curriculum; at least one.
        curricula: those to compare, from the top; those that are not finished are said to be missing.
    """
    figure = Figure(figsize=(10.0, 0.36 * len(curricula) + 1.3), layout="constrained")
    row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (learner, rates) in zip(row, panels.items(), strict=True):
        axes.set_title(learner, loc="left")
        axes.set_xlabel("balls caught [%]")
        axes.grid(axis="y", visible=False)
        for place, curriculum in enumerate(curricula):
            if curriculum in rates:
                _draw_bar(axes, place, curriculum, rates[curriculum])
            else:
                axes.text(
                    1.5, place, "not trained", va="center", fontsize=8, color=NEUTRAL
                )
    row[0].set_yticks(
        range(len(curricula)),
        [curriculum.mathematical_label for curriculum in curricula],
    )
    row[0].set_ylim(len(curricula) - 0.4, -0.6)
    row[0].set_xlim(0, 100)
    seeds = range_of_seeds(
        len(record["seeds"]) for rates in panels.values() for record in rates.values()
    )
    caption = f"{SPREAD_LABELS['standard-error']}, a dot a seed; {seeds}"
    figure.suptitle(caption, x=0.01, ha="left", color=NEUTRAL, fontsize=10)
    return figure


def _draw_bar(axes: Axes, place: int, curriculum: Curriculum, record: Record) -> None:
    rates = 100 * np.array(finite_values(record))
    middle, error = (
        float(statistics.mean(rates)),
        2 * float(statistics.standard_error(rates)),
    )
    color, _ = curriculum.look
    look: dict[str, Any] = {"color": color, "alpha": 0.75, "linewidth": 0, "zorder": 1}
    if curriculum.starred:
        look |= {"hatch": HATCH, "edgecolor": "white"}
    axes.barh(place, middle, height=0.72, **look)
    axes.errorbar(
        middle, place, xerr=error, color=MARK, capsize=3, linewidth=1.4, zorder=4
    )
    axes.scatter(rates, place + np.linspace(-0.22, 0.22, rates.size), **SEED_LOOK)


@styled
def catching_snapshots(
    runs: Sequence[Run], iterations: Sequence[int] = PAPER_ITERATIONS
) -> Figure:
    """Returns samples of the teacher's distribution, two rows a run: where balls are thrown at, and from how far.

    Colours are seeds that all runs have, up to four; grey is the target distribution. The outline of the upper row is what
    the bounds allow, the circle the net of an arm that holds still.

    Args:
        runs: of ball catching, nothing swept; as many of their iterations are drawn as all have.
        iterations: those that were evaluated are drawn, or evenly spaced ones if fewer than three were.
    """
    seeds = _common_seeds(runs)
    columns = [available(run, iterations) for run in runs]
    count = min(map(len, columns))
    figure = Figure(
        figsize=(1.65 * count + 0.7, 2.75 * len(runs) + 0.5), layout="constrained"
    )
    panels = figure.subplots(
        2 * len(runs),
        count,
        squeeze=False,
        gridspec_kw={"height_ratios": [3.4, 1] * len(runs)},
    )
    for index, (run, shown) in enumerate(zip(runs, columns, strict=True)):
        planes, strips = panels[2 * index : 2 * index + 2]
        contexts = _contexts(run, shown[:count], seeds)
        target = _target_samples(run.config)
        for axes, strip, iteration in zip(planes, strips, shown, strict=False):
            axes.set_title(f"iteration {iteration}")
            _draw_plane(axes, run.config, target, contexts[iteration])
            _draw_distances(strip, run.config, target, contexts[iteration])
            axes.tick_params(labelleft=axes is planes[0])
        planes[0].set_ylabel(f"{curriculum_of(run.config).mathematical_label}\nz [m]")
        planes[0].set_xlabel("y [m]")
        strips[0].set_xlabel("distance [m]")
    dot: dict[str, Any] = {"marker": "o", "linestyle": ""}
    target_handle = Line2D(
        [], [], markersize=5, color=TARGET_COLOR, label="target", **dot
    )
    net_handle = Line2D(
        [],
        [],
        markersize=9,
        color="none",
        markeredgecolor=MARK,
        label="resting net",
        **dot,
    )
    handles = [*seed_handles(seeds), target_handle, net_handle]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        handletextpad=0.2,
        columnspacing=1.4,
    )
    return figure


def _common_seeds(runs: Sequence[Run]) -> list[int]:
    """Returns up to four of the seeds that all runs have."""
    first, *others = [run.seeds(run.groups()[0]) for run in runs]
    return evenly_spaced(
        [seed for seed in first if all(seed in seeds for seeds in others)], NUM_LANES
    )


def _contexts(
    run: Run, iterations: Sequence[int], seeds: Sequence[int]
) -> dict[int, list[Float[np.ndarray, "sample 3"]]]:
    """Returns the sampled contexts of each seed by iteration."""
    group = run.groups()[0]
    lanes = [group.lanes[run.seeds(group).index(seed)] for seed in seeds]
    found = sampled_contexts(run, iterations, lanes)
    return {
        iteration: [found[lane, iteration] for lane in lanes]
        for iteration in iterations
    }


def _target_samples(config: RunRecord) -> Float[np.ndarray, "sample 3"]:
    """Returns contexts of the target distribution, clipped to the bounds as in the evaluation."""
    rng, space = np.random.default_rng(0), config.context_space
    samples = rng.normal(config.target.mean, config.target.std, (NUM_TARGET_SAMPLES, 3))
    return np.clip(samples, space.lower, space.upper)


def _draw_plane(
    axes: Axes, config: RunRecord, target: np.ndarray, contexts: Sequence[np.ndarray]
) -> None:
    """Draws the points thrown at, inside the sector that the bounds of angle and radius are."""
    (low, inner, _), (high, outer, _) = (
        config.context_space.lower,
        config.context_space.upper,
    )
    angles = np.linspace(low, high, 60)
    rim = [(angle, outer, 0.0) for angle in angles] + [
        (angle, inner, 0.0) for angle in angles[::-1]
    ]
    sector = thrown_at(np.array(rim))
    axes.add_patch(Polygon(sector, fill=False, edgecolor=NEUTRAL, linewidth=1.0))
    y, z = thrown_at(target).T
    axes.scatter(y, z, s=4, color=TARGET_COLOR, linewidths=0, zorder=1.5)
    for points, color in zip(contexts, PALETTE, strict=False):
        y, z = thrown_at(points).T
        axes.scatter(y, z, s=12, color=color, alpha=0.75, linewidths=0, zorder=3)
    axes.add_patch(Circle(RESTING_NET, NET_RADIUS, zorder=4, **NET_LOOK))
    size = np.ptp(sector, axis=0)
    left, bottom = sector.min(axis=0) - 0.06 * size
    right, top = sector.max(axis=0) + 0.06 * size
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_box_aspect((top - bottom) / (right - left))
    axes.set_xticks([-1.0, -0.5, 0.0])
    _bare(axes)


def _draw_distances(
    axes: Axes, config: RunRecord, target: np.ndarray, contexts: Sequence[np.ndarray]
) -> None:
    """Draws the distances between their bounds: a line a seed, below them the target's."""
    low, high = config.context_space.lower[2], config.context_space.upper[2]
    axes.scatter(
        target[:, 2],
        np.full(len(target), len(contexts)),
        s=4,
        color=TARGET_COLOR,
        linewidths=0,
    )
    for place, (points, color) in enumerate(zip(contexts, PALETTE, strict=False)):
        axes.scatter(
            points[:, 2],
            np.full(len(points), place),
            s=12,
            color=color,
            alpha=0.6,
            linewidths=0,
            zorder=3,
        )
    height = len(contexts) + 1
    axes.add_patch(
        Rectangle(
            (low, -0.6),
            high - low,
            height + 0.2,
            fill=False,
            edgecolor=NEUTRAL,
            linewidth=1.0,
        )
    )
    axes.set_ylim(height - 0.3, -0.7)
    axes.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    axes.set_xticks([1.0, 2.0, 3.0, 4.0])
    axes.set_yticks([])
    _bare(axes)


def _bare(axes: Axes) -> None:
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
