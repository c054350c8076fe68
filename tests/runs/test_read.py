import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spjax.runs.read import load_run

MakeRun = Callable[..., Path]


def edit_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_finished_run_is_read_whole(make_run: MakeRun) -> None:
    run = load_run(make_run(frozen=(2,)))
    config = run.config
    assert (config.task, config.agent, config.teacher, config.schedule) == (
        *("point-mass-3d", "ppo", "self-paced", "proportion"),
    )
    assert (config.variant, config.start) == ("published", "initial")
    assert [lane.seed for lane in run.config.lanes] == [1, 2, 3, 4]
    assert run.config.context_space.units == ("m", "m", "1/s")
    assert run.config.target.mean == (2.5, 0.5, 0.0)
    assert run.config.scenery[0] == ((-4.0, 0.0), (2.25, 0.0))
    assert run.summary is not None
    assert run.summary.wall_seconds == 81.0
    assert (run.metrics.num_rows, run.evaluation.num_rows) == (4 * 20, 4 * 5)
    assert run.trajectories is not None
    assert run.last_evaluated_iteration == 20
    assert run.num_frozen(run.groups()[0]) == 1


def test_a_run_that_goes_on_has_no_summary_and_no_trajectories(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(finished=False))
    assert (run.summary, run.trajectories) == (None, None)
    assert run.num_frozen(run.groups()[0]) == 0


def test_curves_have_a_row_a_lane_whatever_the_order_of_the_rows(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run())
    group = run.groups()[0]
    curves = run.evaluation_curves("discounted_return", group)
    assert curves.iterations.tolist() == [0, 5, 10, 15, 20]
    rows = run.evaluation.to_pylist()
    expected = {
        (row["lane"], row["iteration"]): row["discounted_return"] for row in rows
    }
    for lane in group.lanes:
        assert curves.values[lane].tolist() == [
            expected[lane, k] for k in curves.iterations
        ]
    assert run.metric_curves("environment_steps", group).values[3].tolist() == [
        2048 * k for k in range(1, 21)
    ]


def test_lanes_of_a_sweep_are_grouped_by_their_settings(make_run: MakeRun) -> None:
    swept = ({"teacher.schedule.zeta": 0.8}, {"teacher.schedule.zeta": 1.6})
    run = load_run(make_run(seeds=(7, 9), swept=swept))
    groups = run.groups()
    assert [group.settings for group in groups] == list(swept)
    assert [group.lanes for group in groups] == [(0, 1), (2, 3)]
    assert [run.seeds(group) for group in groups] == [[7, 9], [7, 9]]
    values = run.evaluation_curves("discounted_return", groups[1]).values
    everything = {
        (row["lane"], row["iteration"]): row["discounted_return"]
        for row in run.evaluation.to_pylist()
    }
    np.testing.assert_array_equal(values[:, -1], [everything[2, 20], everything[3, 20]])


def test_a_swept_vector_groups_lanes_too(make_run: MakeRun) -> None:
    run = load_run(
        make_run(
            seeds=(1,),
            swept=({"target_mean": [2.5, 0.5, 0.0]}, {"target_mean": [1.0, 0.5, 0.0]}),
        )
    )
    assert [group.settings["target_mean"] for group in run.groups()] == [
        (2.5, 0.5, 0.0),
        (1.0, 0.5, 0.0),
    ]


def test_a_lane_without_a_row_is_nan(make_run: MakeRun) -> None:
    folder = make_run()
    part = folder / "evaluation" / "000001.parquet"
    table = pq.ParquetFile(part).read()
    pq.write_table(
        table.filter((pc.field("lane") != 1) | (pc.field("iteration") != 20)), part
    )
    run = load_run(folder)
    values = run.evaluation_curves("discounted_return", run.groups()[0]).values
    assert np.argwhere(np.isnan(values)).tolist() == [[1, 4]]


def test_a_metric_counts_as_recorded_if_it_ever_was_other_than_zero(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(num_iterations=10))
    assert run.has_metric("teacher.kl_to_target")
    assert not run.has_metric("teacher.alpha")  # 0 in the first ten iterations
    assert not run.has_metric("teacher.unknown")


def test_temporary_files_of_a_killed_run_do_not_count(make_run: MakeRun) -> None:
    folder = make_run()
    (folder / "evaluation" / ".000002.parquet.tmp").write_bytes(b"half")
    (folder / "evaluation" / "part.parquet").write_bytes(b"half")
    assert load_run(folder).evaluation.num_rows == 20


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no run folder .*nothing"):
        load_run(tmp_path / "nothing")


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"is not a run folder: it has no config\.json"
    ):
        load_run(tmp_path)


@pytest.mark.parametrize("keep", [0, 100, -2])
def test_a_half_written_configuration_is_called_so(
    make_run: MakeRun, keep: int
) -> None:
    folder = make_run()
    file = folder / "config.json"
    file.write_text(file.read_text()[:keep])
    with pytest.raises(ValueError, match=r"config\.json is damaged or half-written"):
        load_run(folder)


@pytest.mark.parametrize(
    "damage", [{"lanes": None}, {"context_space": [1]}, {"target": 3}]
)
def test_a_configuration_of_other_types_is_called_damaged(
    make_run: MakeRun, damage: dict
) -> None:
    folder = make_run()
    edit_config(folder, **damage)
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        load_run(folder)


def test_a_configuration_without_an_entry_names_it(make_run: MakeRun) -> None:
    folder = make_run()
    config = json.loads((folder / "config.json").read_text())
    del config["lanes"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json lacks the entry 'lanes'"):
        load_run(folder)


def test_another_format_version_is_refused_with_both_versions(
    make_run: MakeRun,
) -> None:
    folder = make_run()
    edit_config(folder, format_version=7)
    with pytest.raises(
        ValueError, match=r"format version 7, this spjax reads 1 and 2; use the spjax"
    ):
        load_run(folder)


def test_a_run_without_evaluation_says_so(make_run: MakeRun) -> None:
    folder = make_run()
    for part in (folder / "evaluation").iterdir():
        part.unlink()
    with pytest.raises(ValueError, match=r"is finished, but its evaluation is missing"):
        load_run(folder)
    (folder / "summary.json").unlink()
    with pytest.raises(ValueError, match=r"has no evaluation yet; wait"):
        load_run(folder)


def test_an_unknown_column_is_answered_with_the_known_ones(make_run: MakeRun) -> None:
    run = load_run(make_run())
    with pytest.raises(
        ValueError, match=r"no column 'reward', only lane, seed, iteration"
    ):
        run.evaluation_curves("reward", run.groups()[0])
