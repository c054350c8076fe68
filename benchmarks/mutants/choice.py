"""Which tests a mutant is put before: those that run the changed lines, the quickest first.

What each test runs is watched once and kept below ``.cache/mutants/reach``, by file of tests; a file that has changed is
watched again. Where a module has changed since, its lines have moved, and all tests that run any of it count.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.mutants.mutate import Mutant
from benchmarks.mutants.reach import VARIABLE, Reached, read_reach
from spjax.runs.files import write_json

QUICK = 2.0  # seconds, while lines are watched


class Reach:
    """What all tests run."""

    def __init__(
        self, tests: Sequence[Reached], watched: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Takes the tests, and for each of their files the digests of the modules at that time."""
        self.tests = tests
        self.watched = watched

    def chosen(self, mutant: Mutant, digest: str) -> list[list[Reached]]:
        """Returns rounds of tests: the quick ones that run the change, the slower ones, and the others of their files.

        Others may use what those have compiled. In a round the tests of a file stay together and in their order, as fixtures
        and counts of compilations demand; files of the mutant's own room come first.

        Args:
            mutant: what they are for.
            digest: of the module as it is.
        """
        direct = [test for test in self.tests if self._runs(test, mutant, digest)]
        files = {test.file for test in direct}
        names = {test.test for test in direct}
        rounds = (
            [test for test in direct if test.seconds <= QUICK],
            [test for test in direct if test.seconds > QUICK],
            [
                test
                for test in self.tests
                if test.file in files and test.test not in names
            ],
        )
        return [_ordered(mutant, tests) for tests in rounds if tests]

    def _runs(self, test: Reached, mutant: Mutant, digest: str) -> bool:
        same = self.watched[test.file].get(mutant.file) == digest
        return test.runs(mutant.file, mutant.lines if same else None)


def _ordered(mutant: Mutant, tests: Sequence[Reached]) -> list[Reached]:
    """Returns tests with the files of the mutant's room first, then those named after its module, then the quick ones."""
    room, module = Path(mutant.file).parts[1], Path(mutant.file).stem
    seconds: dict[str, list[float]] = {}
    for test in tests:
        seconds.setdefault(test.file, []).append(test.seconds)

    def order(test: Reached) -> tuple[bool, bool, float, str]:
        file, own = Path(test.file), seconds[test.file]
        return (
            file.parts[1] != room,
            module not in file.stem,
            sum(own) / len(own),
            test.file,
        )

    return sorted(tests, key=order)


def watch(root: Path, cache: Path, folders: Iterable[str]) -> Reach:
    """Returns what the tests below some folders run; runs those whose files have changed."""
    tests: list[Reached] = []
    watched: dict[str, Mapping[str, str]] = {}
    for folder in folders:
        places = {file: _kept(root, cache, file) for file in _test_files(root, folder)}
        missing = {file: place for file, place in places.items() if not place.is_file()}
        if missing:
            print(f"watching what the tests of {folder} run", flush=True)
            _watch(root, missing)
        for file, place in places.items():
            kept = json.loads(place.read_text())
            watched[file] = kept["modules"]
            tests += read_reach(kept["tests"])
    return Reach(tests, watched)


def digest(text: str | bytes) -> str:
    """Returns a short name of a content."""
    encoded = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(encoded).hexdigest()[:16]


def modules(root: Path, folders: Iterable[str]) -> dict[str, str]:
    """Returns the source of every module below some folders, by its path below the root."""
    return {
        str(file.relative_to(root)): file.read_text()
        for folder in folders
        for file in sorted((root / folder).rglob("*.py"))
    }


def _test_files(root: Path, folder: str) -> list[str]:
    path = root / folder
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return [str(file.relative_to(root)) for file in files]


def _kept(root: Path, cache: Path, file: str) -> Path:
    label = file.removesuffix(".py").replace("/", "-")
    return cache / "reach" / f"{label}-{digest((root / file).read_bytes())}.json"


def _watch(root: Path, places: Mapping[str, Path]) -> None:
    """Runs files of tests in one process, and keeps what each runs in its place."""
    raw = next(iter(places.values())).parent / f"{os.getpid()}.tmp"
    raw.parent.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join([str(root), str(Path(__file__).parents[2])])
    environment = {**os.environ, VARIABLE: str(raw), "PYTHONPATH": paths}
    options = ["-q", "-p", "no:cacheprovider", "-p", "benchmarks.mutants.reach"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *places],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not raw.is_file():
        raise SystemExit(f"the tests do not run as they are:\n{done.stdout[-2000:]}")
    if done.returncode:
        print(f"tests that fail without a change are left out:\n{done.stdout[-2000:]}")
    sources = modules(root, ["spjax"])
    digests = {name: digest(source) for name, source in sources.items()}
    tests = json.loads(raw.read_text())
    raw.unlink()
    for file, place in places.items():
        own = [one for one in tests if one["test"].partition("::")[0] == file]
        write_json(place, {"modules": digests, "tests": own})
