"""Which lines of spjax each test runs, and how long it takes: a plugin of pytest.

    REACH=FILE python -m pytest -p benchmarks.mutants.reach tests/solvers

What is compiled is forgotten after each file of tests, so that a file is seen to run all that it needs; within a file a test
may use what an earlier one has traced. Lines of modules and class bodies, which run at import, do not count.
"""

import dataclasses
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

VARIABLE = "REACH"  # names the file to write

Lines = Mapping[str, frozenset[int]]  # by file


@dataclasses.dataclass(frozen=True)
class Reached:
    """A test that passes."""

    test: str  # pytest's name of it
    seconds: float  # with its fixtures, while lines are watched
    lines: Lines

    @property
    def file(self) -> str:
        """The file of the test."""
        return self.test.partition("::")[0]

    def runs(self, file: str, lines: tuple[int, int] | None) -> bool:
        """Whether the test runs one of these lines, or any of the file."""
        reached = self.lines.get(file, frozenset())
        if lines is None:
            return bool(reached)
        first, last = lines
        return any(first <= line <= last for line in reached)


def read_reach(written: Iterable[Mapping[str, Any]]) -> list[Reached]:
    """Returns what the plugin wrote."""
    return [
        Reached(
            one["test"],
            one["seconds"],
            {name: frozenset(lines) for name, lines in one["lines"].items()},
        )
        for one in written
    ]


class Watcher:
    """Remembers which lines of functions below a folder run."""

    def __init__(self, root: Path) -> None:
        """Watches spjax below the root of a repository."""
        self.root = f"{root.resolve()}{os.sep}"
        self.package = f"{self.root}spjax{os.sep}"
        self.lines: dict[str, set[int]] = {}

    def start(self) -> None:
        """Begins anew, in this thread and those that it starts."""
        self.lines = {}
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, list[int]]:
        """Returns the lines by file, and watches no more."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        return {
            name.removeprefix(self.root): sorted(lines)
            for name, lines in self.lines.items()
        }

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self.package):
            return None
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return None
        lines = self.lines.setdefault(code.co_filename, set())

        def line(frame: FrameType, event: str, argument: object) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line


class Plugin:
    """Watches every test of a session."""

    def __init__(self, root: Path, results: Path) -> None:
        """Writes the results at the end."""
        self.watcher = Watcher(root)
        self.results = results
        self.found: dict[str, dict[str, Any]] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Watches one test, from its fixtures to their end."""
        before = time.perf_counter()
        self.watcher.start()
        try:
            return (yield)
        finally:
            lines = self.watcher.stop()
            self.found[item.nodeid] = {
                "test": item.nodeid,
                "seconds": round(time.perf_counter() - before, 3),
                "lines": lines,
            }
            if nextitem is None or nextitem.path != item.path:
                _forget_compiled()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the tests that do not pass, of which no use can be made."""
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Writes what was found."""
        passed = [one for test, one in self.found.items() if test not in self.failed]
        self.results.write_text(json.dumps(passed))


def pytest_configure(config: pytest.Config) -> None:
    """Registers the plugin."""
    config.pluginmanager.register(
        Plugin(Path(config.rootpath), Path(os.environ[VARIABLE])), "reach"
    )


def _forget_compiled() -> None:
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()
