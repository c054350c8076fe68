"""The figure of the gate: rewards of every episodic method, and where SPRL's contexts are; with a table of the ends."""

from pathlib import Path

import numpy as np

from benchmarks.paper.gate import CELLS, ENVS, finished, panels
from benchmarks.paper.pictures.episodic import (
    METHODS,
    EpisodicMethod,
    context_ellipses,
    quantile_curves,
    rollout_iterations,
)
from benchmarks.paper.records import (
    Runs,
    final_return,
    final_success_rate,
    records_of,
    write_report,
)
from spjax.analysis import statistics
from spjax.analysis.style import save
from spjax.analysis.tables import finite_values, markdown
from spjax.runs.read import Run
from spjax.runs.results import Record

__all__ = ["CELLS", "NAME", "report"]

NAME = "figure-gate"
SNAPSHOTS = {
    "gate-precision": (20, 80, 130, 210, 320),
    "gate-global": (50, 150, 250, 400),
}  # as published
SHARE = 0.95  # of SPRL's median reward at the end
HEADER = (
    "setting",
    "method",
    "runs",
    "reward",
    "successes [%]",
    "iterations to 95 %",
    "took [s]",
)
NOTES = """
Medians over the runs, in brackets the 10 % and 90 % quantiles: reward and successes of 100 rollouts in target contexts at the
end of the training (CMA-ES: at the mean of the target, where it learns), and the iterations until 95 % of SPRL's median reward
at the end, interpolated between evaluations; in brackets the runs that never get there, which count as the last iteration. An
iteration has 100 rollouts. CMA-ES in the global setting, which learns the gate in the middle alone, is not in the paper. Times
are those of all runs of a method together in one program, compiling included.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the pictures of what is finished, and returns the table in Markdown."""
    rows = [row for env in ENVS for row in _rows(env, runs)]
    pictures = [
        f"![{caption}]({file.relative_to(results).as_posix()})"
        for caption, file in _draw(runs, results)
    ]
    text = "\n\n".join([markdown(HEADER, 2, rows) + NOTES.rstrip(), *pictures, ""])
    return write_report(results, NAME, records_of(NAME, CELLS, runs), text)


def _rows(env: str, runs: Runs) -> list[list[str]]:
    found = finished(env, runs)
    best = found.get(METHODS[0])
    threshold = SHARE * _median(final_return(best)) if best else None
    return [
        [ENVS[env], method.label, *_cells(run, threshold)]
        for method, run in found.items()
    ]


def _cells(run: Run, threshold: float | None) -> list[str]:
    final, rate = final_return(run), final_success_rate(run)
    return [
        str(len(finite_values(final))),
        _quantiles(final, 1, 1),
        _quantiles(rate, 100, 0),
        "" if threshold is None else _crossing(run, threshold),
        ""
        if run.summary is None or run.summary.wall_seconds is None
        else f"{run.summary.wall_seconds:.0f}",
    ]


def _crossing(run: Run, threshold: float) -> str:
    curves = run.evaluation_curves("discounted_return", run.groups()[0])
    places = rollout_iterations(run, curves.iterations)
    crossing = statistics.iterations_to_threshold(places, curves.values, threshold)
    never = f" ({crossing.never_reached} never)" if crossing.never_reached else ""
    return f"{np.median(crossing.iterations):.0f}{never}"


def _quantiles(record: Record, scale: float, digits: int) -> str:
    low, middle, high = scale * np.quantile(finite_values(record), (0.1, 0.5, 0.9))
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _median(record: Record) -> float:
    return float(np.median(finite_values(record)))


def _draw(runs: Runs, results: Path) -> list[tuple[str, Path]]:
    """Returns the captions and files of the pictures."""
    shown: dict[str, dict[EpisodicMethod, Run]] = {
        title: dict(found) for title, found in panels(runs).items()
    }
    if not shown:
        return []
    folder = results / "pictures" / NAME
    figure = quantile_curves(shown, "discounted_return")
    drawn = [
        (
            "Reward of the episodic learners on the gate",
            save(figure, folder / "rewards.png"),
        )
    ]
    moving = {
        title: (found[METHODS[0]], SNAPSHOTS[env])
        for env, title in ENVS.items()
        if METHODS[0] in (found := finished(env, runs))
    }
    if moving:
        caption = "SPRL's context distribution, two standard deviations, after several iterations"
        drawn.append((caption, save(context_ellipses(moving), folder / "contexts.png")))
    return drawn
