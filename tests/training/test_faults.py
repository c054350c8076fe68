"""Whatever goes wrong outside: nothing is lost, one sentence says what happened, and the run goes on to the same bits."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

import spjax
from spjax.cli import main
from spjax.runs import files
from spjax.runs.lock import locked
from spjax.training import train as training
from spjax.training.progress import SweepProgress
from spjax.training.train import Interrupted
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run

pytestmark = pytest.mark.usefixtures("compiled_once")

SHORT = tiny(num_iterations=2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run folder of one chunk of three lanes."""
    folder = tmp_path_factory.mktemp("short") / "run"
    return spjax.train(SHORT, folder, progress=False)


def disk_full_at(monkeypatch, number):
    """Lets the so many-th file of a run find no room."""
    replace, count = os.replace, itertools.count(1)

    def failing(source, target):
        of_run = target.name != "speeds.json"
        if of_run and next(count) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", failing)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [3, 2])
def test_a_disk_that_is_full_at_any_write_loses_nothing(
    undisturbed, tmp_path, monkeypatch, at_once
):
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        disk_full_at(monkeypatch, number)
        with suppress(OSError):
            spjax.train(SHORT, folder, progress=False, lanes_at_once=at_once)
            break  # there are fewer writes
        monkeypatch.undo()
        assert not list(folder.rglob(".*.tmp"))
        begun = (folder / "config.json").exists()
        assert begun == (number > 1)
        if begun:
            spjax.resume(folder, progress=False)
        else:
            spjax.train(SHORT, folder, progress=False)
        assert_same_run(undisturbed, folder)
    assert number == {3: 9, 2: 11}[at_once]


@pytest.mark.slow
def test_sigterm_ends_training_after_a_chunk_as_a_cluster_wants_it(
    finished, tmp_path, monkeypatch, capsys
):
    def ask(bar, iteration, metrics, snapshot):
        if iteration == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(SweepProgress, "update", ask)
    with pytest.raises(Interrupted, match=r"^stopped at iteration 2; ") as stopped:
        spjax.train(tiny(), tmp_path / "run", progress=False)
    assert stopped.value.number == signal.SIGTERM
    assert capsys.readouterr().err == "asked to end; stopping after this chunk\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    spjax.resume(tmp_path / "run", progress=False)
    assert_same_run(finished, tmp_path / "run")


@pytest.mark.slow
def test_sigterm_between_blocks_ends_training_there(
    undisturbed, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(
        SweepProgress,
        "part",
        lambda bar, target, done, of: (
            (target, done) == (2, 2) and os.kill(os.getpid(), signal.SIGTERM)
        ),
    )
    with pytest.raises(Interrupted, match=r"^stopped between iterations 0 and 2; "):
        spjax.train(SHORT, tmp_path / "run", progress=False, lanes_at_once=2)
    monkeypatch.undo()
    spjax.resume(tmp_path / "run", progress=False)
    assert_same_run(undisturbed, tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_the_exit_code_says_which_signal_it_was(
    tmp_path, monkeypatch, capsys, number, code
):
    def stopped(config, folder, **how):
        raise Interrupted("stopped at iteration 5", number)

    monkeypatch.setattr(training, "train", stopped)
    assert main(["train", "point-mass-2d", "--out", str(tmp_path / "run")]) == code
    assert capsys.readouterr().err == "spjax: stopped at iteration 5\n"


def test_memory_that_is_not_there_at_all_is_one_sentence(tmp_path, monkeypatch, capsys):
    def lacking(config, folder, **how):
        raise MemoryError("memory ran out with a single run at once")

    monkeypatch.setattr(training, "train", lacking)
    assert main(["train", "point-mass-2d", "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert said == "spjax: memory ran out with a single run at once\n"


@pytest.mark.slow
def test_a_clock_that_jumps_back_changes_nothing(undisturbed, tmp_path, monkeypatch):
    now = itertools.count(1e9, -3600.0)
    monkeypatch.setattr(time, "time", lambda: next(now))
    folder = spjax.train(SHORT, tmp_path / "run", progress=False)
    newest = folder / "checkpoints" / "000002.npz"
    os.utime(newest, (0, 0))  # older than the one before
    (folder / "summary.json").unlink()
    spjax.resume(folder, progress=False)
    assert_same_run(undisturbed, folder)


HOLDS = """
import sys, time
from pathlib import Path
from spjax.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_folder_is_free_again_once_the_process_that_held_it_is_killed(
    undisturbed, capsys
):
    (undisturbed / "summary.json").rename(undisturbed / "kept")
    command = [sys.executable, "-c", HOLDS, str(undisturbed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match="another process is training in"):
            spjax.resume(undisturbed, progress=False)
        holder.kill()
    with locked(undisturbed):
        pass
    (undisturbed / "kept").rename(undisturbed / "summary.json")
