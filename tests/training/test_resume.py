"""Run folders: what they hold, and that a killed run ends as an undisturbed one."""

import dataclasses
import importlib.util
import io
import json
import os
import random
import re
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
from rich.console import Console

import spjax
from spjax.runs import files
from spjax.runs.checkpoint import Checkpoints, DamagedCheckpoint
from spjax.runs.folder import check_free
from spjax.runs.lock import locked
from spjax.training import progress
from spjax.training.experiment import Metrics
from spjax.training.program import Program, Snapshot
from spjax.training.progress import SweepProgress
from spjax.training.train import Interrupted, restore
from tests.training.conftest import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")

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
        one, other = (
            pq.read_table(left / part).to_pydict(),
            pq.read_table(right / part).to_pydict(),
        )
        assert one.keys() == other.keys()
        for name in one:
            assert str(one[name]) == str(other[name])  # as text, NaN equals NaN


def start(folder, what):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), what],
        env=dict(os.environ),
    )


@pytest.mark.slow
def test_a_process_killed_at_random_moments_and_resumed_ends_with_the_same_bits(
    tmp_path,
):
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
    assert rows == [
        (seed, iteration) for seed in (1, 2, 3) for iteration in range(1, 7)
    ]
    assert {
        "discounted_return",
        "success_rate",
        "agent.value_loss",
        "teacher.kl_to_target",
        "teacher.alpha",
    } <= set(metrics)
    assert metrics["environment_steps"] == [
        256 * iteration for iteration in metrics["iteration"]
    ]
    evaluation = pq.read_table(finished / "evaluation").to_pydict()
    assert sorted(set(evaluation["iteration"])) == [0, 2, 4, 6]
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["finished"] is True
    assert summary["frozen"] == []
    assert [path.name for path in sorted((finished / "checkpoints").iterdir())] == [
        "000004.npz",
        "000006.npz",
    ]


@pytest.mark.slow
def test_an_iteration_count_that_evaluations_do_not_divide_is_kept(tmp_path):
    folder = spjax.train(tiny(num_iterations=3), tmp_path / "odd", progress=False)
    assert sorted(
        set(pq.read_table(folder / "evaluation")["iteration"].to_pylist())
    ) == [0, 2, 3]
    assert sorted(set(pq.read_table(folder / "metrics")["iteration"].to_pylist())) == [
        1,
        2,
        3,
    ]


def test_resuming_a_finished_run_leaves_it_as_it_is(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert spjax.resume(finished, progress=False) == finished
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


@pytest.mark.slow
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before_and_is_named(
    finished, tmp_path, capsys
):
    copy = shutil.copytree(finished, tmp_path / "copy")
    damaged = copy / "checkpoints" / "000006.npz"
    damaged.write_bytes(b"")
    with pytest.warns(DamagedCheckpoint) as warned:
        assert spjax.load_policy(copy, seed=1).iteration == 4
    sentence = str(warned[0].message)
    assert sentence.startswith(f"checkpoint {damaged} cannot be read: ")
    assert sentence.endswith("; iteration 4 takes its place")
    (copy / "summary.json").unlink()
    spjax.resume(copy)
    assert_same_run(finished, copy)
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith(f"checkpoint {damaged} cannot be read: ")
    assert said.endswith("; the run goes on from iteration 4")


@pytest.mark.slow
def test_a_kill_during_the_first_save_after_a_damaged_checkpoint_loses_nothing_more(
    finished, tmp_path, monkeypatch
):
    copy = shutil.copytree(finished, tmp_path / "copy")
    (copy / "checkpoints" / "000006.npz").write_bytes(b"")
    (copy / "summary.json").unlink()

    def killed(*arguments, **options):
        raise OSError("killed")

    monkeypatch.setattr(np.lib.format, "write_array", killed)
    with pytest.raises(OSError, match="killed"):
        spjax.resume(copy, progress=False)
    assert Checkpoints(copy / "checkpoints").iterations() == [4]
    monkeypatch.undo()
    spjax.resume(copy, progress=False)
    assert_same_run(finished, copy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pressed", "message"),
    [
        (2, r"^stopped at iteration 2; continue with: spjax resume "),
        (6, "run is finished$"),
    ],
)
def test_ctrl_c_ends_training_after_a_chunk_and_the_run_goes_on_or_is_finished(
    finished, tmp_path, monkeypatch, capsys, pressed, message
):
    def press(bar, iteration, metrics, snapshot):
        if iteration == pressed:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SweepProgress, "update", press)
    with pytest.raises(Interrupted, match=message):
        spjax.train(tiny(), tmp_path / "run", progress=False)
    assert (
        capsys.readouterr().err
        == "stopping after this chunk; press Ctrl-C again to stop at once\n"
    )
    spjax.resume(tmp_path / "run", progress=False)
    assert_same_run(finished, tmp_path / "run")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "there is no run folder"),
        (
            lambda folder: (folder / "config.json").unlink(),
            "is not a run folder: it has no config.json",
        ),
        (
            lambda folder: (folder / "config.json").write_text('{"format_ver'),
            "is damaged or half-written",
        ),
        (
            lambda folder: (folder / "config.json").write_text(
                '{"format_version": 99}'
            ),
            "has format version 99, this spjax reads 1 and 2; use the spjax that wrote it, or train again",
        ),
    ],
)
def test_a_run_folder_that_cannot_be_resumed_is_one_sentence(
    finished, tmp_path, damage, message
):
    copy = shutil.copytree(finished, tmp_path / "copy")
    damage(copy)
    with pytest.raises(ValueError, match=message):
        spjax.resume(copy, progress=False)


def test_training_into_a_folder_that_exists_is_refused(finished):
    with pytest.raises(
        ValueError, match=r"exists already; resume it, or choose another folder$"
    ):
        spjax.train(tiny(), finished, progress=False)


def test_a_folder_in_which_another_process_begins_is_left_alone(tmp_path):
    with locked(tmp_path):
        with pytest.raises(ValueError, match="another process is training in"):
            spjax.train(tiny(), tmp_path, progress=False)
        assert [file.name for file in tmp_path.iterdir()] == [".lock"]


def test_a_program_that_does_not_compile_claims_no_folder(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()

    def broken(program, length):
        raise TypeError("the carry differs")

    monkeypatch.setattr(Program, "compile", broken)
    for name in ("mine", "new"):
        with pytest.raises(TypeError, match="the carry differs"):
            spjax.train(tiny(), tmp_path / name, progress=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_results_without_a_readable_checkpoint_are_kept_and_not_trained_over(
    finished, tmp_path
):
    copy = shutil.copytree(finished, tmp_path / "copy")
    shutil.rmtree(copy / "checkpoints")
    (copy / "checkpoints" / "000006").mkdir(
        parents=True
    )  # as an earlier version wrote them
    (copy / "summary.json").unlink()
    before = sorted(copy.rglob("*.parquet"))
    with pytest.raises(
        ValueError,
        match=r"has no checkpoint that this spjax reads; train again in another folder$",
    ):
        spjax.resume(copy, progress=False)
    assert sorted(copy.rglob("*.parquet")) == before


def test_what_a_process_left_that_was_killed_before_its_first_file_is_no_run(tmp_path):
    for name in (".lock", ".config.json.tmp"):
        (tmp_path / name).write_text("")
    check_free(tmp_path)
    check_free(tmp_path / "new")
    (tmp_path / "notes.txt").write_text("")
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(
            ValueError, match="exists already; resume it, or choose another folder"
        ):
            check_free(taken)


def test_an_engine_that_is_not_installed_is_said_before_there_is_a_folder(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    config = spjax.preset("ball-catching", teacher="default")
    config = dataclasses.replace(
        config, task=dataclasses.replace(config.task, engine="warp")
    )
    with pytest.raises(ValueError, match="the physics engine 'warp' needs warp-lang"):
        spjax.train(config, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_evaluation_at_the_end_alone_needs_no_room_for_more_iterations(tmp_path):
    folder = spjax.train(
        tiny(num_iterations=2, evaluate_every=10**9), tmp_path / "run", progress=False
    )
    assert pq.read_table(folder / "metrics")["iteration"].to_pylist() == [1, 2] * 3


@pytest.mark.parametrize("seconds", [3.0, 100.0])
def test_the_time_left_is_known_however_long_a_chunk_takes(monkeypatch, seconds):
    monkeypatch.setattr(progress, "describe", lambda metrics, snapshot: "")
    with SweepProgress(
        50, 0, Console(file=io.StringIO(), force_terminal=True), shown=True
    ) as bar:
        now = [0.0]
        monkeypatch.setattr(bar._bar, "get_time", lambda: now[0])
        for iteration in (5, 10, 15):
            now[0] += seconds
            bar.update(
                iteration, object.__new__(Metrics), object.__new__(Snapshot)
            )  # described as ""
        assert bar._bar.tasks[0].time_remaining == 7 * seconds


def shown(monkeypatch, width, terminal):
    """Returns what 20 of 400 iterations show, 10 s a chunk of 10, in a terminal or a pipe of this width."""
    numbers = (
        "return on target 3.27  on curriculum 4.11  KL to target 1.2e+03  alpha 0.02"
    )
    monkeypatch.setattr(progress, "describe", lambda metrics, snapshot: numbers)
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width)
    with SweepProgress(400, 0, console, shown=True) as bar:
        now = [0.0]
        monkeypatch.setattr(bar._bar, "get_time", lambda: now[0])
        for iteration in (10, 20, 30):
            now[0] += 10
            bar.update(iteration, object.__new__(Metrics), object.__new__(Snapshot))
        bar._bar.refresh()
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 140])
def test_iteration_and_time_left_are_never_cut_in_a_terminal(monkeypatch, width):
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown(monkeypatch, width, True))
    last = [line for line in re.split(r"[\r\n]+", text) if "iteration 30" in line][-1]
    assert "iteration 30/400" in last
    assert "ETA 0:06:10" in last
    assert len(last.rstrip()) <= width
    assert ("alpha 0.02" in last) == (width == 140)
    assert ("…" in last) == (width < 140)


def test_a_pipe_gets_lines_with_iteration_and_time_left(monkeypatch):
    lines = shown(monkeypatch, 60, False).splitlines()
    assert lines[0].startswith("iteration 10/400  ETA -:--:--  return on target 3.27")
    assert lines[1].startswith("iteration 30/400  ETA 0:06:10  return on target 3.27")
    assert lines[1].endswith("alpha 0.02")


@pytest.mark.slow
def test_a_full_disk_leaves_what_was_saved_and_the_run_can_go_on(
    finished, tmp_path, monkeypatch
):
    folder, write, calls = tmp_path / "full", files.write_table, []

    def failing(path, table):
        calls.append(path)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        write(path, table)

    monkeypatch.setattr(files, "write_table", failing)
    with pytest.raises(OSError, match="No space left on device"):
        spjax.train(tiny(), folder, progress=False)
    monkeypatch.undo()
    spjax.resume(folder, progress=False)
    assert_same_run(finished, folder)
