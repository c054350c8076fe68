import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from spjax.analysis import load_run, results

MakeRun = Callable[..., Path]


def a_record(**changes: Any) -> results.Record:
    method = {"env": "point-mass-3d", "agent": "ppo", "teacher": "self-paced", "schedule": "bound"}
    content = {"experiment": "table-2", "metric": "discounted_return", "seeds": [1, 2], "values": [8.0, 9.0]}
    return results.record(**(method | content | changes))


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_mean_and_standard_error_come_from_the_values() -> None:
    record = a_record()
    assert record["mean"] == 8.5
    assert record["standard_error"] == pytest.approx(0.5 / np.sqrt(2), rel=1e-14)


def test_a_record_has_every_key_and_null_where_nothing_is_known() -> None:
    record = a_record()
    assert record.keys() == results.Record.__annotations__.keys()
    assert record["paper_mean"] is None
    assert record["wall_seconds"] is None


def test_a_seed_without_a_finite_value_is_kept_as_null_and_left_out_of_the_mean() -> None:
    record = a_record(seeds=[1, 2, 3], values=[8.0, float("nan"), 9.0])
    assert record["values"] == [8.0, None, 9.0]
    assert record["mean"] == 8.5


def test_values_and_seeds_must_match() -> None:
    with pytest.raises(ValueError, match="got 3 values for 2 seeds"):
        a_record(values=[1.0, 2.0, 3.0])


def test_written_records_are_read_back_equal_with_sorted_keys(tmp_path: Path) -> None:
    file = tmp_path / "new" / "table.json"
    records = [a_record(settings={"teacher.kl_proportion": 0.8}), a_record(values=[1.0, float("inf")])]
    results.write_records(file, records)
    assert results.read_records(file) == records
    assert [path.name for path in file.parent.iterdir()] == ["table.json"]
    keys = list(json.loads(file.read_text())[0])
    assert keys == sorted(keys)


def test_a_record_that_is_no_json_leaves_the_old_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    results.write_records(file, [a_record()])
    with pytest.raises(ValueError, match="not JSON compliant"):
        results.write_records(file, [a_record(wall_seconds=float("nan"))])
    assert results.read_records(file) == [a_record()]


def test_a_file_with_other_keys_names_them(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    record: dict[str, Any] = dict(a_record())
    del record["seeds"]
    file.write_text(json.dumps([record | {"score": 1}]))
    with pytest.raises(ValueError, match=r"record 0 of .*: score, seeds"):
        results.read_records(file)


def test_a_run_gives_its_final_values_beside_the_published_ones(make_run: MakeRun) -> None:
    run = load_run(make_run(num_iterations=400, evaluate_every=100))
    final, success = results.records_of_run(run, "table-1")
    last = [row for row in run.evaluation.to_pylist() if row["iteration"] == 400]
    assert final["values"] == [row["discounted_return"] for row in last]
    assert success["values"] == [row["success_rate"] for row in last]
    assert (final["paper_mean"], final["paper_standard_error"]) == (8.45, 0.42)
    assert success["paper_mean"] is None
    assert (final["seeds"], final["iterations"], final["commit"]) == ([1, 2, 3, 4], 400, "0123abc")
    assert (final["wall_seconds"], final["compile_seconds"]) == (81.0, 9.0)


def test_a_run_shorter_than_the_published_ones_is_not_compared_with_them(make_run: MakeRun) -> None:
    records = results.records_of_run(load_run(make_run(num_iterations=390)), "table-1", threshold=5.0)
    assert [record["paper_mean"] for record in records] == [None, None, None]


def test_iterations_to_a_threshold_are_recorded_when_asked_for(make_run: MakeRun) -> None:
    run = load_run(make_run(num_iterations=400))
    reached = results.records_of_run(run, "table-2", threshold=5.0)[2]
    assert (reached["metric"], reached["threshold"], reached["never_reached"]) == ("iterations_to_threshold", 5.0, 0)
    assert reached["paper_mean"] == 165
    curves = run.evaluation_curves("discounted_return", run.groups()[0])
    for value, curve in zip(reached["values"], curves.values, strict=True):
        assert np.interp(value, curves.iterations, curve) == pytest.approx(5.0, rel=1e-9)
    never = results.records_of_run(run, "table-2", threshold=50.0)[2]
    assert (never["values"], never["never_reached"]) == ([400.0] * 4, 4)


def test_a_swept_run_gives_records_for_each_value_and_no_published_ones(make_run: MakeRun) -> None:
    swept = ({"teacher.kl_proportion": 0.8}, {"teacher.kl_proportion": 1.6})
    run = load_run(make_run(swept=swept, num_iterations=400, evaluate_every=100))
    records = results.records_of_run(run, "trade-off")
    assert [record["settings"] for record in records] == [swept[0], swept[0], swept[1], swept[1]]
    assert {record["paper_mean"] for record in records} == {None}


def test_versions_name_what_the_numbers_depend_on() -> None:
    versions = results.versions()
    assert set(versions) == {"jax", "jaxlib", "flax", "optax", "numpy", "scipy", "mujoco", "python", "spjax"}
    assert (versions["jax"], versions["numpy"]) == (jax.__version__, np.__version__)


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert results.versions(["no-such-package-anywhere"])["no-such-package-anywhere"] is None


def test_what_is_measured_here_says_where_and_with_what() -> None:
    fields = {"experiment": "e", "env": "x", "agent": "none", "teacher": "none", "metric": "m"}
    record = results.measured_here(command="make it", packages=["pytest"], seeds=[3], values=[2.0], **fields)
    assert (record["device"], record["commit"], record["command"]) == (results.device(), results.commit(), "make it")
    assert record["versions"] == results.versions() | {"pytest": pytest.__version__}
    assert record["mean"] == 2.0


def test_the_commit_is_that_of_the_source_and_marked_if_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "results.py"
    source.write_text("first")
    monkeypatch.setattr(results, "__file__", str(source))
    assert results.commit() is None  # outside git
    git(tmp_path, "init", "-q")
    assert results.commit() is None  # in somebody else's checkout
    git(tmp_path, "add", "results.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = git(tmp_path, "rev-parse", "--short", "HEAD")
    (tmp_path / "a-run-folder").write_text("an untracked file is no change of the source")
    assert results.commit() == clean
    source.write_text("second")
    assert results.commit() == f"{clean}-dirty"


@pytest.mark.parametrize(
    ("platform", "count", "expected"),
    [
        ("cpu", 2, "3 CPU cores (Fast Chip)"),
        ("gpu", 1, "NVIDIA H100 80GB HBM3"),
        ("gpu", 4, "4 x NVIDIA H100 80GB HBM3"),
    ],
)
def test_the_device_is_said_in_words(monkeypatch: pytest.MonkeyPatch, platform: str, count: int, expected: str) -> None:
    device = SimpleNamespace(platform=platform, device_kind="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(jax, "devices", lambda: [device] * count)
    monkeypatch.setattr(results, "num_cores", lambda: 3)
    monkeypatch.setattr(results, "_cpu_model", lambda: "Fast Chip")
    assert results.device() == expected


def test_this_machine_has_a_name() -> None:
    assert results.device().strip("()0123456789 ")
