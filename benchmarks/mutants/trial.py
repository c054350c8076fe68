"""The trial of a mutant: its tests run in a copy of the repository, in which alone the change is made."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.mutants.choice import digest, modules
from benchmarks.mutants.mutate import Mutant
from benchmarks.mutants.reach import Reached

LEFT_BEHIND = {".git", ".cache", ".venv", "build", "dist", "runs"}  # of the root
PATIENCE = 30.0  # seconds that a trial may take beyond twice its tests
TIME_OUT = "time-out"
IMPORT = "the tests do not start"
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Trial:
    """How a mutant fared, and with which code and tests."""

    key: tuple[str, str, str, int]  # `Mutant.key`
    caught: bool
    by: str  # the test that fails, or what else happened; "" where it survived
    seconds: float
    tests: int  # that were chosen
    left_out: int  # for want of seconds
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

    def get(self, mutant: Mutant, source: str) -> Trial | None:
        """Returns the trial of a mutant if it still counts."""
        trial = self.kept.get(mutant.key)
        if trial is None or trial.module != digest(source):
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


def run_trial(
    mutant: Mutant, tree: Path, tests: Sequence[Reached], left_out: int, trials: Trials
) -> Trial:
    """Runs tests, in their order until one fails, against a mutant in a copy of the repository."""
    file = tree / mutant.file
    source = file.read_text()
    started = time.monotonic()
    if tests:
        with _changed(file, mutant.applied(source)):
            by = _verdict(tree, tests)
    else:
        by = ""
    return Trial(
        key=mutant.key,
        caught=bool(by),
        by=by,
        seconds=round(time.monotonic() - started, 1),
        tests=len(tests),
        left_out=left_out,
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


def _verdict(tree: Path, tests: Sequence[Reached]) -> str:
    """Returns which test fails, "" where all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, *(test.test for test in tests)],
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            limit = PATIENCE + 2 * sum(test.seconds for test in tests)
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return TIME_OUT
        finally:
            _end(process)
    if process.returncode == 0:
        return ""
    failed = FAILED.search(output)
    return failed[1] if failed else IMPORT


def _end(process: "subprocess.Popen[str]") -> None:
    """Ends the tests and what they have started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(tree: Path) -> Mapping[str, str]:
    cache = Path(__file__).parents[2] / ".cache" / "jax"
    return {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
