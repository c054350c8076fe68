"""How far the contexts of every single seed are from the target: what a mean over seeds hides."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure

from benchmarks.paper.pictures.curricula import Curriculum
from spjax.analysis.arrival import AT_TARGET, evaluated_distances
from spjax.analysis.curves import seeds_text
from spjax.analysis.style import NEUTRAL, styled
from spjax.runs.read import Run

SCALE = ListedColormap(
    colormaps["plasma_r"](np.linspace(0.12, 1.0, 256))
)  # less the end that hardly shows on white


@styled
def distance_curves(
    panels: Mapping[str, Mapping[Curriculum, Run]], curricula: Sequence[Curriculum]
) -> Figure:
    """Returns KL(p || target) over the iterations: a row a learner, a column a curriculum, a line a seed.

    The colour of a line is the final discounted return of its seed.

    Args:
        panels: learner -> its finished runs by curriculum, nothing swept; at least one run.
        curricula: the columns.
    """
    shown = [run for runs in panels.values() for run in runs.values()]
    returns = np.concatenate([_final_returns(run) for run in shown])
    colors = ScalarMappable(Normalize(np.nanmin(returns), np.nanmax(returns)), SCALE)
    figure = Figure(
        figsize=(2.3 * len(curricula) + 1.2, 2.1 * len(panels) + 0.7),
        layout="constrained",
    )
    grid = figure.subplots(
        len(panels), len(curricula), sharex=True, sharey=True, squeeze=False
    )
    for row, (learner, runs) in zip(grid, panels.items(), strict=True):
        row[0].set_ylabel(f"{learner}\nKL to the target [nats]")
        for axes, curriculum in zip(row, curricula, strict=True):
            if curriculum in runs:
                _draw_seeds(axes, runs[curriculum], colors)
            else:
                axes.text(
                    0.5,
                    0.5,
                    "not trained",
                    ha="center",
                    transform=axes.transAxes,
                    fontsize=8,
                    color=NEUTRAL,
                )
    for top, bottom, curriculum in zip(grid[0], grid[-1], curricula, strict=True):
        top.set_title(curriculum.mathematical_label)
        bottom.set_xlabel("iteration")
    grid[0, 0].set_yscale("log")
    grid[0, 0].set_ylim(bottom=0.9 * AT_TARGET)
    grid[0, 0].set_xlim(left=0)
    figure.colorbar(colors, ax=grid, label="final discounted return", aspect=30)
    figure.suptitle(
        f"a line a seed, {seeds_text(shown)}",
        x=0.01,
        ha="left",
        color=NEUTRAL,
        fontsize=10,
    )
    return figure


def _draw_seeds(axes: Axes, run: Run, colors: ScalarMappable) -> None:
    distances = evaluated_distances(run, run.groups()[0])
    for values, final in zip(distances.values, _final_returns(run), strict=True):
        axes.plot(
            distances.iterations,
            np.maximum(values, AT_TARGET),
            color=colors.to_rgba(final),
            linewidth=1.4,
        )


def _final_returns(run: Run) -> Float[np.ndarray, " seed"]:
    return run.evaluation_curves("discounted_return", run.groups()[0]).values[:, -1]
