"""Settings that stopped early are drawn and listed as such, never as finished."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from spjax.analysis.curves import learning_curve
from spjax.analysis.records import records_of_run
from spjax.analysis.snapshots import sampled_contexts
from spjax.analysis.sweep import outcomes_of, sweep_picture
from spjax.analysis.tables import terminal_table
from spjax.cli.report import _remarks, _stopped
from spjax.runs.cuts import Cut, write_cuts
from spjax.runs.read import load_run

SWEPT = tuple({"teacher.schedule.zeta": zeta} for zeta in (0.4, 0.8, 1.6))
CUT = Cut(10, (0, 1), 2.5, 0.1, 3.0, 3, 3)


@pytest.fixture
def run(make_run):
    """A sweep of three settings with two seeds, of which the first stopped after ten of twenty iterations."""
    folder = make_run(swept=SWEPT, seeds=(3, 7))
    for part in folder.glob("*/*.parquet"):
        table = pq.ParquetFile(part).read()
        going_on = (pc.field("iteration") <= 10) | (pc.field("lane") > 1)
        table = table.filter(going_on)
        behind = pc.multiply(pc.less(table["lane"], 2).cast(pa.float64()), 9.0)
        lower = pc.subtract(table["discounted_return"], behind)
        place = table.column_names.index("discounted_return")
        pq.write_table(table.set_column(place, "discounted_return", lower), part)
    write_cuts(folder, [CUT])
    return load_run(folder)


def test_the_lanes_of_a_run_know_whether_they_stopped(run):
    first, second, _ = run.groups()
    assert run.cut(first) == CUT
    assert run.cut(second) is None
    assert run.going_on == [2, 3, 4, 5]
    alone = run.only(first)
    assert alone.cut(alone.groups()[0]) == CUT
    assert alone.going_on == [0, 1]
    assert run.only(second).cuts == ()


def test_what_stopped_has_no_final_return_and_says_why(run):
    records = records_of_run(run, "run")
    assert [record["mean"] is None for record in records[::2]] == [True, False, False]
    console = Console(width=120, record=True)
    console.print(terminal_table(records, stopped=_stopped(run)))
    rows = [line for line in console.export_text().splitlines() if "zeta" in line]
    assert ["stopped after 10" in row for row in rows] == [True, False, False]
    assert _remarks(run, records)[-1].startswith("1 of 3 settings stopped early: ")


def test_what_stopped_before_the_threshold_is_not_said_to_have_got_there_last(run):
    final, crossing = outcomes_of(run)
    assert np.isfinite(final.mean).tolist() == [False, True, True]
    assert not np.isfinite(crossing.mean[0])
    assert sweep_picture(run).get_suptitle().endswith("; 1 of 3 stopped early")


def test_the_curve_of_what_stopped_ends_where_it_stopped(run):
    axes = learning_curve([run], ["curriculum"]).axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert ["stopped after 10" in label for label in labels] == [True, False, False]
    crosses = [line for line in axes.get_lines() if line.get_marker() == "x"]
    assert [line.get_xdata()[0] for line in crosses] == [10]
    assert sampled_contexts(run, [20], run.going_on).keys() == {
        (lane, 20) for lane in (2, 3, 4, 5)
    }
