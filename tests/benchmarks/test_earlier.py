"""Two equal trainings of one cell, of which only one has curves."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import figure_ball_catching
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.earlier import EARLIER, num_earlier_seeds
from benchmarks.paper.records import final_return, final_success_rate, finished_runs
from spjax.analysis.records import record
from spjax.runs.results import read_records, write_records

MakeCell = Callable[..., Path]
CELL = next(
    cell
    for cell in figure_ball_catching.CELLS
    if cell.name == "ball-catching_trpo_self-paced_bound"
)
RESULTS = Path(figure_ball_catching.__file__).parents[1] / "results"


@pytest.fixture
def with_earlier(make_cell: MakeCell) -> Path:
    """A cell of two seeds, with three of an earlier training whose ends alone are recorded."""
    folder = make_cell(CELL, [50.0, 52.0], success_rates=[0.8, 0.9])
    names = {
        "experiment": "e",
        "env": CELL.env,
        "agent": CELL.agent,
        "teacher": "self-paced",
        "schedule": "bound",
    }
    made = {
        "seeds": [1, 2, 3],
        "wall_seconds": 20.0,
        "commit": "old",
        "device": "an abacus",
        "command": "old command",
    }
    ends = {"discounted_return": [40.0, 30.0, np.nan], "success_rate": [0.1, 0.2, 0.3]}
    write_records(
        folder / EARLIER,
        [
            record(metric=name, values=end, **names, **made)
            for name, end in ends.items()
        ],
    )
    return folder


def test_final_values_are_those_of_both_trainings_and_curves_of_the_later(
    with_earlier: Path, tmp_path: Path
) -> None:
    (run,) = (runs := finished_runs(blocks_of(CELL, tmp_path, 1))).values()
    final, rate = final_return(run), final_success_rate(run)
    assert num_earlier_seeds(run) == 3
    assert (final["seeds"], final["values"]) == (
        [1, 2, 3, 1, 2],
        [40.0, 30.0, None, 50.0, 52.0],
    )
    assert (final["mean"], rate["mean"]) == (43.0, pytest.approx(0.46))
    assert (final["wall_seconds"], final["paper_mean"]) == (100.0, 50.0)
    assert final["device"].startswith("an abacus; ")
    text = figure_ball_catching.report(runs, tmp_path / "results")
    row = next(
        line for line in text.splitlines() if line.startswith("| SPDL (V_LB) | 4 |")
    )
    assert "| **43.0 ± 4.4** |" in row
    assert "Of the first 3 runs only the ends" in text
    (settled,) = [
        entry
        for entry in read_records(tmp_path / "results" / "figure-ball-catching.json")
        if entry["metric"] == figure_ball_catching.SETTLED
    ]
    assert settled["seeds"] == [1, 2]


def test_both_trainings_of_trpo_with_a_bound_are_in_the_recorded_result() -> None:
    records = read_records(RESULTS / "figure-ball-catching.json")
    method = (CELL.agent, CELL.curriculum.teacher, CELL.curriculum.schedule)
    (final,) = [
        entry
        for entry in records
        if entry["metric"] == "discounted_return"
        and (entry["agent"], entry["teacher"], entry["schedule"], entry["settings"])
        == (*method, {})
    ]
    assert len(final["values"]) == 12
    assert (round(final["mean"], 1), round(final["standard_error"], 1)) == (46.8, 2.8)
