"""How long the command line takes to answer: ``python -m benchmarks.startup``.

CPU seconds, user and system, of whole processes in an empty folder, after one that is not counted and leaves the byte
code and what help keeps. CPU and not wall time, so that other processes on the machine matter less. Writes
``benchmarks/results/startup.json``.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
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


def main(repeats: int = 5) -> None:
    """Measures every command and prints the medians.

    Args:
        repeats: of each command.
    """
    records = []
    for command in COMMANDS:
        cpu_seconds(command)
        values = [cpu_seconds(command) for _ in range(repeats)]
        print(
            f"{statistics.median(values):6.2f} s of CPU (median of {repeats}): {command}",
            flush=True,
        )
        records.append(record(command, values))
    write_records(RESULTS, records)


def cpu_seconds(command: str) -> float:
    """Returns what one run of a command of spjax takes."""
    _, *arguments = command.split()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = _children()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "spjax.cli", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,  # there is no run folder nowhere
        )
    return _children() - before


def record(command: str, values: list[float]) -> Record:
    """Returns the record of one command."""
    return measured_here(
        experiment="startup",
        env="-",
        agent="-",
        teacher="-",
        metric=f"{command}: CPU seconds",
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
