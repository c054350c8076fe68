"""Pictures of episodic learners: their curves over the rollouts, and where SPRL's contexts are."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from spjax.analysis import statistics
from spjax.analysis.curves import (
    SPREAD_LABELS,
    Metric,
    Series,
    draw_band,
    metric_label,
    seeds_text,
)
from spjax.analysis.snapshots import draw_bounds
from spjax.analysis.style import (
    MARK,
    NEUTRAL,
    PALETTE,
    from_zero,
    legend_below,
    series_style,
    styled,
)
from spjax.analysis.text import axis_label
from spjax.runs.read import Run

ROLLOUTS = {  # in an iteration of SPRL and C-REPS, and those that fill their first buffer
    "gate-precision": (100, 900),
    "gate-global": (100, 900),
    "reacher": (50, 450),
    "ball-in-a-cup": (16, 64),
}
STEPS = 2048  # environment steps in an iteration of the step-based learners on the point mass
DEVIATIONS = 2.0  # standard deviations that the ellipses reach


class EpisodicMethod(NamedTuple):
    """A learner with its teacher, in the names of the run folder, and what readers call it."""

    agent: str
    teacher: str
    label: str

    @property
    def look(self) -> tuple[object, str]:
        """Colour and line style."""
        return series_style(METHODS.index(self), len(METHODS))


METHODS = (
    EpisodicMethod("sprl", "self-paced-joint", "SPRL"),
    EpisodicMethod("c-reps", "default", "C-REPS"),
    EpisodicMethod("cma-es", "target-mean", "CMA-ES"),
    EpisodicMethod("c-reps", "goal-gan-episodic", "GoalGAN"),
    EpisodicMethod("c-reps", "sagg-riac", "SAGG-RIAC"),
)


def rollout_iterations(run: Run, iterations: np.ndarray) -> Float[np.ndarray, " point"]:
    """Returns iterations in units of the task's `ROLLOUTS`, the axis that all methods share.

    As published, the rollouts that fill the buffer of C-REPS and SPRL before their first iteration are not counted, and
    the same number of CMA-ES's rollouts lies at 0.
    """
    per_iteration = run.config.rollouts_per_iteration
    if per_iteration is None:
        raise ValueError(f"{run.path} is not a run of an episodic learner")
    unit, first = ROLLOUTS[run.config.task_name]
    uncounted = 0 if per_iteration == unit else first
    return np.maximum(0.0, (iterations * per_iteration - uncounted) / unit)


@styled
def quantile_curves(
    panels: Mapping[str, Mapping[EpisodicMethod, Run]], metric: Metric
) -> Figure:
    """Returns the performance on the target tasks over the rollouts: a panel a task, a curve a method.

    Curves are medians over the seeds, bands reach from the 10 % to the 90 % quantile.

    Args:
        panels: title of a panel -> the run of each method.
        metric: which evaluation column.
    """
    figure = Figure(figsize=(10.0, 4.4), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    curves: dict[EpisodicMethod, Line2D] = {}
    for axes, (title, runs) in zip(row, panels.items(), strict=True):
        for method, run in runs.items():
            group = run.groups()[0]
            recorded = run.evaluation_curves(metric, group)
            series = Series(run, group, method.label, *method.look)
            places = rollout_iterations(run, recorded.iterations)
            curves.setdefault(
                method,
                draw_band(axes, series, places, statistics.quantiles(recorded.values)),
            )
        axes.set_title(title, loc="left")
        unit, _ = ROLLOUTS[next(iter(runs.values())).config.task_name]
        axes.set_xlabel(f"iterations of {unit} rollouts")
        axes.set_xlim(left=0)
    drawn = [run for found in panels.values() for run in found.values()]
    row[0].set_ylabel(metric_label(drawn, metric))
    if metric == "success_rate":
        row[0].set_ylim(-0.02, 1.02)
    figure.suptitle(
        f"{SPREAD_LABELS['quantiles']}, {seeds_text(drawn)}",
        x=0.01,
        ha="left",
        color=NEUTRAL,
        fontsize=10,
    )
    legend_below(figure, [curves[method] for method in METHODS if method in curves])
    return figure


@styled
def context_ellipses(runs: Mapping[str, tuple[Run, Sequence[int]]]) -> Figure:
    """Returns SPRL's context distribution after several iterations, of the first seed: one panel a run.

    Ellipses reach two standard deviations; the black one is the target's, the box shows the bounds.

    Args:
        runs: title of a panel -> the run and the iterations to show.
    """
    figure = Figure(figsize=(5.0 * len(runs), 4.2), layout="constrained")
    row = figure.subplots(1, len(runs), squeeze=False)[0]
    for axes, (title, (run, iterations)) in zip(row, runs.items(), strict=True):
        space, target = run.config.context_space, run.config.target
        draw_bounds(axes, run, 1)
        handles = []
        for index, iteration in enumerate(iterations):
            mean, covariance = context_distribution(run, iteration)
            color = PALETTE[index % len(PALETTE)]
            _draw_ellipse(
                axes,
                mean,
                covariance,
                facecolor=to_rgba(color, 0.25),
                edgecolor=color,
                linewidth=1.8,
            )
            handles.append(
                Line2D(
                    [], [], color=color, linewidth=6, alpha=0.6, label=f"{iteration}"
                )
            )
        _draw_ellipse(
            axes,
            np.array(target.mean),
            np.diag(target.std) ** 2,
            fill=False,
            edgecolor=MARK,
            linewidth=1.8,
        )
        handles.append(Line2D([], [], color=MARK, label="target"))
        axes.set_title(f"{title}, seed {run.config.lanes[0].seed}", loc="left")
        axes.set_xlabel(axis_label(space.names[0], space.units[0]))
        axes.set_ylabel(axis_label(space.names[1], space.units[1]))
        axes.legend(
            handles=handles,
            title="iteration",
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            fontsize=9,
        )
    return figure


@styled
def context_densities(run: Run, iterations: Sequence[int]) -> Figure:
    """Returns the densities of SPRL's one-dimensional contexts after several iterations, of the first seed.

    Each is drawn as high as the others, whatever its width; the black one is the target's.

    Args:
        run: a run of one context dimension.
        iterations: to show.
    """
    space, target = run.config.context_space, run.config.target
    places = np.linspace(space.lower[0], space.upper[0], 801)
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for index, iteration in enumerate(iterations):
        (mean,), ((variance,),) = context_distribution(run, iteration)
        color = PALETTE[index % len(PALETTE)]
        density = np.exp(-((places - mean) ** 2) / (2 * variance))
        axes.fill_between(places, density, color=color, alpha=0.25, linewidth=0)
        axes.plot(places, density, color=color, label=f"iteration {iteration}")
    density = np.exp(-((places - target.mean[0]) ** 2) / (2 * target.std[0] ** 2))
    axes.plot(places, density, color=MARK, label="target")
    axes.set_xlim(space.lower[0], space.upper[0])
    axes.set_ylim(0, 1.05)
    axes.set_xlabel(axis_label(space.names[0], space.units[0]))
    axes.set_ylabel("density / its maximum")
    axes.set_title(f"seed {run.config.lanes[0].seed}", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    return figure


@styled
def step_curves(panels: Mapping[str, Mapping[str, Run]]) -> Figure:
    """Returns the discounted return on the target tasks over the environment steps: a panel a task, a curve a run.

    Curves are means over the seeds, bands two standard errors. A label looks the same in all panels.

    Args:
        panels: title of a panel -> label of a curve -> its run, nothing swept.
    """
    labels = list(dict.fromkeys(label for runs in panels.values() for label in runs))
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    curves: dict[str, Line2D] = {}
    for axes, (title, runs) in zip(row, panels.items(), strict=True):
        for label, run in runs.items():
            places, returns = returns_over_steps(run)
            look = series_style(labels.index(label), len(labels))
            series = Series(run, run.groups()[0], label, *look)
            curves.setdefault(
                label,
                draw_band(
                    axes, series, places, statistics.two_standard_errors(returns)
                ),
            )
        axes.set_title(title, loc="left")
        axes.set_xlabel(f"environment steps [{STEPS:,}]")
        axes.set_xlim(left=0)
    from_zero(row)
    row[0].set_ylabel("discounted return on target tasks")
    drawn = [run for found in panels.values() for run in found.values()]
    caption = f"{SPREAD_LABELS['standard-error']}, {seeds_text(drawn)}"
    figure.suptitle(caption, x=0.01, ha="left", color=NEUTRAL, fontsize=10)
    legend_below(figure, [curves[label] for label in labels])
    return figure


def returns_over_steps(
    run: Run,
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, "seed point"]]:
    """Returns a grid of environment steps, in units of 2,048, and each seed's discounted return there.

    As published, the return between two evaluations is interpolated. The grid begins where every seed has been evaluated
    after its first iteration and ends where the first seed ends.
    """
    group = run.groups()[0]
    evaluated = run.evaluation_curves("discounted_return", group)
    steps = run.metric_curves("environment_steps", group)
    later = evaluated.iterations > 0
    places = (
        steps.values[:, np.searchsorted(steps.iterations, evaluated.iterations[later])]
        / STEPS
    )
    grid = np.arange(np.ceil(places[:, 0].max()), np.floor(places[:, -1].min()) + 1)
    returns = [
        np.interp(grid, x, y)
        for x, y in zip(places, evaluated.values[:, later], strict=True)
    ]
    return grid, np.array(returns)


def context_distribution(
    run: Run, iteration: int
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Returns mean and covariance of the first lane's contexts after an iteration.

    Raises:
        ValueError: the run has no such iteration, or no such distribution.
    """
    columns = [
        "lane",
        "iteration",
        "teacher.context_mean",
        "teacher.context_covariance",
    ]
    if not {*columns} <= {*run.metrics.column_names}:
        raise ValueError(f"{run.path} has no context distribution that moves")
    for row in run.metrics.select(columns).to_pylist():
        if row["lane"] == 0 and row["iteration"] == iteration:
            mean = np.array(row["teacher.context_mean"])
            return mean, np.reshape(
                row["teacher.context_covariance"], (mean.size, mean.size)
            )
    raise ValueError(f"{run.path} has no iteration {iteration}")


def _draw_ellipse(
    axes: Axes, mean: np.ndarray, covariance: np.ndarray, **look: Any
) -> None:
    """Draws where a Gaussian of two dimensions is."""
    variances, directions = np.linalg.eigh(covariance)
    width, height = 2 * DEVIATIONS * np.sqrt(np.maximum(variances, 0.0))
    angle = np.degrees(np.arctan2(directions[1, 0], directions[0, 0]))
    axes.add_patch(
        Ellipse(tuple(mean), width, height, angle=float(angle), zorder=3, **look)
    )
