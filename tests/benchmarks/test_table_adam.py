from collections.abc import Callable
from pathlib import Path

from scipy.stats import ttest_ind

from benchmarks.paper import table_2, table_adam
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.records import finished_runs
from spjax.runs.results import read_records

MakeCell = Callable[..., Path]


def test_the_cells_of_table_2_are_trained_with_the_other_epsilon_and_nothing_else() -> (
    None
):
    for after, before in zip(table_adam.AFTER, table_adam.BEFORE, strict=True):
        assert after in table_2.CELLS
        assert before.name == f"{after.name}_before-correction"
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
    make_cell(table_adam.AFTER[1], [9.0, 9.0])
    runs = finished_runs(
        block for cell in table_adam.CELLS for block in blocks_of(cell, tmp_path, 1)
    )
    text = table_adam.report(runs, tmp_path / "results")

    (row,) = (line for line in text.splitlines() if line.startswith("| point-mass"))
    p = ttest_ind([8.0, 9.0, 7.0], [4.0, 5.0], equal_var=False).pvalue
    assert row.strip("| ").split(" | ") == [
        "point-mass-3d",
        "SPDL (ζ)",
        "3",
        "8.00 ± 0.47",
        "7.00",
        "2",
        "4.50 ± 0.35",
        "4.00",
        f"{p:.3f}",
    ]
    records = read_records(tmp_path / "results" / "table-adam.json")
    settings = {
        entry["mean"]: entry["settings"]
        for entry in records
        if entry["metric"] == "discounted_return"
    }
    assert settings == {
        8.0: {},
        4.5: {"agent.adam_epsilon": "before-correction"},
    }
