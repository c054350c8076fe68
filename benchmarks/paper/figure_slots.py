"""Ball catching in three layouts of the same steps: many slots for a short time, or one for long, as published.

An iteration has 5,000 control steps, of one environment in the published learners. The preset steps 20 slots 250 times each,
which is fast. But an episode takes up to 200 steps, and those that an iteration's end cuts are bootstrapped, and end in contexts
of an older distribution (`spjax.training.borders`). This trains the same experiment, PPO with SPDL (ζ), in layouts that cut less.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.records import (
    Runs,
    final_return,
    final_success_rate,
    records_of,
    settings_of,
    write_report,
)
from benchmarks.paper.table_1 import paper_text
from spjax.analysis.curves import learning_curve
from spjax.analysis.records import record_of_group
from spjax.analysis.style import save
from spjax.analysis.tables import estimate_text, finite_values, markdown
from spjax.runs.read import Run
from spjax.runs.results import Record

NAME = "figure-slots"
LAYOUTS = ((20, 250), (4, 1250), (1, 5000))  # slots, and control steps of each
NUM_SEEDS = 5
SHARES = {  # metric -> the metric that counts what it is a share of, None for one number an iteration
    "borders.crossed_fraction": "episodes",
    "borders.stale_fraction": "episodes",
    "borders.cut_fraction": None,
}
HEADER = (
    "slots x steps",
    "seeds",
    "return",
    "paper",
    "caught [%]",
    "crossed [%]",
    "older contexts [%]",
    "cut [%]",
)
NOTES = """
Mean ± one standard error over the seeds after 500 iterations of 5,000 steps: the discounted return and the balls caught, both of
200 throws at the target distribution; beside the return the paper's value and the p-value of Welch's t-test between the two (20
seeds there, one environment of 5,000 steps).

Of the episodes that ended in an iteration, "crossed" began before its first step, and "older contexts" have a context that was
drawn before that, by the teacher before its newest update. Of the slots, "cut" were inside an episode after the iteration's last
step, where the critic's value takes the place of what follows. All three over the whole training, as of the evaluated iterations.
"""


def cell_of(num_envs: int, num_steps: int) -> Cell:
    """Returns the cell of a layout."""
    return Cell(
        "ball-catching",
        "ppo",
        CURRICULA[0],
        f"{num_envs}x{num_steps}",
        num_seeds=NUM_SEEDS,
        settings={"agent.num_envs": num_envs, "agent.num_steps": num_steps},
    )


CELLS = [cell_of(*layout) for layout in LAYOUTS]


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the picture of what is finished, and returns the table in Markdown."""
    found = [(cell, runs[cell.name]) for cell in CELLS if cell.name in runs]
    records = records_of(NAME, CELLS, runs)
    records += [entry for cell, run in found for entry in _shares(cell, run)]
    rows = [_row(cell, run) for cell, run in found]
    parts = [markdown(HEADER, 1, rows) + NOTES.rstrip()]
    if found:
        labels = [_label(cell) for cell, _ in found]
        figure = learning_curve([run for _, run in found], labels)
        picture = save(figure, results / "pictures" / NAME / "returns.png")
        caption = "Return of PPO with SPDL on ball catching, by layout"
        parts.append(f"![{caption}]({picture.relative_to(results).as_posix()})")
    return write_report(results, NAME, records, "\n\n".join([*parts, ""]))


def share(run: Run, metric: str) -> Float[np.ndarray, " seed"]:
    """Returns a share over all recorded iterations of each seed: of all episodes together, or the mean over iterations."""
    group = run.groups()[0]
    shares = run.metric_curves(metric, group).values
    counted = SHARES[metric]
    counts = (
        np.ones_like(shares)
        if counted is None
        else run.metric_curves(counted, group).values
    )
    # no share where nothing is counted
    total = np.where(counts > 0, counts * shares, 0.0).sum(axis=1)
    return total / counts.sum(axis=1)


def _shares(cell: Cell, run: Run) -> Iterator[Record]:
    for metric in SHARES:
        values = share(run, metric)
        entry = record_of_group(run, run.groups()[0], NAME, metric, values)
        yield Record(**{**entry, "settings": settings_of(cell)})


def _row(cell: Cell, run: Run) -> list[str]:
    final = final_return(run)
    printed = cell.reference
    return [
        _label(cell),
        str(len(finite_values(final))),
        _estimate(final),
        paper_text(printed.final if printed else None, final, 1),
        _estimate(final_success_rate(run), scale=100),
        *(_estimate(entry, scale=100) for entry in _shares(cell, run)),
    ]


def _label(cell: Cell) -> str:
    num_envs, num_steps = cell.settings.values()
    return f"{num_envs} x {num_steps:,}"


def _estimate(record: Record, scale: float = 1.0) -> str:
    mean, error = record["mean"], record["standard_error"]
    return estimate_text(mean and scale * mean, error and scale * error, 1)
