"""The cells of the published tables: which runs they need, and how far those are."""

import dataclasses
from pathlib import Path

import spjax


@dataclasses.dataclass(frozen=True)
class Cell:
    """One learner and curriculum on one task."""

    env: str
    agent: str
    teacher: str
    schedule: str | None
    threshold: (
        float | None
    )  # return whose first crossing counts: 80 % of the lower of the two schedules' published returns

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return "_".join(part for part in (self.env, self.agent, self.teacher, self.schedule) if part)


TEACHERS = (("self-paced", "proportion"), ("self-paced", "bound"), ("default", None), ("random", None))


def point_mass_cells(env: str, agent: str, threshold: float) -> list[Cell]:
    """Returns the curricula of one learner on a point mass."""
    return [Cell(env, agent, *teacher, threshold) for teacher in TEACHERS]


EXPERIMENTS: dict[str, list[Cell]] = {
    "point-mass-ppo": [
        *point_mass_cells("point-mass-3d", "ppo", 0.8 * 8.45),
        *point_mass_cells("point-mass-2d", "ppo", 0.8 * 8.94)[:2],
    ],
}


def state(cell: Cell, runs: Path) -> str:
    """Returns "finished", "to be resumed" or "to be trained"."""
    folder = runs / cell.name
    if (folder / "summary.json").is_file():
        return "finished"
    return "to be resumed" if (folder / "config.json").is_file() else "to be trained"


def train_cell(cell: Cell, runs: Path, num_seeds: int) -> None:
    """Trains a cell to its end, from its newest checkpoint if it has one."""
    folder = runs / cell.name
    if state(cell, runs) == "to be resumed":
        spjax.resume(folder)
        return
    config = spjax.preset(cell.env, cell.agent, cell.teacher, cell.schedule)
    config = dataclasses.replace(config, seeds=tuple(range(1, num_seeds + 1)))
    spjax.train(config, folder, command=f"python -m benchmarks.paper {experiment_of(cell)}")


def experiment_of(cell: Cell) -> str:
    """Returns the first experiment that has the cell."""
    return next(name for name, cells in EXPERIMENTS.items() if cell in cells)
