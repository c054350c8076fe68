"""Where the curriculum is (context samples at several iterations) and what the trained agent does (trajectories)."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from spjax.analysis.arrival import NUM_PANELS, panel_iterations
from spjax.analysis.distributions import centres, draw_distribution
from spjax.analysis.style import (
    BAD,
    GOOD,
    MARK,
    NEUTRAL,
    PALETTE,
    Look,
    legend_below,
    styled,
)
from spjax.analysis.text import axis_label
from spjax.runs.read import Run

TARGET_LOOK: Look = {
    "marker": "*",
    "markersize": 13,
    "markerfacecolor": "none",
    "markeredgecolor": MARK,
    "markeredgewidth": 1.2,
}
INITIAL_LOOK: Look = {
    "color": NEUTRAL,
    "linestyle": (0, (3, 2)),
    "linewidth": 1.0,
}
OUTLINE_LOOK: Look = {"color": MARK, "linestyle": "solid", "linewidth": 1.0}
WALL_LOOK: Look = {"color": MARK, "linewidth": 4, "solid_capstyle": "butt"}
SUCCESS_LOOK: Look = {"color": GOOD, "linestyle": "solid"}
FAILURE_LOOK: Look = {"color": BAD, "linestyle": (0, (4, 1.5))}
NUM_LANES = 4  # more colours cannot be told apart


class Trajectory(TypedDict):
    """A row of a run's trajectories: an episode of a final policy, its path in the plane of the pictures."""

    lane: int
    success: bool
    x: list[float]
    y: list[float]


@styled
def context_snapshots(run: Run, iterations: Sequence[int] = ()) -> Figure:
    """Returns samples of the teacher's distribution: a column an iteration, a row a pair of context dimensions.

    The horizontal axis is the first context dimension, the rows are the others. Colours are seeds, the star is the
    mean of the target (one for each component of a mixture), the box shows the bounds.

    Args:
        run: a run whose contexts have two or more dimensions; up to four of its lanes are drawn, evenly spread.
        iterations: those that were evaluated are drawn, or evenly spaced ones if fewer than three were; () for start, half
            way, arrival and end of the curriculum.

    Raises:
        ValueError: the contexts have one dimension.
    """
    space = run.config.context_space
    dim = len(space.names)
    if dim < 2:
        raise ValueError(
            f"context snapshots need two or more context dimensions, {run.config.task_name} has {dim}"
        )
    shown = available(run, iterations) if iterations else panel_iterations(run)
    lanes = evenly_spaced(run.going_on, NUM_LANES)
    contexts = sampled_contexts(run, shown, lanes)

    rows = dim - 1
    figure = Figure(
        figsize=(1.6 * len(shown) + 0.6, 1.75 * rows + 0.8), layout="constrained"
    )
    panels = figure.subplots(rows, len(shown), sharex=True, sharey="row", squeeze=False)
    for column, iteration in enumerate(shown):
        for row in range(rows):
            axes = panels[row, column]
            _draw_frame(axes, run, row + 1)
            for lane, color in zip(lanes, PALETTE, strict=False):
                points = contexts[lane, iteration]
                axes.scatter(
                    points[:, 0],
                    points[:, row + 1],
                    s=12,
                    color=color,
                    alpha=0.75,
                    linewidths=0,
                    zorder=3,
                )
        panels[0, column].set_title(f"iteration {iteration}")
    for row in range(rows):
        panels[row, 0].set_ylabel(
            axis_label(space.names[row + 1], space.units[row + 1])
        )
    figure.supxlabel(axis_label(space.names[0], space.units[0]), fontsize=11)
    handles = seed_handles([run.config.lanes[lane].seed for lane in lanes])
    handles.append(Line2D([], [], label="initial", **INITIAL_LOOK))
    handles.append(Line2D([], [], label="target", **TARGET_LOOK | OUTLINE_LOOK))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(handles),
        handletextpad=0.2,
        columnspacing=1.4,
    )
    return figure


@styled
def context_line(run: Run, iterations: Sequence[int] = ()) -> Figure:
    """Returns samples of the teacher's one-dimensional contexts: a column an iteration.

    Colours are seeds, the line is the mean of the target (one for each component of a mixture), the box shows the bounds.

    Args:
        run: a run whose contexts have one dimension; up to four of its lanes are drawn, evenly spread.
        iterations: as for `context_snapshots`.
    """
    space = run.config.context_space
    shown = available(run, iterations) if iterations else panel_iterations(run)
    lanes = evenly_spaced(run.going_on, NUM_LANES)
    contexts = sampled_contexts(run, shown, lanes)
    figure = Figure(figsize=(1.2 * len(shown) + 1.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.7 / len(lanes)
    for column, iteration in enumerate(shown):
        for number, (lane, color) in enumerate(zip(lanes, PALETTE, strict=False)):
            points = contexts[lane, iteration][:, 0]
            middle = column + (number - (len(lanes) - 1) / 2) * width
            spread = np.linspace(-0.35, 0.35, points.size) * width
            axes.scatter(
                middle + spread, points, s=12, color=color, alpha=0.75, linewidths=0
            )
    for mean in centres(run.config, "target"):
        axes.axhline(mean[0], color=MARK, linewidth=1.2)
    low, high = space.lower[0], space.upper[0]
    axes.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    for bound in (low, high):
        axes.axhline(bound, color=NEUTRAL, linewidth=1.0)
    axes.set_xticks(range(len(shown)), [str(iteration) for iteration in shown])
    axes.set_xlabel("iteration")
    axes.set_ylabel(axis_label(space.names[0], space.units[0]))
    handles = seed_handles([run.config.lanes[lane].seed for lane in lanes])
    handles.append(Line2D([], [], color=MARK, linewidth=1.2, label="target"))
    legend_below(figure, handles)
    return figure


@styled
def trajectory_picture(run: Run) -> Figure:
    """Returns the paths of the trained agents on the target task, with walls, start and goal; failures stand out.

    Raises:
        ValueError: the run has stored no trajectories.
    """
    if run.trajectories is None:
        raise ValueError(
            f"{run.path} has no trajectories yet; they are written when the run ends"
        )
    going_on = pc.field("lane").isin(run.going_on)
    episodes = run.trajectories.filter(going_on).to_pylist()
    successes = [row for row in episodes if row["success"]]
    failures = [row for row in episodes if not row["success"]]
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    draw_walls(axes, run)
    draw_paths(axes, successes, SUCCESS_LOOK, zorder=3)
    draw_paths(axes, failures, FAILURE_LOOK, zorder=4)
    for row in failures:
        axes.plot(
            row["x"][-1],
            row["y"][-1],
            "x",
            color=BAD,
            markersize=6,
            markeredgewidth=1.6,
            zorder=5,
        )
    handles = [
        Line2D([], [], label=f"success: {len(successes)}", **SUCCESS_LOOK),
        Line2D(
            [], [], label=f"failure, × where it ended: {len(failures)}", **FAILURE_LOOK
        ),
        Line2D([], [], label=run.config.scenery_name, **WALL_LOOK),
        *draw_ends(axes, run, episodes),
    ]
    figure.set_size_inches(7.0, 1.6 + 6.2 * axes.dataLim.height / axes.dataLim.width)
    axes.set_aspect("equal")
    axes.set_xlabel(axis_label(run.config.plane[0], "m"))
    axes.set_ylabel(axis_label(run.config.plane[1], "m"))
    seeds = len({row["lane"] for row in episodes})
    title = f"{len(episodes)} episodes of {seeds} seed{'' if seeds == 1 else 's'} on the target task"
    axes.set_title(title, loc="left", color=NEUTRAL, fontsize=10)
    legend_below(figure, handles)
    return figure


def draw_walls(axes: Axes, run: Run) -> None:
    """Draws the walls of the target task."""
    for line in run.config.scenery:
        axes.plot(*np.transpose(line), **WALL_LOOK, zorder=2)


def draw_paths(
    axes: Axes, episodes: Sequence[Trajectory], look: Look, zorder: int
) -> None:
    """Draws the paths, the fainter the more there are."""
    opacity = float(np.clip(15 / max(len(episodes), 1), 0.2, 0.8))
    for row in episodes:
        axes.plot(
            row["x"], row["y"], linewidth=1.0, alpha=opacity, zorder=zorder, **look
        )


def evenly_spaced(items: Sequence[int], count: int) -> list[int]:
    """Returns up to ``count`` of the items, the first and the last among them."""
    positions = np.linspace(0, len(items) - 1, min(count, len(items)))
    return [items[round(position)] for position in positions]


def available(run: Run, iterations: Sequence[int]) -> list[int]:
    """Returns those of the iterations that were evaluated, or evenly spaced ones if fewer than three were."""
    evaluated = sorted(set(run.evaluation["iteration"].to_pylist()))
    wanted = [iteration for iteration in iterations if iteration in evaluated]
    return wanted if len(wanted) > 2 else evenly_spaced(evaluated, NUM_PANELS)


def sampled_contexts(
    run: Run, iterations: Sequence[int], lanes: Sequence[int]
) -> dict[tuple[int, int], Float[np.ndarray, "sample dim"]]:
    """Returns the sampled contexts by lane and iteration."""
    dim = len(run.config.context_space.names)
    rows = run.evaluation.select(["lane", "iteration", "contexts"])
    rows = rows.filter(
        pc.field("iteration").isin(list(iterations))
        & pc.field("lane").isin(list(lanes))
    )
    return {
        (row["lane"], row["iteration"]): np.reshape(row["contexts"], (-1, dim))
        for row in rows.to_pylist()
    }


def _draw_frame(axes: Axes, run: Run, dimension: int) -> None:
    """Draws bounds, initial distribution and target of the first and the given context dimension."""
    draw_bounds(axes, run, dimension)
    config, shown = run.config, [0, dimension]
    draw_distribution(axes, config, "initial", shown, INITIAL_LOOK)
    draw_distribution(axes, config, "target", shown, OUTLINE_LOOK)
    for mean in centres(config, "target"):
        axes.plot(mean[0], mean[dimension], zorder=4, clip_on=False, **TARGET_LOOK)


def draw_bounds(axes: Axes, run: Run, dimension: int) -> None:
    """Draws the bounds of the first and the given context dimension."""
    space = run.config.context_space
    low, high = (
        np.array(space.lower)[[0, dimension]],
        np.array(space.upper)[[0, dimension]],
    )
    size, margin = high - low, 0.08 * (high - low)
    axes.add_patch(
        Rectangle(tuple(low), *size, fill=False, edgecolor=NEUTRAL, linewidth=1.0)
    )
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
    axes.set_xticks([low[0], (low[0] + high[0]) / 2, high[0]])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def seed_handles(seeds: Sequence[int]) -> list[Line2D]:
    """Returns the legend entries of up to as many seeds as there are colours."""
    return [
        Line2D(
            [],
            [],
            color=color,
            label=f"seed {seed}",
            marker="o",
            linestyle="",
            markersize=5,
        )
        for seed, color in zip(seeds, PALETTE, strict=False)
    ]


def draw_ends(
    axes: Axes, run: Run, episodes: Sequence[Trajectory], scale: float = 1.0
) -> list[Line2D]:
    """Marks the start, where all episodes share it, and the goal, and returns their legend entries."""
    starts = {(row["x"][0], row["y"][0]) for row in episodes}
    ends = [(*starts.pop(), "o", "start")] if len(starts) == 1 else []
    ends += [(*run.config.goal, "*", "goal")] if run.config.goal else []
    handles = []
    for x, y, marker, label in ends:
        size = scale * (15 if marker == "*" else 9)
        look: Look = {
            "linestyle": "",
            "marker": marker,
            "markersize": size,
            "color": "white",
            "markeredgecolor": MARK,
        }
        axes.plot(x, y, zorder=6, **look)
        handles.append(Line2D([], [], label=label, **look))
    return handles
