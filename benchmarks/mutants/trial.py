"""The trial of a mutant: its tests run in a copy of the repository, in which alone the change is made."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.mutants.choice import digest, modules
from benchmarks.mutants.mutate import Mutant
from benchmarks.mutants.reach import Reached
from benchmarks.mutants.zygote import IMPORTED, TIME_OUT, Answer, Job

LEFT_BEHIND = {".git", ".cache", ".venv", "build", "dist", "runs"}  # of the root
PATIENCE = 60.0  # seconds of CPU that one test may take beyond the budget
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Trial:
    """How a mutant fared, and with which code and tests."""

    key: tuple[str, str, str, int]  # `Mutant.key`
    caught: bool
    by: str  # the test that fails, or what else happened; "" where it survived
    seconds: float
    tests: int  # of the rounds that were begun, but for those that are left
    left: int  # that there were no seconds for, or no need
    budget: float  # seconds of CPU
    module: str  # digest of the module as it was
    judges: str  # digest of the file of the test that caught it; of all tests where none did


class Trials:
    """The trials so far, in a file with one a line; they count as long as the module and the tests are the same."""

    def __init__(self, file: Path, root: Path) -> None:
        """Reads what there is."""
        self.file, self.root = file, root
        lines = file.read_text().splitlines() if file.is_file() else []
        read = [Trial(**json.loads(line)) for line in lines]
        self.kept = {
            tuple(one.key): dataclasses.replace(one, key=tuple(one.key)) for one in read
        }
        self.all_tests = digest(json.dumps(modules(root, ["tests"])))

    def get(self, mutant: Mutant, source: str, budget: float) -> Trial | None:
        """Returns the trial of a mutant if it still counts, and no test would run that then had to be left out."""
        trial = self.kept.get(mutant.key)
        if trial is None or trial.module != digest(source):
            return None
        if not trial.caught and trial.left and trial.budget < budget:
            return None
        return trial if trial.judges == self.judges(trial.by) else None

    def add(self, trial: Trial) -> None:
        """Keeps a trial."""
        self.kept[trial.key] = trial
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as handle:
            handle.write(json.dumps(dataclasses.asdict(trial)) + "\n")

    def judges(self, by: str) -> str:
        """Returns the digest of what a verdict rests on."""
        file = self.root / by.partition("::")[0]
        return digest(file.read_bytes()) if by and file.is_file() else self.all_tests


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Gives a copy of the working tree that is thrown away at the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"

        def left_behind(folder: str, names: list[str]) -> set[str]:
            return LEFT_BEHIND & set(names) if Path(folder) == root else set()

        shutil.copytree(root, tree, symlinks=True, ignore=left_behind)
        yield tree


class Worker:
    """Runs tests in a copy of the repository, one job after another."""

    def __init__(self, tree: Path) -> None:
        """Starts the process that the jobs are forked from."""
        home = Path(__file__).parents[2]
        cache = str(home / ".cache" / "jax")
        self.tree = tree
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mutants.zygote", *IMPORTED],
            cwd=home,
            env={"JAX_COMPILATION_CACHE_DIR": cache, **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests: Sequence[Reached], budget: float) -> Answer:
        """Returns how some tests ended, of which none begins once the seconds of CPU are spent."""
        assert self.process.stdin
        assert self.process.stdout
        names = [test.test for test in tests]
        job = Job(str(self.tree), names, budget, PATIENCE)
        self.process.stdin.write(json.dumps(dataclasses.asdict(job)) + "\n")
        self.process.stdin.flush()
        return Answer(**json.loads(self.process.stdout.readline()))

    def __enter__(self) -> "Worker":
        """Gives itself."""
        return self

    def __exit__(self, *reasons: object) -> None:
        """Ends the process."""
        self.process.__exit__(*reasons)


def run_trial(
    mutant: Mutant,
    worker: Worker,
    rounds: Sequence[Sequence[Reached]],
    budget: float,
    trials: Trials,
) -> Trial:
    """Runs tests, round by round until one fails, against a mutant in the worker's copy of the repository.

    Args:
        mutant: the change.
        worker: what runs them.
        rounds: of tests, each in a process of its own.
        budget: seconds of CPU, of all rounds together.
        trials: where the trial is kept.
    """
    file = worker.tree / mutant.file
    source = file.read_text()
    started = time.monotonic()
    by, spent, left = "", 0.0, 0
    with _changed(file, mutant.applied(source)):
        for tests in rounds:
            if by or spent > budget:
                left += len(tests)
                continue
            answer = worker.run(tests, budget - spent)
            by = _failed(answer)
            spent += answer.seconds
            left += answer.left
    return Trial(
        key=mutant.key,
        caught=bool(by),
        by=by,
        seconds=round(time.monotonic() - started, 1),
        tests=sum(map(len, rounds)) - left,
        left=left,
        budget=budget,
        module=digest(source),
        judges=trials.judges(by),
    )


@contextmanager
def _changed(file: Path, text: str) -> Iterator[None]:
    """Changes a file for a while; its time of change goes back with it, so that its byte code stays good."""
    before, times = file.read_bytes(), file.stat()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _failed(answer: Answer) -> str:
    """Returns which test failed, or what else happened; "" where all passed."""
    if answer.code == 0:
        return ""
    if answer.code == TIME_OUT:
        return "time-out"
    failed = FAILED.search(answer.output)
    return failed[1] if failed else "the tests do not start"
