"""How long the command line takes to answer: ``python -m benchmarks.startup``.

CPU seconds, user and system, of whole processes in an empty folder, after one that is not counted and leaves the byte
code, what help keeps and the compiled programs. CPU and not wall time, so that other processes on the machine matter less; of a
training, which is measured up to the first iteration that it shows, both. Writes ``benchmarks/results/startup.json``.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tyro

from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.runs.results import Record, write_records

RESULTS = Path(__file__).parent / "results" / "startup.json"
ROOT = Path(__file__).parents[1]
COMMANDS = (
    "spjax --help",
    "spjax list",
    "spjax evaluate nowhere",
    "spjax train point-mass-3d --help",
)
TRAINING = "spjax train point-mass-3d"  # up to the first line with an iteration


def main(repeats: int = 5) -> None:
    """Measures every command and prints the medians.

    Args:
        repeats: of each command.
    """
    records = []
    for command in COMMANDS:
        cpu_seconds(command)
        values = [cpu_seconds(command) for _ in range(repeats)]
        records.append(record(f"{command}: CPU seconds", values))
    first_progress(TRAINING)
    both = [first_progress(TRAINING) for _ in range(repeats)]
    for kind, values in zip(("CPU", "wall"), zip(*both, strict=True), strict=True):
        what = f"{TRAINING}, up to its first iteration, compiled before"
        records.append(record(f"{what}: {kind} seconds", values))
    write_records(RESULTS, records)


def cpu_seconds(command: str) -> float:
    """Returns what one run of a command of spjax takes."""
    before = _children()
    with _started(command, subprocess.DEVNULL) as process:
        process.wait()
    return _children() - before


def first_progress(command: str) -> tuple[float, float]:
    """Returns the CPU seconds and the wall seconds of a training up to the first iteration that it shows, and ends it.

    Raises:
        SystemExit: it ends without one.
    """
    before, start = _children(), time.perf_counter()
    with _started(command, subprocess.PIPE) as process:
        assert process.stdout is not None
        shown = any(line.startswith("iteration") for line in process.stdout)
        wall_seconds = time.perf_counter() - start
        process.kill()
    if not shown:
        raise SystemExit(f"{command} showed no progress")
    return _children() - before, wall_seconds


@contextmanager
def _started(command: str, stdout: int) -> Iterator[subprocess.Popen[str]]:
    """Runs a command of spjax in an empty folder, which stays until it has ended."""
    _, *arguments = command.split()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-m", "spjax.cli", *arguments],
            cwd=folder,
            env=environment,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        yield process


def record(metric: str, values: Sequence[float]) -> Record:
    """Returns the record of what was measured, and prints its median."""
    print(f"{statistics.median(values):6.2f} (of {len(values)}): {metric}", flush=True)
    return measured_here(
        experiment="startup",
        env="-",
        agent="-",
        teacher="-",
        metric=metric,
        seeds=range(len(values)),
        values=values,
        command=command_line("benchmarks.startup"),
    )


def _children() -> float:
    """Returns the CPU seconds of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    tyro.cli(main)
