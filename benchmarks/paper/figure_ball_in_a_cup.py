"""The figure of ball-in-a-cup: successes of every episodic method, and where SPRL's contexts are; with a table of the ends."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.paper.cells import Cell
from benchmarks.paper.episodic import (
    COLUMNS,
    best_half,
    cell_of,
    cells_of,
    draw_curves,
    finished,
    table_rows,
)
from benchmarks.paper.pictures.episodic import (
    METHODS,
    EpisodicMethod,
    context_densities,
)
from benchmarks.paper.records import SELECTION, Runs, records_of, write_report
from spjax.analysis.style import save
from spjax.analysis.tables import markdown
from spjax.runs.read import Run
from spjax.runs.results import Record

__all__ = ["CELLS", "NAME", "report"]

NAME = "figure-ball-in-a-cup"
ENV = "ball-in-a-cup"


class Variant(NamedTuple):
    """The task with another setting, on which SPRL and C-REPS are compared too."""

    rows: str  # of the table: what counts
    suffix: str  # of the run folders
    setting: tuple[str, str]
    num_seeds: int

    def cell_of(self, method: EpisodicMethod) -> Cell:
        """Returns the cell of a method."""
        return dataclasses.replace(
            cell_of(ENV, method),
            suffix=self.suffix,
            settings=dict([self.setting]),
            num_seeds=self.num_seeds,
        )


VARIANTS = (
    Variant("ball in the cup", "inside", ("task.catch", "inside"), 10),
    Variant("chain", "chain", ("task.string", "chain"), 3),
)
COMPARED = METHODS[:2]  # SPRL and C-REPS
CELLS = [
    *cells_of(ENV),
    *(one.cell_of(method) for one in VARIANTS for method in COMPARED),
]
SNAPSHOTS = (10, 30, 80, 120, 200)  # published: 5, 30, 80, 120; kept is every tenth
NUM_BEST = 5  # runs at least, in a best half
HEADER = ("runs that count", *COLUMNS)
NOTES = """
The string is a tendon, and a catch what the published distance counts; "ball in the cup" and "chain" are trained with a catch
that asks for that, and with the published string. Medians over the runs, in brackets the 10 % and 90 % quantiles: reward and
successes of 32 rollouts with cups of the target scale at the end of the training (CMA-ES: at the mean of the target, where it
learns), and the iterations until 95 % of SPRL's median reward at the end; in brackets the runs that never get there, which
count as the last iteration. An iteration has 16 rollouts. The paper shows the best half of the runs, ranked by their successes
at the end. Iterations are left out where the median of SPRL is 0. Times are those of all runs of a method together in one
program, compiling included.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the pictures of what is finished, and returns the table in Markdown."""
    found = finished(ENV, runs)
    halves = {method: best_half(run) for method, run in found.items()}
    rows = [["all", *row] for row in table_rows(found, 2)]
    rows += [["best half", *row] for row in table_rows(halves, 2)]
    for variant in VARIANTS:
        names = {method: variant.cell_of(method).name for method in COMPARED}
        trained = {one: runs[name] for one, name in names.items() if name in runs}
        rows += [[variant.rows, *row] for row in table_rows(trained, 2)]
        if variant.num_seeds >= 2 * NUM_BEST:
            better = {method: best_half(run) for method, run in trained.items()}
            rows += [
                [f"{variant.rows}, best half", *row] for row in table_rows(better, 2)
            ]
    pictures = [
        f"![{caption}]({file.relative_to(results).as_posix()})"
        for caption, file in _draw(found, halves, results)
    ]
    text = "\n\n".join([markdown(HEADER, 2, rows) + NOTES.rstrip(), *pictures, ""])
    by_cell = {cell_of(ENV, method).name: run for method, run in halves.items()}
    records = [
        *records_of(NAME, CELLS, runs),
        *map(_of_half, records_of(NAME, CELLS, by_cell)),
    ]
    return write_report(results, NAME, records, text)


def _of_half(record: Record) -> Record:
    return Record(
        **{**record, "settings": {**record["settings"], SELECTION: "best half"}}
    )


def _draw(
    found: Mapping[EpisodicMethod, Run],
    halves: Mapping[EpisodicMethod, Run],
    results: Path,
) -> list[tuple[str, Path]]:
    """Returns the captions and files of the pictures."""
    if not found:
        return []
    folder = results / "pictures" / NAME
    shown = {"best half of the runs, as published": halves, "all runs": found}
    drawn = draw_curves(shown, "ball-in-a-cup", folder)
    if METHODS[0] in found:
        figure = context_densities(found[METHODS[0]], SNAPSHOTS)
        caption = "SPRL's distribution of cup scales after several iterations"
        drawn.append((caption, save(figure, folder / "contexts.png")))
    return drawn
