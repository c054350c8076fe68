"""What the terminal says about a run that has ended."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from spjax.analysis.records import records_of_run
from spjax.analysis.tables import comparison, terminal_table
from spjax.cli import terminal
from spjax.runs.read import Run, load_run
from spjax.runs.results import Record
from spjax.runs.schema import Frozen


def report(folder: Path, plots: bool) -> None:
    """Prints the result beside the paper's, the times and what went wrong; draws the pictures and names them."""
    console, run = terminal.console(), load_run(folder)
    records = records_of_run(run, experiment="run")
    terminal.print_table(console, terminal_table(records))
    for line in (*_remarks(run, records), f"run folder: {folder}"):
        say(console, line)
    if plots:
        draw(console, folder)


def draw(console: Console, folder: Path, only: Sequence[str] = ()) -> None:
    """Draws the pictures of a run folder, all or those of these names, and names them."""
    from spjax.analysis.pictures import plot_run  # Matplotlib takes its time

    for picture in plot_run(folder, only):
        say(console, f"picture: {picture}")


def say(console: Console, line: str) -> None:
    """Prints a line as it is."""
    console.print(line, soft_wrap=True)


def frozen_lanes(frozen: Sequence[Frozen]) -> str:
    """Returns one sentence about the seeds whose parameters became non-finite."""
    seeds = defaultdict(list)
    for lane in frozen:
        seeds[lane.iteration].append(str(lane.seed))
    places = [
        f"seed {', '.join(names)} after iteration {iteration}"
        for iteration, names in sorted(seeds.items())
    ]
    return f"frozen, because their parameters became non-finite: {'; '.join(places)}"


def _remarks(run: Run, records: Sequence[Record]) -> list[str]:
    remarks = [
        f"success rate of {row.teacher}: {row.ours}"
        for row in comparison(records, "success_rate")
    ]
    if run.summary is not None:
        wall, compiling = run.summary.wall_seconds, run.summary.compile_seconds
        remarks.append(
            "resumed, so not timed"
            if wall is None
            else f"{wall:.1f} s, of which {compiling:.1f} s compiling"
        )
        if run.summary.frozen:
            remarks.append(frozen_lanes(run.summary.frozen))
    return remarks
