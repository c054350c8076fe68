"""Runs pytest again and again without the seconds that importing JAX takes: ``python -m benchmarks.mutants.zygote MODULE ...``.

Imports the modules, those that the tests need but for spjax, then reads jobs from its input, one a line, and forks a process
for each, so that the code of the job's tree is imported afresh and nothing of one job is left in the next.
"""

import dataclasses
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

import pytest

TIME_OUT = -1  # as an exit code
ENDED = (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)  # for want of time
IMPORTED = (
    "numpy.testing", "scipy.optimize", "scipy.stats", "scipy.special", "scipy.integrate", "scipy.linalg",
    "jax.numpy", "jax.scipy.linalg", "jax.scipy.special", "jax.scipy.stats", "jax.experimental.shard_map", "jax.test_util",
    "flax.struct", "flax.linen", "optax", "chex", "jaxtyping", "beartype", "beartype.claw", "pyarrow.parquet",
    "mujoco", "sklearn.mixture", "tyro", "rich.console",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Job:
    """Tests to run in a tree, until one fails or the budget is spent."""

    tree: str
    tests: Sequence[str]
    budget: float  # seconds of CPU after which no further test begins
    patience: float  # further ones that the last test may take


@dataclasses.dataclass(frozen=True)
class Answer:
    """How they ended."""

    code: int  # pytest's exit code, 0 where the budget was spent; or `TIME_OUT`
    output: str
    left: int  # tests that there was no budget for
    seconds: float  # of CPU


class Budget:
    """A plugin of pytest that ends a session after so many seconds of CPU."""

    def __init__(self, seconds: float, tests: int) -> None:
        """Counts from now."""
        self.end = time.process_time() + seconds
        self.left = tests

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keeps the session, to end it."""
        self.session = session

    def pytest_runtest_logfinish(self) -> None:
        """Counts a test, and begins no other when the seconds are over."""
        self.left -= 1
        if self.left > 0 and time.process_time() > self.end:
            self.session.shouldstop = f"{self.left} tests are left"


def run(job: Job) -> Answer:
    """Runs a job in a process of its own, and ends what that has started."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as left:
        process = os.fork()
        if not process:
            _run_here(job, output, left)
        _, status, usage = os.wait4(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(status)
        output.seek(0)
        left.seek(0)
        return Answer(
            TIME_OUT if code in ENDED else abs(code),
            output.read(),
            int(left.read() or 0),
            usage.ru_utime + usage.ru_stime,
        )


def _run_here(job: Job, output: IO[str], left: IO[str]) -> None:
    code = 1
    try:
        os.setsid()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        limit = int(time.process_time() + job.budget + job.patience)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(10 * int(1 + job.budget + job.patience))  # for tests that sleep
        os.chdir(job.tree)
        sys.path[:] = [job.tree, *(path for path in sys.path if path)]
        os.environ |= {"PYTHONPATH": job.tree, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        for name in [name for name in sys.modules if name.startswith("benchmarks")]:
            del sys.modules[name]
        budget = Budget(job.budget, len(job.tests))
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        code = pytest.main([*options, *job.tests], plugins=[budget])
        if code == pytest.ExitCode.INTERRUPTED and budget.left:
            code = 0
            left.write(str(budget.left))
            left.flush()
    finally:
        sys.stdout.flush()
        os._exit(code)


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
