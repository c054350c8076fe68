import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spjax.analysis import records as making
from spjax.analysis import statistics
from spjax.runs.provenance import commit, device, versions
from spjax.runs.read import load_run
from spjax.runs.results import Record
from tests.made_run import REFERENCE

MakeRun = Callable[..., Path]


def a_record(**changes: Any) -> Record:
    method = {
        "env": "point-mass-3d",
        "agent": "ppo",
        "teacher": "self-paced",
        "schedule": "bound",
    }
    content = {
        "experiment": "table-2",
        "metric": "discounted_return",
        "seeds": [1, 2],
        "values": [8.0, 9.0],
    }
    return making.record(**(method | content | changes))


def test_mean_and_standard_error_come_from_the_values() -> None:
    record = a_record()
    assert record["mean"] == 8.5
    assert record["standard_error"] == pytest.approx(0.5 / np.sqrt(2), rel=1e-14)


def test_a_record_has_every_key_and_null_where_nothing_is_known() -> None:
    record = a_record()
    assert record.keys() == Record.__annotations__.keys()
    assert record["paper_mean"] is None
    assert record["wall_seconds"] is None


def test_a_seed_without_a_finite_value_is_kept_as_null_and_left_out_of_the_mean() -> (
    None
):
    record = a_record(seeds=[1, 2, 3], values=[8.0, float("nan"), 9.0])
    assert record["values"] == [8.0, None, 9.0]
    assert record["mean"] == 8.5


def test_values_and_seeds_must_match() -> None:
    with pytest.raises(ValueError, match="got 3 values for 2 seeds"):
        a_record(values=[1.0, 2.0, 3.0])


def test_a_run_gives_its_final_values_beside_the_published_ones(
    make_run: MakeRun,
) -> None:
    run = load_run(
        make_run(num_iterations=400, evaluate_every=100, reference=REFERENCE)
    )
    final, success = making.records_of_run(run, "table-1")
    last = [row for row in run.evaluation.to_pylist() if row["iteration"] == 400]
    assert final["values"] == [row["discounted_return"] for row in last]
    assert success["values"] == [row["success_rate"] for row in last]
    assert (final["paper_mean"], final["paper_standard_error"]) == (8.45, 0.42)
    assert success["paper_mean"] is None
    assert (final["seeds"], final["iterations"], final["commit"]) == (
        [1, 2, 3, 4],
        400,
        "0123abc",
    )
    assert (final["wall_seconds"], final["compile_seconds"]) == (81.0, 9.0)


def test_a_run_shorter_than_the_published_ones_is_not_compared_with_them(
    make_run: MakeRun,
) -> None:
    records = making.records_of_run(
        load_run(make_run(num_iterations=390, reference=REFERENCE)),
        "table-1",
        threshold=5.0,
    )
    assert [record["paper_mean"] for record in records] == [None, None, None]


def test_a_return_of_another_kind_that_is_in_print_is_recorded_and_compared(
    make_run: MakeRun,
) -> None:
    printed = dataclasses.replace(REFERENCE, metric="episode_return")
    run = load_run(make_run(num_iterations=400, reference=printed))
    found = making.records_of_run(run, "table-2", threshold=5.0)
    papers = {record["metric"]: record["paper_mean"] for record in found}
    assert papers == {
        "discounted_return": None,
        "episode_return": 8.45,
        "success_rate": None,
        "iterations_to_threshold": 165.0,
    }
    curves = run.evaluation_curves("episode_return", run.groups()[0])
    assert found[1]["values"] == curves.values[:, -1].tolist()
    crossing = statistics.iterations_to_threshold(curves.iterations, curves.values, 5.0)
    assert found[3]["values"] == crossing.iterations.tolist()


def test_iterations_to_a_threshold_are_recorded_when_asked_for(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(num_iterations=400, reference=REFERENCE))
    reached = making.records_of_run(run, "table-2", threshold=5.0)[2]
    assert (reached["metric"], reached["threshold"], reached["never_reached"]) == (
        "iterations_to_threshold",
        5.0,
        0,
    )
    assert reached["paper_mean"] == 165
    curves = run.evaluation_curves("discounted_return", run.groups()[0])
    for value, curve in zip(reached["values"], curves.values, strict=True):
        assert np.interp(value, curves.iterations, curve) == pytest.approx(
            5.0, rel=1e-9
        )
    never = making.records_of_run(run, "table-2", threshold=50.0)[2]
    assert (never["values"], never["never_reached"]) == ([400.0] * 4, 4)


def test_a_swept_run_gives_records_for_each_value_and_no_published_ones(
    make_run: MakeRun,
) -> None:
    swept = ({"teacher.schedule.zeta": 0.8}, {"teacher.schedule.zeta": 1.6})
    run = load_run(
        make_run(
            swept=swept, num_iterations=400, evaluate_every=100, reference=REFERENCE
        )
    )
    records = making.records_of_run(run, "trade-off")
    assert [record["settings"] for record in records] == [
        swept[0],
        swept[0],
        swept[1],
        swept[1],
    ]
    assert {record["paper_mean"] for record in records} == {None}


def test_what_is_measured_here_says_where_and_with_what() -> None:
    fields = {
        "experiment": "e",
        "env": "x",
        "agent": "none",
        "teacher": "none",
        "metric": "m",
    }
    record = making.measured_here(
        command="make it", packages=["pytest"], seeds=[3], values=[2.0], **fields
    )
    assert (record["device"], record["commit"], record["command"]) == (
        device(),
        commit(),
        "make it",
    )
    assert record["versions"] == versions() | {"pytest": pytest.__version__}
    assert record["mean"] == 2.0


def test_a_run_that_carries_no_published_results_stands_alone(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(num_iterations=400, evaluate_every=100))
    assert [
        entry["paper_mean"]
        for entry in making.records_of_run(run, "mine", threshold=5.0)
    ] == [None, None, None]
