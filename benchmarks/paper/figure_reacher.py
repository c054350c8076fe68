"""The figure of the reacher: rewards and successes of every method, and where SPRL's contexts are; with a table of the ends.

PPO learns the step-based version of the task, with long obstacles ("hard") and with short ones ("easy").
"""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.paper.cells import Cell
from benchmarks.paper.episodic import (
    COLUMNS,
    cells_of,
    draw_curves,
    finished,
    quantiles_text,
    table_rows,
)
from benchmarks.paper.pictures.curricula import Curriculum
from benchmarks.paper.pictures.episodic import (
    METHODS,
    EpisodicMethod,
    context_ellipses,
)
from benchmarks.paper.records import (
    Runs,
    final_return,
    final_success_rate,
    records_of,
    write_report,
)
from spjax.analysis.style import save
from spjax.analysis.tables import finite_values, markdown
from spjax.runs.read import Run

__all__ = ["CELLS", "NAME", "PPO_CELLS", "report"]

NAME = "figure-reacher"
ENV = "reacher"
PPO = Curriculum("target-mean", None, "PPO")
PPO_CELLS = {
    "hard": Cell("reacher-step", "ppo", PPO, num_seeds=10),
    "easy": Cell(
        "reacher-step",
        "ppo",
        PPO,
        "easy",
        settings={"task.case": "easy"},
        num_seeds=10,
    ),
}
CELLS = [*cells_of(ENV), *PPO_CELLS.values()]
SNAPSHOTS = (10, 50, 110, 180, 300)  # as published
NOTES = """
Medians over the runs, in brackets the 10 % and 90 % quantiles: reward and successes of 50 rollouts in target contexts at the end
of the training (CMA-ES: at the mean of the target, where it learns), and the iterations until 95 % of SPRL's median reward at the
end; in brackets the runs that never get there, which count as the last iteration. An iteration has 50 rollouts. PPO has another
reward, the discounted sum of exp(-2.5 d) over 150 control steps, and as many control steps as the others; an episode of its
is a success where the gripper is at the goal at the end. Times are those of all runs of a method together in one
program, compiling included.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the pictures of what is finished, and returns the table in Markdown."""
    found = finished(ENV, runs)
    rows = table_rows(found, 2)
    rows += [
        _ppo_row(case, runs[cell.name])
        for case, cell in PPO_CELLS.items()
        if cell.name in runs
    ]
    pictures = [
        f"![{caption}]({file.relative_to(results).as_posix()})"
        for caption, file in _draw(found, results)
    ]
    text = "\n\n".join([markdown(COLUMNS, 1, rows) + NOTES.rstrip(), *pictures, ""])
    return write_report(results, NAME, records_of(NAME, CELLS, runs), text)


def _ppo_row(case: str, run: Run) -> list[str]:
    final, rate = map(finite_values, (final_return(run), final_success_rate(run)))
    seconds = None if run.summary is None else run.summary.wall_seconds
    return [
        f"PPO, {case}",
        str(len(final)),
        quantiles_text(final, 1, 2),
        quantiles_text(rate, 100, 0),
        "",
        "" if seconds is None else f"{seconds:.0f}",
    ]


def _draw(found: Mapping[EpisodicMethod, Run], results: Path) -> list[tuple[str, Path]]:
    """Returns the captions and files of the pictures."""
    if not found:
        return []
    folder = results / "pictures" / NAME
    drawn = draw_curves({"reacher": found}, "the reacher", folder)
    if METHODS[0] in found:
        moving = {"reacher": (found[METHODS[0]], SNAPSHOTS)}
        caption = "SPRL's context distribution, two standard deviations, after several iterations"
        drawn.append((caption, save(context_ellipses(moving), folder / "contexts.png")))
    return drawn
