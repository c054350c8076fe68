"""Sweeps in several processes of a launcher: two on this machine, as SLURM would start them."""

import errno
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import spjax
from spjax.runs.lock import Holder
from spjax.training.engines import processes
from spjax.training.engines.base import Work, engine_of
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run

ROOT = Path(__file__).parents[2]
LEADS = """
import sys
from spjax.training.engines.base import engine_of
engine_of("jax", None)  # before JAX computes
import spjax
from tests.training.conftest import tiny
spjax.train(tiny(), sys.argv[1], engine="jax")
"""
FOLLOWS = """
from spjax.cli import main
raise SystemExit(main(["sweep", "point-mass-2d", "--engine", "jax"]))
"""


@pytest.mark.slow
def test_two_processes_that_slurm_starts_train_one_run_with_the_bits_of_one(
    finished, tmp_path
):
    job = 1_000_000 + os.getpid()  # JAX takes the port from it
    port = 2**16 - 2**12 + job % 2**12
    slurm = {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_NTASKS": "2",
        "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, tmp_path / "run"],
            env={
                **os.environ,
                **slurm,
                "PYTHONPATH": str(ROOT),
                "SLURM_PROCID": str(number),
                "SLURM_LOCALID": str(number),
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, script in enumerate((LEADS, FOLLOWS))
    ]
    said = [process.communicate()[:2] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert " of 2 processes" in said[0][0]
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    assert_same_run(finished, tmp_path / "run")


def test_the_environment_says_which_process_this_is(monkeypatch):
    asked = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda **how: asked.append(how))
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setenv("JAX_NUM_PROCESSES", "2")
    monkeypatch.setenv("JAX_PROCESS_ID", "1")
    engine = engine_of("jax", None)
    assert asked == [{"num_processes": 2, "process_id": 1}]
    assert (engine.number, engine.of, engine.follows) == (1, 2, True)


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        (
            ValueError("coordinator_address should be defined."),
            r"^the engine jax needs processes that a launcher started, such as SLURM's srun",
        ),
        (
            RuntimeError("jax.distributed.initialize() must be called before\n any"),
            r"^the processes of the engine jax cannot be joined: jax.distributed.initialize\(\) must be called before any$",
        ),
    ],
)
def test_a_process_that_nobody_launched_is_refused(tmp_path, monkeypatch, raised, why):
    def failing(**how):
        raise raised

    monkeypatch.setattr(jax.distributed, "initialize", failing)
    with pytest.raises(ValueError, match=why):
        spjax.train(tiny(), tmp_path / "run", engine="jax")
    assert not list(tmp_path.iterdir())


class Store(dict):
    """What JAX's coordination service keeps."""

    key_value_set = dict.__setitem__

    def blocking_key_value_get(self, key, milliseconds):
        return self[key]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("no folder"), ValueError),
        (OSError(errno.ENOSPC, "no room"), OSError),
        (MemoryError("too little"), MemoryError),
        (io.UnsupportedOperation("of two kinds"), ValueError),
        (KeyError("of another kind"), Exception),
    ],
)
def test_what_a_process_raises_reaches_the_one_that_leads(monkeypatch, error, kind):
    store = Store()
    monkeypatch.setattr(processes, "_store", lambda: store)

    def failing():
        raise error

    processes._do("3/about/1", failing)
    leader = processes.Leader(3, 2, Work(Path("run"), Holder.here(), (), 2, None))
    with pytest.raises(kind, match=re.escape(str(error))) as raised:
        leader._answer("about/1")
    assert type(raised.value) is kind
    processes._do("3/about/1", lambda: (1, 2))
    assert leader._answer("about/1") == [1, 2]


@pytest.mark.parametrize(
    ("lanes", "shares"),
    [([0, 1, 5, 7, 8], [[0, 1], [5, 7], [8]]), ([3], [[3], [], []])],
)
def test_every_process_has_an_equal_share_of_the_lanes(lanes, shares):
    assert processes._shared(lanes, 3) == shares
