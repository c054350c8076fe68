"""The curricula that are compared: their names in tables and their looks in pictures, the same everywhere."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from spjax.analysis import statistics
from spjax.analysis.curves import (
    METRIC_LABELS,
    REFERENCE_DASHES,
    SPREAD_LABELS,
    Metric,
    Series,
    draw_band,
    iterations_label,
    seeds_text,
)
from spjax.analysis.style import (
    DASHES,
    NEUTRAL,
    from_zero,
    legend_below,
    series_style,
    styled,
)
from spjax.runs.read import Run
from spjax.runs.schema import RunRecord


class Curriculum(NamedTuple):
    """A teacher with its schedule, in the names of the run folder, and what readers call it."""

    teacher: str
    schedule: str | None
    label: str
    in_paper: bool = True
    starred: bool = False  # the paper's asterisk in ball catching; see `is_starred`

    @property
    def look(self) -> tuple[object, str]:
        """Colour and line style; with an asterisk the same colour in another line style."""
        row = [(other.teacher, other.schedule) for other in CURRICULA].index(
            (self.teacher, self.schedule)
        )
        color, dashes = series_style(row, len(CURRICULA))
        return color, DASHES[(row + 2) % len(DASHES)] if self.starred else dashes

    @property
    def mathematical_label(self) -> str:
        """The label as Matplotlib typesets it."""
        return self.label.replace("V_LB", "$V_{LB}$")


ALL_CURRICULA = (
    Curriculum("self-paced", "proportion", "SPDL (ζ)"),
    Curriculum("self-paced", "bound", "SPDL (V_LB)"),
    Curriculum("self-paced", "proportion", "SPDL* (ζ)", starred=True),
    Curriculum("self-paced", "bound", "SPDL* (V_LB)", starred=True),
    Curriculum("alp-gmm", None, "ALP-GMM"),
    Curriculum("goal-gan", None, "GoalGAN"),
    Curriculum("goal-gan", None, "GoalGAN*", starred=True),
    Curriculum("random", None, "Random"),
    Curriculum("default", None, "Default"),
    Curriculum("default", None, "Default*", starred=True),
    Curriculum("spgl", None, "SPGL", in_paper=False),
)
CURRICULA = tuple(curriculum for curriculum in ALL_CURRICULA if not curriculum.starred)


def is_starred(config: RunRecord) -> bool:
    """Says whether the paper marks a run of ball catching with an asterisk.

    It stars SPDL and GoalGAN that start at the initial contexts, and Default without cloned policy.
    """
    if config.task != "ball-catching":
        return False
    return (
        not config.hold_position
        if config.teacher == "default"
        else config.start == "initial"
    )


def curriculum_of(config: RunRecord) -> Curriculum:
    """Returns the curriculum of a run.

    Raises:
        ValueError: it is none of those that are compared.
    """
    starred = is_starred(config)
    for curriculum in ALL_CURRICULA:
        if (
            curriculum[:2] == (config.teacher, config.schedule)
            and curriculum.starred == starred
        ):
            return curriculum
    known = ", ".join(curriculum.label for curriculum in ALL_CURRICULA)
    raise ValueError(
        f"{config.teacher!r}{' with an asterisk' if starred else ''} is none of {known}"
    )


@styled
def curriculum_curves(
    panels: Mapping[str, Sequence[Run]], metric: Metric = "discounted_return"
) -> Figure:
    """Returns the return on the target tasks over the iterations: a panel a task, a curve a curriculum.

    Curves are means, bands two standard errors over the seeds; dashed lines are final returns that the paper prints.

    Args:
        panels: title of a panel -> its runs, one a curriculum, nothing swept.
        metric: which evaluation column.
    """
    figure = Figure(figsize=(10.0, 4.8), layout="constrained")
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    curves: dict[Curriculum, Line2D] = {}
    printed = False
    for axes, (title, runs) in zip(row, panels.items(), strict=True):
        for run in runs:
            curriculum, group = curriculum_of(run.config), run.groups()[0]
            color, dashes = curriculum.look
            recorded = run.evaluation_curves(metric, group)
            band = statistics.two_standard_errors(recorded.values)
            series = Series(run, group, curriculum.mathematical_label, color, dashes)
            curves.setdefault(
                curriculum, draw_band(axes, series, recorded.iterations, band)
            )
            reference = run.config.reference
            if reference and reference.metric == metric:
                printed = True
                axes.axhline(
                    reference.final.mean,
                    color=color,
                    linestyle=REFERENCE_DASHES,
                    linewidth=1.2,
                )
        axes.set_title(title, loc="left")
        axes.set_xlabel(iterations_label(runs))
        axes.set_xlim(left=0)
    from_zero(row)
    row[0].set_ylabel(METRIC_LABELS[metric])
    caption = f"{SPREAD_LABELS['standard-error']}, {seeds_text([run for runs in panels.values() for run in runs])}"
    figure.suptitle(caption, x=0.01, ha="left", color=NEUTRAL, fontsize=10)
    handles = [
        curves[curriculum] for curriculum in ALL_CURRICULA if curriculum in curves
    ]
    look: dict[str, Any] = {
        "color": NEUTRAL,
        "linestyle": REFERENCE_DASHES,
        "linewidth": 1.2,
    }
    if printed:
        handles.append(Line2D([], [], label="the paper's final return", **look))
    legend_below(figure, handles)
    return figure
