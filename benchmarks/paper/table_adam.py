"""Adam's epsilon before or after the correction of the moments' bias: PPO with SPDL on the point mass, both ways.

The published libraries have it before (`spjax.agents.step_based.adam`), and so have the presets of the point mass; optax and
PyTorch have it after. Everything else is the same.
"""

import dataclasses
from pathlib import Path

from benchmarks.paper.cells import ENVS, Cell
from benchmarks.paper.records import Runs, final_return, records_of, write_report
from benchmarks.paper.table_2 import SCHEDULES
from spjax.analysis.statistics import welch_test
from spjax.analysis.tables import (
    estimate_text,
    finite_values,
    markdown,
    p_against_paper,
    p_text,
)
from spjax.runs.results import Record

NAME = "table-adam"
BEFORE = [Cell(env, "ppo", schedule) for env in ENVS for schedule in SCHEDULES]
AFTER = [
    dataclasses.replace(
        cell,
        suffix="after-correction",
        settings={"agent.adam_epsilon": "after-correction"},
    )
    for cell in BEFORE
]
CELLS = [*AFTER, *BEFORE]
HEADER = (
    "task",
    "schedule",
    "paper",
    "after: seeds",
    "after",
    "lowest",
    "of print",
    "before: seeds",
    "before",
    "lowest",
    "of print",
    "p",
)
NOTES = """
Mean discounted return of PPO on the target tasks after 400 iterations ± one standard error, and the lowest of the seeds, with
Adam's epsilon of 1e-5 after the correction of the moments' bias and before it (the published libraries, and the presets); p is
Welch's between the two, and "of print" that of each against the paper.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records and the table of the pairs that are finished, and returns the table in Markdown."""
    pairs = [
        (after, before)
        for after, before in zip(AFTER, BEFORE, strict=True)
        if after.name in runs and before.name in runs
    ]
    records = records_of(NAME, [cell for pair in pairs for cell in pair], runs)
    rows = [_row(*pair, runs) for pair in pairs]
    return write_report(results, NAME, records, markdown(HEADER, 2, rows) + NOTES)


def _row(after: Cell, before: Cell, runs: Runs) -> list[str]:
    first, second = (final_return(runs[cell.name]) for cell in (after, before))
    p = welch_test(finite_values(first), finite_values(second))
    return [
        after.env,
        after.curriculum.label,
        estimate_text(second["paper_mean"], second["paper_standard_error"], 2),
        *_summary(first),
        *_summary(second),
        p_text(p),
    ]


def _summary(record: Record) -> list[str]:
    values = finite_values(record)
    estimate = estimate_text(record["mean"], record["standard_error"], 2)
    p = p_text(p_against_paper(record))
    return [str(len(values)), estimate, f"{min(values):.2f}", p]
