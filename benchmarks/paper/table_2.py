"""Table 2: the two schedules of the self-paced curriculum, final return and iterations to a threshold."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.paper.cells import AGENTS, ENVS, Cell
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.records import (
    Runs,
    compared_return,
    records_of,
    write_report,
)
from spjax.analysis.records import compared_metric
from spjax.analysis.statistics import welch_test
from spjax.analysis.tables import (
    SIGNIFICANCE,
    decimals,
    estimate_text,
    finite_values,
    markdown,
    p_against_paper,
    p_text,
)
from spjax.runs.results import Record

NAME = "table-2"
SCHEDULES = [
    curriculum for curriculum in CURRICULA if curriculum.teacher == "self-paced"
]
PAIRS = [
    [Cell(env, agent, curriculum) for curriculum in SCHEDULES]
    for env, agent in (*product(ENVS, AGENTS), ("ant", "ppo"))
]
CELLS = [cell for pair in PAIRS for cell in pair]
FRACTION = 0.8
CROSSING = "iterations_to_80_percent_of_the_lower_final_return"
WEAK_SIGNIFICANCE = 0.05
HEADER = (
    "task",
    "learner",
    "schedule",
    "seeds",
    "return",
    "paper",
    "p",
    "threshold",
    "iterations",
    "never",
    "paper",
    "p",
)
NOTES = """
Mean ± one standard error over the seeds; p is Welch's against the paper's value (20 seeds). The threshold is 80 % of the lower of
the two final returns in this table, as the paper's is of its own; iterations are interpolated linearly between evaluations, every
5, and a seed that never gets there counts as the last iteration.

Significantly better than the other schedule, by Welch's t-test: **bold** p < 1 %, *italic* p < 5 %.
"""
NOTES_ON_THE_ANT = """
Returns and threshold of the ant are without discount: its printed returns are above 1,172, the largest discounted one that the
printed reward allows. Its environment was never released, and ours is a completion of the printed text.
"""


class Pair(NamedTuple):
    """The records of both schedules."""

    returns: list[Record]
    crossings: list[Record]


def report(runs: Runs, results: Path) -> str:
    """Writes the records and the table of the pairs that are finished, and returns the table in Markdown."""
    pairs = [
        pair_of(cells, runs)
        for cells in PAIRS
        if all(cell.name in runs for cell in cells)
    ]
    rows = [row for pair in pairs for row in _rows(pair)]
    records = [record for pair in pairs for record in (*pair.returns, *pair.crossings)]
    ant = any(record["env"] == "ant" for record in records)
    notes = NOTES + (NOTES_ON_THE_ANT if ant else "")
    return write_report(results, NAME, records, markdown(HEADER, 3, rows) + notes)


def pair_of(cells: Sequence[Cell], runs: Runs, experiment: str = NAME) -> Pair:
    """Returns the records of both schedules of one learner and task; the threshold follows from their final returns."""
    means = [compared_return(runs[cell.name])["mean"] for cell in cells]
    metric = compared_metric(runs[cells[0].name])
    threshold = FRACTION * min(mean for mean in means if mean is not None)
    records = records_of(experiment, cells, runs, threshold)
    return Pair(
        [record for record in records if record["metric"] == metric],
        [
            Record(**{**record, "metric": CROSSING})
            for record in records
            if record["metric"] == "iterations_to_threshold"
        ],
    )


def marks(records: Sequence[Record], higher_is_better: bool) -> list[str]:
    """Returns for each of the two schedules "**", "*" or "": how significantly it is better than the other."""
    first, second = map(finite_values, records)
    p = welch_test(first, second)
    mark = "**" if p < SIGNIFICANCE else "*" if p < WEAK_SIGNIFICANCE else ""
    first_leads = (np.mean(first) > np.mean(second)) == higher_is_better
    return [mark, ""] if first_leads else ["", mark]


def _rows(pair: Pair) -> list[list[str]]:
    returns = _ours(pair.returns, higher_is_better=True)
    crossings = _ours(pair.crossings, higher_is_better=False)
    return [
        [
            final["env"],
            final["agent"].upper(),
            curriculum.label,
            str(len(finite_values(final))),
            ours,
            *_paper(final),
            estimate_text(crossing["threshold"], None, decimals(final["metric"])),
            iterations,
            str(crossing["never_reached"]),
            *_paper(crossing),
        ]
        for curriculum, final, ours, crossing, iterations in zip(
            SCHEDULES, pair.returns, returns, pair.crossings, crossings, strict=True
        )
    ]


def _ours(records: Sequence[Record], higher_is_better: bool) -> list[str]:
    texts = [
        estimate_text(
            record["mean"], record["standard_error"], decimals(record["metric"])
        )
        for record in records
    ]
    return [
        f"{mark}{text}{mark}"
        for text, mark in zip(texts, marks(records, higher_is_better), strict=True)
    ]


def _paper(record: Record) -> tuple[str, str]:
    text = estimate_text(
        record["paper_mean"], record["paper_standard_error"], decimals(record["metric"])
    )
    return text, p_text(p_against_paper(record))
