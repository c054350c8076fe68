"""What the terminal says about a run that has ended."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from spjax.analysis.records import records_of_run
from spjax.analysis.tables import comparison, terminal_table
from spjax.cli import terminal
from spjax.runs.cuts import CUTS
from spjax.runs.read import Run, load_run, read_record
from spjax.runs.results import Record
from spjax.runs.schema import Frozen, Setting

MOST_LINES = 12  # of pictures
MOST_ROWS, BEST_ROWS, WORST_ROWS = 20, 12, 4  # of the table


def report(folder: Path, plots: bool) -> None:
    """Prints the result beside the paper's, the times and what went wrong; draws the pictures and names them."""
    console, run = terminal.console(), load_run(folder)
    records = records_of_run(run, experiment="run")
    shown, left_out = extremes(records)
    terminal.print_table(console, terminal_table(shown, stopped=_stopped(run)))
    if left_out:
        say(
            console,
            f"the {BEST_ROWS} highest and the {WORST_ROWS} lowest; {left_out} between them are in {folder}/evaluation",
        )
    for line in (*_remarks(run, records), f"run folder: {folder}"):
        say(console, line)
    if plots:
        draw(console, folder)


def draw(
    console: Console,
    folder: Path,
    only: Sequence[str] = (),
    formats: Sequence[str] = ("png",),
    each: bool | None = None,
) -> None:
    """Draws the pictures of a run folder, all or those of these names, and names them."""
    from spjax.analysis.pictures import (  # Matplotlib takes its time
        MOST_APART,
        plot_run,
    )

    name_pictures(console, plot_run(folder, only, formats, each))
    if only or each is not None:
        return
    groups = len({tuple(lane.settings.items()) for lane in read_record(folder).lanes})
    if groups > MOST_APART:
        say(
            console,
            f"contexts and trajectories of each of the {groups} settings: spjax plot {folder} --each",
        )


def name_pictures(console: Console, pictures: Sequence[Path]) -> None:
    """Prints where the pictures are: each, or their folder where they are many."""
    if len(pictures) > MOST_LINES:
        say(console, f"{len(pictures)} pictures in {pictures[0].parent}")
        return
    for picture in pictures:
        say(console, f"picture: {picture}")


def extremes(
    records: Sequence[Record], metric: str = "discounted_return"
) -> tuple[list[Record], int]:
    """Returns the records of a metric that fit a screen, the highest and the lowest of many, and how many it leaves out."""
    rows = [record for record in records if record["metric"] == metric]
    if len(rows) <= MOST_ROWS:
        return rows, 0
    low = float("-inf")
    rows.sort(
        key=lambda record: low if record["mean"] is None else record["mean"],
        reverse=True,
    )
    shown = rows[:BEST_ROWS] + rows[-WORST_ROWS:]
    return shown, len(rows) - len(shown)


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


def _stopped(run: Run) -> dict[tuple[tuple[str, Setting], ...], str]:
    """Returns what the table says of settings that stopped early."""
    lanes = run.config.lanes
    return {
        tuple(lanes[cut.lanes[0]].settings.items()): f"stopped after {cut.iteration}"
        for cut in run.cuts
    }


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
    if run.cuts:
        remarks.append(
            f"{len(run.cuts)} of {len(run.groups())} settings stopped early: {run.path / CUTS}"
        )
    return remarks
