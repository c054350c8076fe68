"""Runs pytest again and again without the seconds that importing JAX takes: ``python -m benchmarks.mutants.zygote MODULE ...``.

Imports the modules, those that the tests need but for spjax, then reads jobs from its input, one a line, and forks a process for each, so that
the code of the job's tree is imported afresh and nothing of one job is left in the next.
"""

import dataclasses
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

import pytest

TIME_OUT = -1  # as an exit code
IMPORTED = (
    "numpy.testing", "scipy.optimize", "scipy.stats", "scipy.special", "scipy.integrate", "scipy.linalg",
    "jax.numpy", "jax.scipy.linalg", "jax.scipy.special", "jax.scipy.stats", "jax.experimental.shard_map", "jax.test_util",
    "flax.struct", "flax.linen", "optax", "chex", "jaxtyping", "beartype", "beartype.claw", "pyarrow.parquet",
    "mujoco", "sklearn.mixture", "tyro", "rich.console",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Job:
    """Tests to run in a tree, until one fails."""

    tree: str
    tests: Sequence[str]
    limit: float  # seconds


@dataclasses.dataclass(frozen=True)
class Answer:
    """How they ended."""

    code: int  # pytest's exit code, or `TIME_OUT`
    output: str


def run(job: Job) -> Answer:
    """Runs a job in a process of its own, and ends what that has started."""
    with tempfile.TemporaryFile("w+") as output:
        process = os.fork()
        if not process:
            _run_here(job, output)
        code = _wait(process, job.limit)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        if code == TIME_OUT:
            os.waitpid(process, 0)
        output.seek(0)
        return Answer(code, output.read())


def _run_here(job: Job, output: IO[str]) -> None:
    code = 1
    try:
        os.setsid()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.chdir(job.tree)
        sys.path[:] = [job.tree, *(path for path in sys.path if path)]
        os.environ |= {"PYTHONPATH": job.tree, "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.startswith("benchmarks")]:
            del sys.modules[name]
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *job.tests])
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(process: int, limit: float) -> int:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return abs(os.waitstatus_to_exitcode(status))
        time.sleep(0.05)
    return TIME_OUT


def main() -> None:
    """Imports the modules that are named, then answers each line of the input with a line."""
    for name in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        answer = run(Job(**json.loads(line)))
        print(json.dumps(dataclasses.asdict(answer)), flush=True)


if __name__ == "__main__":
    main()
