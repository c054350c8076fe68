from collections.abc import Callable
from pathlib import Path

from scipy.stats import ttest_ind

from benchmarks.paper import table_2, table_adam
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.records import finished_runs
from spjax.analysis.statistics import welch_against_paper
from spjax.runs.results import read_records

MakeCell = Callable[..., Path]


def test_the_cells_of_table_2_are_trained_with_the_other_epsilon_too_and_nothing_else() -> (
    None
):
    for after, before in zip(table_adam.AFTER, table_adam.BEFORE, strict=True):
        assert before in table_2.CELLS
        assert after.name == f"{before.name}_after-correction"
        first, second = after.config((1, 2)), before.config((1, 2))
        assert first.agent.adam_epsilon == "after-correction"
        assert second.agent.adam_epsilon == "before-correction"
        assert second.agent.replace(adam_epsilon="after-correction") == first.agent
        assert (second.task, second.teacher) == (first.task, first.teacher)


def test_a_pair_is_compared_when_both_are_finished(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    after, before = table_adam.AFTER[0], table_adam.BEFORE[0]
    make_cell(after, [8.0, 9.0, 7.0])
    make_cell(before, [4.0, 5.0])
    make_cell(table_adam.BEFORE[1], [9.0, 9.0])
    runs = finished_runs(
        block for cell in table_adam.CELLS for block in blocks_of(cell, tmp_path, 1)
    )
    text = table_adam.report(runs, tmp_path / "results")

    (row,) = (line for line in text.splitlines() if line.startswith("| point-mass"))
    p = ttest_ind([8.0, 9.0, 7.0], [4.0, 5.0], equal_var=False).pvalue
    of_print = [
        f"{welch_against_paper(values, 8.45, 0.42):.3f}"
        for values in ([8.0, 9.0, 7.0], [4.0, 5.0])
    ]
    assert row.strip("| ").split(" | ") == [
        "point-mass-3d",
        "SPDL (ζ)",
        "8.45 ± 0.42",
        *("3", "8.00 ± 0.47", "7.00", of_print[0]),
        *("2", "4.50 ± 0.35", "4.00", of_print[1]),
        f"{p:.3f}",
    ]
    records = read_records(tmp_path / "results" / "table-adam.json")
    settings = {
        entry["mean"]: entry["settings"]
        for entry in records
        if entry["metric"] == "discounted_return"
    }
    assert settings == {
        8.0: {"agent.adam_epsilon": "after-correction"},
        4.5: {},
    }
