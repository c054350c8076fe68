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
    recorded_of,
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
KEEPS_RECORDS = True  # of pairs that are not finished here
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
PUBLISHED_CROSSING = "iterations_to_80_percent_of_the_lower_published_return"
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
    "paper's threshold",
    "iterations",
    "never",
    "paper",
    "p",
)
NOTES = """
Mean ± one standard error over the seeds; p is Welch's against the paper's value (20 seeds). The threshold is 80 % of the lower of
the two final returns in this table, the paper's threshold that of its own. Iterations are interpolated linearly between
evaluations, every 5, and a seed that never gets there counts as the last iteration. The paper's are compared with ours at the
paper's threshold, where the curves are at hand (– elsewhere), else with ours at our own.

Significantly better than the other schedule, by Welch's t-test: **bold** p < 1 %, *italic* p < 5 %.
"""
NOTES_ON_THE_ANT = """
Returns and threshold of the ant are without discount: its printed returns are above 1,172, the largest discounted one that the
printed reward allows. Its environment was never released, and ours is a completion of the printed text.
"""


class Pair(NamedTuple):
    """The records of both schedules."""

    returns: list[Record]
    crossings: list[Record]  # of our threshold
    published: list[Record]  # of the paper's; empty where curves or print are missing


def report(runs: Runs, results: Path, recorded: Sequence[Record] = ()) -> str:
    """Writes the records and the table of the pairs that are finished, and returns the table in Markdown.

    Args:
        runs: the finished cells.
        results: folder to write into.
        recorded: earlier records, which stand for pairs that are not finished here.
    """
    found = [
        pair_of(cells, runs)
        if all(cell.name in runs for cell in cells)
        else _recorded_pair(cells, recorded)
        for cells in PAIRS
    ]
    pairs = [pair for pair in found if pair.returns]
    rows = [row for pair in pairs for row in _rows(pair)]
    records = [record for pair in pairs for part in pair for record in part]
    ant = any(record["env"] == "ant" for record in records)
    notes = NOTES + (NOTES_ON_THE_ANT if ant else "")
    return write_report(results, NAME, records, markdown(HEADER, 3, rows) + notes)


def _recorded_pair(cells: Sequence[Cell], recorded: Sequence[Record]) -> Pair:
    """Returns what is recorded of both schedules, an empty pair where one is missing."""
    records = [record for cell in cells for record in recorded_of(cell, recorded)]
    crossings, published = (
        [record for record in records if record["metric"] == metric]
        for metric in (CROSSING, PUBLISHED_CROSSING)
    )
    returns = [record for record in records if record not in (*crossings, *published)]
    both = len(returns) == len(crossings) == len(cells)
    return Pair(returns, crossings, published) if both else Pair([], [], [])


def pair_of(cells: Sequence[Cell], runs: Runs, experiment: str = NAME) -> Pair:
    """Returns the records of both schedules of one learner and task; the threshold follows from their final returns."""
    means = [compared_return(runs[cell.name])["mean"] for cell in cells]
    metric = compared_metric(runs[cells[0].name])
    threshold = FRACTION * min(mean for mean in means if mean is not None)
    finals = records_of(experiment, cells, runs)
    return Pair(
        [record for record in finals if record["metric"] == metric],
        _crossings(experiment, cells, runs, threshold, CROSSING),
        _at_the_published_threshold(experiment, cells, runs),
    )


def _at_the_published_threshold(
    experiment: str, cells: Sequence[Cell], runs: Runs
) -> list[Record]:
    references = [cell.reference for cell in cells]
    printed = [reference.final.mean for reference in references if reference]
    if len(printed) < len(cells):
        return []
    threshold = FRACTION * min(printed)
    return _crossings(experiment, cells, runs, threshold, PUBLISHED_CROSSING)


def _crossings(
    experiment: str, cells: Sequence[Cell], runs: Runs, threshold: float, name: str
) -> list[Record]:
    return [
        Record(**{**record, "metric": name})
        for record in records_of(experiment, cells, runs, threshold)
        if record["metric"] == "iterations_to_threshold"
    ]


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
    digits = decimals(pair.returns[0]["metric"])
    return [
        [
            final["env"],
            final["agent"].upper(),
            curriculum.label,
            str(len(finite_values(final))),
            returns[row],
            *_paper(final),
            *_crossing(pair.crossings[row], crossings[row], digits),
            *_published(pair, row, digits),
        ]
        for row, (curriculum, final) in enumerate(
            zip(SCHEDULES, pair.returns, strict=True)
        )
    ]


def _published(pair: Pair, row: int, digits: int) -> tuple[str, ...]:
    """Returns threshold, iterations, never, paper and p."""
    if not pair.published:
        return ("–", "–", "–", *_paper(pair.crossings[row]))
    record = pair.published[row]
    return (*_crossing(record, _plain(record), digits), *_paper(record))


def _crossing(record: Record, iterations: str, digits: int) -> tuple[str, str, str]:
    threshold = estimate_text(record["threshold"], None, digits)
    return threshold, iterations, str(record["never_reached"])


def _ours(records: Sequence[Record], higher_is_better: bool) -> list[str]:
    return [
        f"{mark}{_plain(record)}{mark}"
        for record, mark in zip(records, marks(records, higher_is_better), strict=True)
    ]


def _plain(record: Record) -> str:
    return estimate_text(
        record["mean"], record["standard_error"], decimals(record["metric"])
    )


def _paper(record: Record) -> tuple[str, str]:
    text = estimate_text(
        record["paper_mean"], record["paper_standard_error"], decimals(record["metric"])
    )
    return text, p_text(p_against_paper(record))
