"""What ants do at the gate of the target task: how far they get over time, and the ways they take."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.paper.pictures.curricula import Curriculum
from spjax.analysis.snapshots import WALL_LOOK, draw_walls
from spjax.analysis.style import GOOD, MARK, NEUTRAL, legend_below, styled
from spjax.envs.ant import GOAL_X
from spjax.envs.ant_scene import WALL_X
from spjax.runs.read import Run

PATH_LOOK: dict[str, Any] = {"color": GOOD, "linewidth": 0.6, "alpha": 0.25}
MEDIAN_LOOK: dict[str, Any] = {"color": MARK, "linewidth": 2.4}
GOAL_LOOK: dict[str, Any] = {
    "color": NEUTRAL,
    "linestyle": (0, (5, 4)),
    "linewidth": 1.2,
}


@styled
def fans(runs: Mapping[Curriculum, Run]) -> Figure:
    """Returns the stored episodes on the target task, a column a curriculum.

    Above, x over the control steps, with its median over the episodes that go on; below, the ways over the floor.

    Args:
        runs: finished runs by curriculum, at least one.
    """
    figure = Figure(figsize=(2.2 * len(runs) + 0.8, 5.4), layout="constrained")
    panels = figure.subplots(2, len(runs), sharey="row", sharex="row", squeeze=False)
    for (upper, lower), (curriculum, run) in zip(panels.T, runs.items(), strict=True):
        episodes = _episodes(run)
        _draw_over_time(upper, episodes)
        _draw_ways(lower, run, episodes)
        upper.set_title(f"{curriculum.mathematical_label}, {len(episodes)}")
        upper.set_xlabel("control steps")
        lower.set_xlabel("x [m]")
    panels[0, 0].set_ylabel("x [m]")
    panels[1, 0].set_ylabel("y [m]")
    legend_below(
        figure,
        [
            Line2D([], [], label="an episode", **{**PATH_LOOK, "alpha": 0.8}),
            Line2D([], [], label="median", **MEDIAN_LOOK),
            Line2D([], [], label="wall", **WALL_LOOK),
            Line2D([], [], label="full reward from here on", **GOAL_LOOK),
        ],
    )
    return figure


def median_over_time(
    paths: list[Float[np.ndarray, " step"]],
) -> Float[np.ndarray, " time"]:
    """Returns the median of paths of any lengths at each step, over those that have not ended."""
    longest = max(map(len, paths))
    padded = np.full((len(paths), longest), np.nan)
    for row, path in zip(padded, paths, strict=True):
        row[: len(path)] = path
    return np.nanmedian(padded, axis=0)


def _episodes(run: Run) -> list[dict[str, Any]]:
    if run.trajectories is None:
        raise ValueError(
            f"{run.path} has no trajectories yet; they are written when the run ends"
        )
    return run.trajectories.select(["x", "y"]).to_pylist()


def _draw_over_time(axes: Axes, episodes: list[dict[str, Any]]) -> None:
    for row in episodes:
        axes.plot(row["x"], **PATH_LOOK)
    axes.plot(median_over_time([np.array(row["x"]) for row in episodes]), **MEDIAN_LOOK)
    axes.axhline(WALL_X, **WALL_LOOK, zorder=1)
    axes.axhline(GOAL_X, **GOAL_LOOK)


def _draw_ways(axes: Axes, run: Run, episodes: list[dict[str, Any]]) -> None:
    for row in episodes:
        axes.plot(row["x"], row["y"], **PATH_LOOK)
    draw_walls(axes, run)
    axes.axvline(GOAL_X, **GOAL_LOOK)
    wall = [y for line in run.config.scenery for _, y in line]
    axes.set_ylim(min(wall), max(wall))
