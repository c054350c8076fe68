"""Adam's epsilon before or after the correction of the moments' bias: PPO with SPDL on the point mass, both ways.

The published libraries have it before (`spjax.agents.step_based.adam`), the presets after; everything else is the same.
"""

import dataclasses
from pathlib import Path

from benchmarks.paper.cells import ENVS, Cell
from benchmarks.paper.records import Runs, final_return, records_of, write_report
from benchmarks.paper.table_2 import SCHEDULES
from spjax.analysis.statistics import welch_test
from spjax.analysis.tables import estimate_text, finite_values, markdown, p_text
from spjax.runs.results import Record

NAME = "table-adam"
AFTER = [Cell(env, "ppo", schedule) for env in ENVS for schedule in SCHEDULES]
BEFORE = [
    dataclasses.replace(
        cell,
        suffix="before-correction",
        settings={"agent.adam_epsilon": "before-correction"},
    )
    for cell in AFTER
]
CELLS = [*AFTER, *BEFORE]
HEADER = (
    "task",
    "schedule",
    "after: seeds",
    "after",
    "lowest",
    "before: seeds",
    "before",
    "lowest",
    "p",
)
NOTES = """
Mean discounted return of PPO on the target tasks after 400 iterations ± one standard error, and the lowest of the seeds, with
Adam's epsilon of 1e-5 after the correction of the moments' bias (the presets) and before it (the published libraries); p is
Welch's between the two.
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
        *_summary(first),
        *_summary(second),
        p_text(p),
    ]


def _summary(record: Record) -> list[str]:
    values = finite_values(record)
    estimate = estimate_text(record["mean"], record["standard_error"], 2)
    return [str(len(values)), estimate, f"{min(values):.2f}"]
