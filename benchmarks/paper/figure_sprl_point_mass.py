"""The figure of SPRL beside SPDL on the point mass, over environment steps; with a table of when they get to a return of 5."""

from pathlib import Path

import numpy as np

from benchmarks.paper.cells import ENVS, Cell
from benchmarks.paper.pictures.curricula import CURRICULA, Curriculum
from benchmarks.paper.pictures.episodic import STEPS, returns_over_steps, step_curves
from benchmarks.paper.records import Runs, records_of, write_report
from spjax.analysis import statistics
from spjax.analysis.style import save
from spjax.analysis.tables import estimate_text, markdown
from spjax.runs.read import Run

NAME = "figure-sprl-point-mass"
LEARNER = "trpo"  # of SPDL, as in the paper's figure
SPRL = Curriculum("self-paced-joint", None, "SPRL")
SPDL = CURRICULA[0]
CELLS = [
    cell for env in ENVS for cell in (Cell(env, "sprl", SPRL), Cell(env, LEARNER, SPDL))
]
THRESHOLD = 5.0  # discounted return that the paper speaks of
HEADER = (
    "task",
    "method",
    "seeds",
    "return",
    f"iterations to {THRESHOLD:g}",
    "never",
    "mean curve",
)
NOTES = f"""
Discounted return on the target tasks at the last step that every seed has reached, and environment steps until it is
{THRESHOLD:g}, in iterations of {STEPS:,}: mean ± one standard error over the seeds, of which the last column but one never get
there and count as the end of the run; the last column is when the mean over the seeds gets there. The steps that fill SPRL's
first buffer are counted. The paper says that SPRL needs up to 800 iterations.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the picture of what is finished, and returns the table in Markdown."""
    panels = {env: found for env in ENVS if (found := _finished(env, runs))}
    rows = [
        _row(env, label, run)
        for env, found in panels.items()
        for label, run in found.items()
    ]
    pictures = []
    if panels:
        picture = save(step_curves(panels), results / "pictures" / NAME / "returns.png")
        pictures.append(
            f"![SPRL and SPDL on the point mass]({picture.relative_to(results).as_posix()})"
        )
    text = "\n\n".join([markdown(HEADER, 2, rows) + NOTES.rstrip(), *pictures, ""])
    return write_report(results, NAME, records_of(NAME, CELLS, runs), text)


def _finished(env: str, runs: Runs) -> dict[str, Run]:
    named = {
        "SPRL": Cell(env, "sprl", SPRL),
        f"SPDL, {LEARNER.upper()}": Cell(env, LEARNER, SPDL),
    }
    return {
        label: runs[cell.name] for label, cell in named.items() if cell.name in runs
    }


def _row(env: str, label: str, run: Run) -> list[str]:
    places, returns = returns_over_steps(run)
    final = returns[:, -1]
    crossing = statistics.iterations_to_threshold(places, returns, THRESHOLD)
    whole = statistics.iterations_to_threshold(
        places, statistics.mean(returns)[None], THRESHOLD
    )
    return [
        env,
        label,
        str(len(final)),
        estimate_text(float(final.mean()), float(statistics.standard_error(final)), 2),
        estimate_text(
            float(np.mean(crossing.iterations)),
            float(statistics.standard_error(crossing.iterations)),
            0,
        ),
        str(crossing.never_reached),
        "never" if whole.never_reached else f"{whole.iterations[0]:.0f}",
    ]
