"""Run folders: what they hold, and that a killed run ends as an undisturbed one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest

import spjax
from spjax.training.train import restore
from tests.training.conftest import tiny

SCRIPT = """
import sys
import spjax
from tests.training.conftest import tiny
spjax.train(tiny(num_iterations=24), sys.argv[1], progress=False) if sys.argv[2] == "train" else spjax.resume(
    sys.argv[1], progress=False)
"""


def leaves(folder):
    _, program, states = restore(folder)
    return jax.tree.leaves(program.to_host(states))


def assert_same_run(left, right):
    for a, b in zip(leaves(left), leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)
    for part in ("metrics", "evaluation", "trajectories.parquet"):
        one, other = pq.read_table(left / part).to_pydict(), pq.read_table(right / part).to_pydict()
        assert one.keys() == other.keys()
        for name in one:
            assert str(one[name]) == str(other[name])  # as text, NaN equals NaN


def start(folder, what):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), what], env=dict(os.environ))


def test_a_process_killed_at_random_moments_and_resumed_ends_with_the_same_bits(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert start(undisturbed, "train").wait() == 0
    process = start(killed, "train")
    moments = random.Random(7)
    for _ in range(2):
        seen = len(list(killed.glob("metrics/*")))
        while process.poll() is None and len(list(killed.glob("metrics/*"))) < seen + 3:
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start(killed, "resume")
    assert process.wait() == 0
    assert_same_run(undisturbed, killed)


def test_a_run_folder_holds_tidy_metrics_and_a_summary(finished):
    metrics = pq.read_table(finished / "metrics").to_pydict()
    assert len(metrics["seed"]) == 3 * 6
    rows = sorted(zip(metrics["seed"], metrics["iteration"], strict=True))
    assert rows == [(seed, iteration) for seed in (1, 2, 3) for iteration in range(1, 7)]
    assert {"discounted_return", "success_rate", "agent.value_loss", "teacher.kl_to_target", "teacher.alpha"} <= set(
        metrics
    )
    assert metrics["environment_steps"] == [256 * iteration for iteration in metrics["iteration"]]
    evaluation = pq.read_table(finished / "evaluation").to_pydict()
    assert sorted(set(evaluation["iteration"])) == [0, 2, 4, 6]
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["finished"] is True
    assert summary["frozen"] == []
    assert [path.name for path in sorted((finished / "checkpoints").iterdir())] == ["000004", "000006"]


def test_an_iteration_count_that_evaluations_do_not_divide_is_kept(tmp_path):
    folder = spjax.train(tiny(num_iterations=3), tmp_path / "odd", progress=False)
    assert sorted(set(pq.read_table(folder / "evaluation")["iteration"].to_pylist())) == [0, 2, 3]
    assert sorted(set(pq.read_table(folder / "metrics")["iteration"].to_pylist())) == [1, 2, 3]


def test_resuming_a_finished_run_leaves_it_as_it_is(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert spjax.resume(finished, progress=False) == finished
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    for path in (copy / "checkpoints" / "000006").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    (copy / "summary.json").unlink()
    spjax.resume(copy, progress=False)
    assert_same_run(finished, copy)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "there is no run folder"),
        (lambda folder: (folder / "config.json").unlink(), "is not a run folder: it has no config.json"),
        (lambda folder: (folder / "config.json").write_text('{"format_ver'), "is half-written or damaged"),
        (
            lambda folder: (folder / "config.json").write_text('{"format_version": 99}'),
            "has format version 99, this spjax reads 1",
        ),
    ],
)
def test_a_run_folder_that_cannot_be_resumed_is_one_sentence(finished, tmp_path, damage, message):
    copy = shutil.copytree(finished, tmp_path / "copy")
    damage(copy)
    with pytest.raises(ValueError, match=message):
        spjax.resume(copy, progress=False)


def test_training_into_a_folder_that_exists_is_refused(finished):
    with pytest.raises(ValueError, match=r"exists already; resume it, or choose another folder$"):
        spjax.train(tiny(), finished, progress=False)


def test_a_full_disk_leaves_what_was_saved_and_the_run_can_go_on(finished, tmp_path, monkeypatch):
    from spjax.training import run_folder

    folder, write, calls = tmp_path / "full", run_folder.write_table, []

    def failing(path, table):
        calls.append(path)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        write(path, table)

    monkeypatch.setattr(run_folder, "write_table", failing)
    with pytest.raises(OSError, match="No space left on device"):
        spjax.train(tiny(), folder, progress=False)
    monkeypatch.undo()
    spjax.resume(folder, progress=False)
    assert_same_run(finished, folder)
