"""What learners trained with different curricula do on the target task, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.paper.pictures.curricula import Curriculum
from spjax.analysis.snapshots import (
    FAILURE_LOOK,
    SUCCESS_LOOK,
    WALL_LOOK,
    draw_ends,
    draw_paths,
    draw_walls,
)
from spjax.analysis.style import NEUTRAL, legend_below, styled
from spjax.runs.read import Run

BEHIND_TEXT: dict[str, Any] = {
    "facecolor": "white",
    "alpha": 0.8,
    "linewidth": 0,
    "pad": 1.0,
}


@styled
def rollout_grid(
    rows: Mapping[str, Mapping[Curriculum, Run]], curricula: Sequence[Curriculum]
) -> Figure:
    """Returns one episode of every seed on the target task: a row a learner, a column a curriculum.

    The number in a panel says how many of the seeds end at the goal.

    Args:
        rows: learner -> its finished runs by curriculum; at least one run.
        curricula: the columns.
    """
    figure = Figure(
        figsize=(1.5 * len(curricula) + 0.4, 1.5 * len(rows) + 0.9),
        layout="constrained",
    )
    panels = figure.subplots(
        len(rows), len(curricula), sharex=True, sharey=True, squeeze=False
    )
    figure.suptitle(
        "one episode a seed; how many of the seeds reach the goal",
        x=0.01,
        ha="left",
        color=NEUTRAL,
        fontsize=10,
    )
    ends: list[Line2D] = []
    for index, (learner, runs) in enumerate(rows.items()):
        panels[index, 0].set_ylabel(learner)
        for axes, curriculum in zip(panels[index], curricula, strict=True):
            axes.set_box_aspect(1)
            axes.tick_params(length=0, labelbottom=False, labelleft=False)
            axes.grid(False)
            axes.spines[:].set_visible(False)
            if curriculum in runs:
                ends = _draw_panel(axes, runs[curriculum])
            else:
                axes.text(
                    0.5,
                    0.5,
                    "not trained",
                    transform=axes.transAxes,
                    ha="center",
                    fontsize=8,
                    color=NEUTRAL,
                )
    for axes, curriculum in zip(panels[0], curricula, strict=True):
        axes.set_title(curriculum.mathematical_label)
    handles = [
        Line2D([], [], label="success", **SUCCESS_LOOK),
        Line2D([], [], label="failure", **FAILURE_LOOK),
    ]
    legend_below(figure, [*handles, Line2D([], [], label="wall", **WALL_LOOK), *ends])
    return figure


def _draw_panel(axes: Axes, run: Run) -> list[Line2D]:
    """Draws the first episode of each seed, and returns the legend entries of start and goal."""
    if run.trajectories is None:
        raise ValueError(
            f"{run.path} has no trajectories yet; they are written when the run ends"
        )
    episodes = [row for row in run.trajectories.to_pylist() if row["episode"] == 0]
    successes = [row for row in episodes if row["success"]]
    draw_walls(axes, run)
    draw_paths(axes, successes, SUCCESS_LOOK, zorder=3)
    draw_paths(
        axes, [row for row in episodes if not row["success"]], FAILURE_LOOK, zorder=4
    )
    text = f"{len(successes)} of {len(episodes)}"
    axes.text(
        0.04,
        0.04,
        text,
        transform=axes.transAxes,
        fontsize=8,
        color=NEUTRAL,
        zorder=7,
        bbox=BEHIND_TEXT,
    )
    return draw_ends(axes, run, episodes, scale=0.6)
