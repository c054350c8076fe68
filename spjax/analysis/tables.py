"""Ours beside the paper's, for the terminal and for Markdown."""

import dataclasses
import math
from collections.abc import Sequence

from rich.table import Table

from spjax.analysis.results import Record
from spjax.analysis.statistics import welch_against_paper
from spjax.analysis.style import setting_text

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
        return self.env, self.agent, self.teacher, self.ours, self.seeds, self.paper, self.p_value


def comparison(records: Sequence[Record], metric: str = "discounted_return") -> list[Row]:
    """Returns a row for each record of the metric, in the given order."""
    return [_row(record) for record in records if record["metric"] == metric]


def terminal_table(records: Sequence[Record], metric: str = "discounted_return") -> Table:
    """Returns the comparison for rich; ours is bold where it differs from the paper's at p < 1 %."""
    table = Table(title=metric.replace("_", " "))
    for name in HEADER:
        table.add_column(name, justify="right" if name in ("ours", "seeds", "paper", "Welch p") else "left")
    for row in comparison(records, metric):
        table.add_row(*_emphasised(row, "[bold]", "[/bold]"))
    return table


def markdown_table(records: Sequence[Record], metric: str = "discounted_return") -> str:
    """Returns the comparison in Markdown; ours is bold where it differs from the paper's at p < 1 %."""
    lines = ["| " + " | ".join(HEADER) + " |", "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    lines += ["| " + " | ".join(_emphasised(row, "**", "**")) + " |" for row in comparison(records, metric)]
    return "\n".join(lines) + "\n"


def _emphasised(row: Row, opening: str, closing: str) -> tuple[str, ...]:
    return (dataclasses.replace(row, ours=f"{opening}{row.ours}{closing}") if row.differs else row).cells


def _row(record: Record) -> Row:
    finite = [value for value in record["values"] if value is not None]
    p = _p_value(record, finite)
    decimals = 0 if record["metric"] == "iterations_to_threshold" else 2
    never = f" ({record['never_reached']} never)" if record["never_reached"] else ""
    seeds = len(record["seeds"])
    return Row(
        env=record["env"],
        agent=record["agent"],
        teacher=_teacher(record),
        ours=_estimate(record["mean"], record["standard_error"], decimals) + never,
        seeds=f"{seeds}" if len(finite) == seeds else f"{len(finite)} of {seeds}",
        paper=_estimate(record["paper_mean"], record["paper_standard_error"], decimals),
        p_value=_p_text(p),
        differs=p < SIGNIFICANCE,
    )


def _p_value(record: Record, finite: list[float]) -> float:
    """Returns the p-value, NaN where there is nothing to test."""
    mean, error = record["paper_mean"], record["paper_standard_error"]
    return math.nan if mean is None or error is None else welch_against_paper(finite, mean, error)


def _teacher(record: Record) -> str:
    schedule = f" ({record['schedule']})" if record["schedule"] else ""
    swept = "".join(f", {name} = {setting_text(value)}" for name, value in record["settings"].items())
    return f"{record['teacher']}{schedule}{swept}"


def _estimate(mean: float | None, error: float | None, decimals: int) -> str:
    if mean is None:
        return "–"
    return f"{mean:.{decimals}f}" + ("" if error is None else f" ± {error:.{decimals}f}")


def _p_text(p: float) -> str:
    if math.isnan(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
