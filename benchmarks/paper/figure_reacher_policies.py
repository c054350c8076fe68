"""The figure of what the final policies of every method do on the reacher, beside the rewards of figure-reacher."""

from pathlib import Path

from benchmarks.paper.episodic import cell_of
from benchmarks.paper.figure_reacher import CELLS, ENV, PPO_CELLS
from benchmarks.paper.pictures.episodic import METHODS
from benchmarks.paper.pictures.rollouts import rollout_grid
from benchmarks.paper.records import Runs
from spjax.analysis.style import save
from spjax.runs.read import Run

__all__ = ["CELLS", "NAME", "RECORDS", "report"]

NAME = "figure-reacher-policies"
RECORDS = "figure-reacher"  # whose records these runs are in
NUM_SEEDS = 10  # as published


def report(runs: Runs, results: Path) -> str:
    """Draws what is finished and returns the caption with the picture; the records are those of figure-reacher."""
    cells = [*(cell_of(ENV, method) for method in METHODS), PPO_CELLS["hard"]]
    found = {
        cell.curriculum: _first_seeds(runs[cell.name])
        for cell in cells
        if cell.name in runs
    }
    if not found:
        return "nothing is finished yet"
    figure = rollout_grid({"reacher": found}, [cell.curriculum for cell in cells])
    picture = save(figure, results / "pictures" / NAME / "policies.png")
    caption = "One movement of ten final policies of every method on the reacher"
    text = f"![{caption}]({picture.relative_to(results).as_posix()})\n"
    (results / f"{NAME}.md").write_text(text, encoding="utf-8")
    return text


def _first_seeds(run: Run) -> Run:
    (group,) = run.groups()
    return run.only(type(group)(group.settings, group.lanes[:NUM_SEEDS]))
