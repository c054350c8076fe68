"""The cells of the episodic tasks, every episodic method on each, and the rows of their tables."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import Curriculum
from benchmarks.paper.pictures.episodic import (
    METHODS,
    EpisodicMethod,
    quantile_curves,
    rollout_iterations,
)
from benchmarks.paper.records import Runs, final_return, final_success_rate
from spjax.analysis import statistics
from spjax.analysis.style import save
from spjax.analysis.tables import finite_values
from spjax.runs.read import Run
from spjax.runs.results import Record

TITLES = {  # of panels
    "gate-precision": "precision",
    "gate-global": "global",
    "reacher": "reacher",
    "ball-in-a-cup": "ball-in-a-cup",
}
NUM_SEEDS = {  # published: 40 but for ball-in-a-cup
    "gate-precision": 40,
    "gate-global": 40,
    "reacher": 20,
    "ball-in-a-cup": 20,
}
COLUMNS = (  # of `table_rows`
    "method",
    "runs",
    "reward",
    "successes [%]",
    "iterations to 95 %",
    "took [s]",
)
SHARE = 0.95  # of SPRL's median reward at the end


def cell_of(env: str, method: EpisodicMethod) -> Cell:
    """Returns the cell of one method."""
    curriculum = Curriculum(
        method.teacher,
        None,
        method.label,
        in_paper=(env, method.agent) != ("gate-global", "cma-es"),
    )
    return Cell(env, method.agent, curriculum, num_seeds=NUM_SEEDS[env])


def cells_of(*envs: str) -> list[Cell]:
    """Returns the cells of all methods."""
    return [cell_of(env, method) for env in envs for method in METHODS]


def finished(
    env: str, runs: Runs, methods: Sequence[EpisodicMethod] = METHODS
) -> Mapping[EpisodicMethod, Run]:
    """Returns the finished run of each method."""
    cells = {method: cell_of(env, method) for method in methods}
    return {
        method: runs[cell.name] for method, cell in cells.items() if cell.name in runs
    }


def panels(runs: Runs, *envs: str) -> dict[str, dict[EpisodicMethod, Run]]:
    """Returns what is finished and in the paper, of each task that has such a thing, by the title of its panel."""
    found = {}
    for env in envs:
        printed = [one for one in METHODS if cell_of(env, one).curriculum.in_paper]
        methods = dict(finished(env, runs, printed))
        if methods:
            found[TITLES[env]] = methods
    return found


def table_rows(found: Mapping[EpisodicMethod, Run], digits: int) -> list[list[str]]:
    """Returns a row a method: runs, reward, successes, iterations to 95 % of SPRL's median reward, and seconds.

    Where that median is zero, every run is there from the start, and the iterations are left out.

    Args:
        found: the run of each method.
        digits: of the reward, behind the point.
    """
    best = found.get(METHODS[0])
    median = float(np.median(_ends(final_return(best)))) if best else 0.0
    threshold = SHARE * median if median > 0 else None
    return [
        [method.label, *_cells(run, threshold, digits)] for method, run in found.items()
    ]


def draw_curves(
    shown: Mapping[str, Mapping[EpisodicMethod, Run]], task: str, folder: Path
) -> list[tuple[str, Path]]:
    """Draws rewards and successes and returns captions and files.

    Args:
        shown: title of a panel -> the run of each method.
        task: what readers call it.
        folder: for the pictures.
    """
    rewards = quantile_curves(shown, "discounted_return")
    successes = quantile_curves(shown, "success_rate")
    learners = f"of the episodic learners on {task}"
    return [
        (f"Rewards {learners}", save(rewards, folder / "rewards.png")),
        (f"Successes {learners}", save(successes, folder / "success.png")),
    ]


def best_half(run: Run) -> Run:
    """Returns the run with the better half of its seeds alone, ranked by their successes at the end."""
    (group,) = run.groups()
    rates = run.evaluation_curves("success_rate", group).values[:, -1]
    kept = np.argsort(-rates, kind="stable")[: (len(rates) + 1) // 2]
    lanes = tuple(group.lanes[index] for index in sorted(kept.tolist()))
    return run.only(dataclasses.replace(group, lanes=lanes))


def _ends(record: Record) -> np.ndarray:
    return np.asarray(finite_values(record))


def _cells(run: Run, threshold: float | None, digits: int) -> list[str]:
    final, rate = _ends(final_return(run)), _ends(final_success_rate(run))
    seconds = None if run.summary is None else run.summary.wall_seconds
    return [
        str(len(final)),
        quantiles_text(final, 1, digits),
        quantiles_text(rate, 100, 0),
        "" if threshold is None else _crossing(run, threshold),
        "" if seconds is None else f"{seconds:.0f}",
    ]


def _crossing(run: Run, threshold: float) -> str:
    curves = run.evaluation_curves("discounted_return", run.groups()[0])
    places = rollout_iterations(run, curves.iterations)
    crossing = statistics.iterations_to_threshold(places, curves.values, threshold)
    never = f" ({crossing.never_reached} never)" if crossing.never_reached else ""
    return f"{np.median(crossing.iterations):.0f}{never}"


def quantiles_text(values: np.ndarray, scale: float, digits: int) -> str:
    """Returns the median, with the 10 % and 90 % quantiles in brackets."""
    low, middle, high = scale * np.quantile(values, (0.1, 0.5, 0.9))
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
