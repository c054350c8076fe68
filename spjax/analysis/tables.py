"""Ours beside the paper's, for the terminal and for Markdown."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from spjax.analysis.statistics import welch_against_paper
from spjax.analysis.text import setting_text
from spjax.runs.results import Record
from spjax.runs.schema import Setting

SIGNIFICANCE = 0.01  # of the two-sided Welch test, as in the paper
HEADER = ("env", "agent", "teacher", "ours", "seeds", "paper", "Welch p")


@dataclasses.dataclass(frozen=True)
class Row:
    """One method, as text; `differs` says whether ours is significantly different from the paper's."""

    env: str
    agent: str
    teacher: str
    ours: str
    seeds: str
    paper: str
    p_value: str
    differs: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells in the order of the header."""
        return (
            self.env,
            self.agent,
            self.teacher,
            self.ours,
            self.seeds,
            self.paper,
            self.p_value,
        )


def comparison(
    records: Sequence[Record], metric: str = "discounted_return"
) -> list[Row]:
    """Returns a row for each record of the metric, in the given order."""
    return [_row(record) for record in records if record["metric"] == metric]


def terminal_table(
    records: Sequence[Record],
    metric: str = "discounted_return",
    stopped: Mapping[tuple[tuple[str, Setting], ...], str] | None = None,
) -> Table:
    """Returns the comparison for rich; ours is bold where it differs from the paper's at p < 1 %.

    Args:
        records: of runs.
        metric: whose records.
        stopped: what stands in the place of a result, by settings that stopped early.
    """
    table = Table(title=metric.replace("_", " "))
    for name in HEADER:
        table.add_column(
            name,
            justify="right"
            if name in ("ours", "seeds", "paper", "Welch p")
            else "left",
        )
    chosen = [record for record in records if record["metric"] == metric]
    for record, row in zip(chosen, comparison(records, metric), strict=True):
        said = (stopped or {}).get(tuple(record["settings"].items()))
        row = row if said is None else dataclasses.replace(row, ours=said)
        cells = [Text(cell) for cell in row.cells]  # a bracket in a name is no markup
        if row.differs:
            cells[HEADER.index("ours")].stylize("bold")
        table.add_row(*cells)
    return table


def markdown_table(records: Sequence[Record], metric: str = "discounted_return") -> str:
    """Returns the comparison in Markdown; ours is bold where it differs from the paper's at p < 1 %."""
    return markdown(
        HEADER, 3, [_emphasised(row) for row in comparison(records, metric)]
    )


def markdown(
    header: Sequence[str], num_left: int, rows: Sequence[Sequence[str]]
) -> str:
    """Returns a Markdown table whose first `num_left` columns are aligned to the left, the others to the right."""
    rule = ["---" if column < num_left else "---:" for column in range(len(header))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *rows))


def decimals(metric: str) -> int:
    """Returns how many decimals of a metric are shown."""
    whole = metric.startswith("iterations_to") or metric == "episode_return"
    return 0 if whole else 2


def estimate_text(mean: float | None, error: float | None, decimals: int) -> str:
    """Returns mean ± standard error, or a dash where there is none."""
    if mean is None:
        return "–"
    return f"{mean:.{decimals}f}" + (
        "" if error is None else f" ± {error:.{decimals}f}"
    )


def p_text(p: float) -> str:
    """Returns a p-value as it is printed, or a dash for NaN."""
    if math.isnan(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def finite_values(record: Record) -> list[float]:
    """Returns the values of the seeds that have one."""
    return [value for value in record["values"] if value is not None]


def p_against_paper(record: Record) -> float:
    """Returns the p-value of Welch's t-test against the published value, NaN where there is nothing to test."""
    mean, error = record["paper_mean"], record["paper_standard_error"]
    return (
        math.nan
        if mean is None or error is None
        else welch_against_paper(finite_values(record), mean, error)
    )


def _emphasised(row: Row) -> tuple[str, ...]:
    if row.differs:
        row = dataclasses.replace(row, ours=f"**{row.ours}**")
    return row.cells


def _row(record: Record) -> Row:
    p = p_against_paper(record)
    digits = decimals(record["metric"])
    never = f" ({record['never_reached']} never)" if record["never_reached"] else ""
    seeds, finite = len(record["seeds"]), len(finite_values(record))
    return Row(
        env=record["env"],
        agent=record["agent"],
        teacher=_teacher(record),
        ours=estimate_text(record["mean"], record["standard_error"], digits) + never,
        seeds=f"{seeds}" if finite == seeds else f"{finite} of {seeds}",
        paper=estimate_text(
            record["paper_mean"], record["paper_standard_error"], digits
        ),
        p_value=p_text(p),
        differs=p < SIGNIFICANCE,
    )


def _teacher(record: Record) -> str:
    schedule = f" ({record['schedule']})" if record["schedule"] else ""
    swept = "".join(
        f", {name} = {setting_text(value)}"
        for name, value in record["settings"].items()
    )
    return f"{record['teacher']}{schedule}{swept}"
