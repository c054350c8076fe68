"""Table 1: final return of every curriculum and learner on both point masses."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paper.cells import AGENTS, ENVS, Cell, cells_of, comparison
from benchmarks.paper.pictures.curricula import CURRICULA, Curriculum
from benchmarks.paper.records import (
    Runs,
    recorded_of,
    records_of,
    write_report,
)
from spjax.analysis.statistics import leaders
from spjax.analysis.tables import (
    SIGNIFICANCE,
    estimate_text,
    finite_values,
    markdown,
    p_against_paper,
    p_text,
)
from spjax.runs.results import Record
from spjax.runs.schema import Estimate

NAME = "table-1"
KEEPS_RECORDS = True  # of cells that are not finished here
CELLS = comparison()
OPEN = "…"  # not trained yet
NOTES = """
Mean discounted return on the target tasks after 400 iterations ± one standard error; {seeds} unless a cell says otherwise. Beside
it the paper's value and the p-value of Welch's t-test between the two (the paper rounds its standard errors). – is not in print:
of the point mass, the paper's Table 1 has neither TRPO nor SPDL (V_LB); what stands there is from its Table 2. {open} is not
trained yet.

Bold: the best curriculum of the column and those that do not differ from it at p < 1 % (Welch). The paper prints bold only where
the best differs from every other; where a column has SPDL and another curriculum in bold, it would have none.

† with the printed hyperparameters, which did better here than those of the released code; unmarked, the released ones did. Both
are in the records. SPGL is not in the paper and takes no part in the comparison.
"""


def report(runs: Runs, results: Path, recorded: Sequence[Record] = ()) -> str:
    """Writes the records and the table of what is finished, and returns the table in Markdown.

    Args:
        runs: the finished cells.
        results: folder to write into.
        recorded: earlier records, which stand for cells that are not finished here.
    """
    records = [
        record
        for cell in CELLS
        for record in (
            records_of(NAME, [cell], runs)
            if cell.name in runs
            else recorded_of(cell, recorded)
        )
    ]
    chosen = {key: entry for key in _places() if (entry := _chosen(*key, records))}
    seeds = Counter(len(finite_values(record)) for record, _ in chosen.values())
    usual = seeds.most_common(1)[0][0] if seeds else 0
    tables = [f"### {env}\n\n{_table(env, chosen, usual)}" for env in ENVS]
    notes = NOTES.format(seeds=f"{usual} seeds", open=OPEN)
    return write_report(results, NAME, records, "\n".join(tables) + notes)


def _places() -> list[tuple[str, str, int]]:
    return [
        (env, agent, row)
        for env in ENVS
        for agent in AGENTS
        for row in range(len(CURRICULA))
    ]


Chosen = dict[tuple[str, str, int], tuple[Record, bool]]


def _chosen(
    env: str, agent: str, row: int, records: Sequence[Record]
) -> tuple[Record, bool] | None:
    """Returns the record that stands in the table, and whether its hyperparameters are the printed ones."""
    finals = [
        (record, cell.printed)
        for cell in cells_of(env, agent, CURRICULA[row])
        for record in recorded_of(cell, records)
        if record["metric"] == "discounted_return"
    ]
    return max(finals, key=lambda entry: entry[0]["mean"] or 0.0, default=None)


def _table(env: str, chosen: Chosen, usual_seeds: int) -> str:
    columns = [
        cell for agent in AGENTS for cell in _columns(env, agent, chosen, usual_seeds)
    ]
    names = [
        curriculum.label + ("" if curriculum.in_paper else " (not in the paper)")
        for curriculum in CURRICULA
    ]
    header = [
        "curriculum",
        *(name for agent in AGENTS for name in (agent.upper(), "paper")),
    ]
    return markdown(header, 1, list(zip(names, *columns, strict=True)))


def _columns(
    env: str, agent: str, chosen: Chosen, usual_seeds: int
) -> tuple[list[str], list[str]]:
    """Returns the cells of one learner: ours and the paper's."""
    entries = [chosen.get((env, agent, row)) for row in range(len(CURRICULA))]
    bold = best_in_print(
        [None if entry is None else entry[0] for entry in entries], CURRICULA
    )
    ours = [
        OPEN if entry is None else _ours(*entry, leads, usual_seeds)
        for entry, leads in zip(entries, bold, strict=True)
    ]
    printed = [Cell(env, agent, curriculum).reference for curriculum in CURRICULA]
    paper = [
        paper_text(known.final if known else None, entry and entry[0], 2)
        for known, entry in zip(printed, entries, strict=True)
    ]
    return ours, paper


def best_in_print(
    records: Sequence[Record | None], curricula: Sequence[Curriculum]
) -> list[bool]:
    """Says which curricula are bold, the best and what does not differ from it; those not in the paper never are."""
    samples = [
        finite_values(record) if record and curriculum.in_paper else []
        for record, curriculum in zip(records, curricula, strict=True)
    ]
    return leaders(samples, SIGNIFICANCE)


def _ours(record: Record, printed: bool, bold: bool, usual_seeds: int) -> str:
    text = estimate_text(record["mean"], record["standard_error"], 2)
    seeds = len(finite_values(record))
    text = f"**{text}**" if bold else text
    return (
        text
        + ("†" if printed else "")
        + ("" if seeds == usual_seeds else f" ({seeds} seeds)")
    )


def paper_text(printed: Estimate | None, ours: Record | None, digits: int) -> str:
    """Returns the published value and how ours compares with it."""
    if printed is None:
        return "–"
    text = estimate_text(*printed, digits)
    return text if ours is None else f"{text} (p {p_text(p_against_paper(ours))})"
