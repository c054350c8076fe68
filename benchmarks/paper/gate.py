"""The cells of the gate: every episodic method in both settings, 40 seeds each."""

from collections.abc import Mapping, Sequence

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import Curriculum
from benchmarks.paper.pictures.episodic import METHODS, EpisodicMethod
from benchmarks.paper.records import Runs
from spjax.runs.read import Run

ENVS = {
    "gate-precision": "precision",
    "gate-global": "global",
}  # and the titles of their panels
NUM_SEEDS = 40


def cell_of(env: str, method: EpisodicMethod) -> Cell:
    """Returns the cell of one method."""
    curriculum = Curriculum(
        method.teacher,
        None,
        method.label,
        in_paper=(env, method.agent) != ("gate-global", "cma-es"),
    )
    return Cell(env, method.agent, curriculum, num_seeds=NUM_SEEDS)


CELLS = [cell_of(env, method) for env in ENVS for method in METHODS]


def finished(
    env: str, runs: Runs, methods: Sequence[EpisodicMethod] = METHODS
) -> Mapping[EpisodicMethod, Run]:
    """Returns the finished run of each method."""
    cells = {method: cell_of(env, method) for method in methods}
    return {
        method: runs[cell.name] for method, cell in cells.items() if cell.name in runs
    }


def panels(runs: Runs) -> dict[str, Mapping[EpisodicMethod, Run]]:
    """Returns what is finished and in the paper, in each setting that has such a thing, by the title of its panel."""
    printed = {
        env: [method for method in METHODS if cell_of(env, method).curriculum.in_paper]
        for env in ENVS
    }
    found = {title: finished(env, runs, printed[env]) for env, title in ENVS.items()}
    return {title: methods for title, methods in found.items() if methods}
