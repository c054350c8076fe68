"""From the finished run folders of a cell to its records, and from records to files."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.paper.blocks import Block, Timing, kind_of
from benchmarks.paper.cells import Cell
from benchmarks.paper.earlier import all_records_of_run
from spjax.analysis.records import compared_metric
from spjax.runs.pool import pool
from spjax.runs.read import Run, load_run
from spjax.runs.results import Record, read_records, write_records
from spjax.runs.schema import Setting

Runs = Mapping[str, Run]  # name of a cell -> its finished seeds
SELECTION = (
    "runs"  # in the settings of a record: which of the runs it is about, in words
)


def finished_runs(blocks: Iterable[Block]) -> Runs:
    """Returns one run for each cell with finished blocks: all finished seeds together, with what is in print."""
    found: dict[str, list[Run]] = {}
    for block in blocks:
        if block.state == "finished":
            run = load_run(block.folder)
            config = dataclasses.replace(run.config, reference=block.cell.reference)
            found.setdefault(block.cell.name, []).append(
                dataclasses.replace(run, config=config)
            )
    return {name: pool(runs) for name, runs in found.items()}


def records_of(
    experiment: str, cells: Iterable[Cell], runs: Runs, threshold: float | None = None
) -> list[Record]:
    """Returns the records of the finished cells; settings that differ from the preset's are in them as `settings`."""
    return [
        Record(**{**record, "settings": {**settings_of(cell), **record["settings"]}})
        for cell in cells
        if cell.name in runs
        for record in all_records_of_run(runs[cell.name], experiment, threshold)
    ]


def recorded_of(cell: Cell, recorded: Iterable[Record]) -> list[Record]:
    """Returns those of the records that are of a cell, trained before and elsewhere."""
    curriculum = cell.curriculum
    method = (cell.env, cell.agent, curriculum.teacher, curriculum.schedule)
    keys = ("env", "agent", "teacher", "schedule")
    return [
        record
        for record in recorded
        if tuple(record[key] for key in keys) == method  # type: ignore[literal-required]
        and record["settings"] == settings_of(cell)
    ]


def settings_of(cell: Cell) -> dict[str, Setting]:
    """Returns what a cell changes of its preset, in the names of a run folder."""
    return {**cell.starred_settings, **cell.settings}


def better(cells: Sequence[Cell], runs: Runs) -> Cell | None:
    """Returns the finished cell with the highest mean final return, None where none is finished."""
    finished = [cell for cell in cells if cell.name in runs]
    return max(
        finished,
        key=lambda cell: final_return(runs[cell.name])["mean"] or 0.0,
        default=None,
    )


def final_return(run: Run) -> Record:
    """Returns the record of the final discounted return of a run in which nothing is swept."""
    return _final(run, "discounted_return")


def compared_return(run: Run) -> Record:
    """Returns the record of the final return of the kind that is in print, of a run in which nothing is swept."""
    return _final(run, compared_metric(run))


def final_success_rate(run: Run) -> Record:
    """Returns the record of the final success rate of a run in which nothing is swept."""
    return _final(run, "success_rate")


def _final(run: Run, metric: str) -> Record:
    return next(
        record for record in all_records_of_run(run, "") if record["metric"] == metric
    )


def recorded_runs(file: Path) -> set[str]:
    """Returns the runs that a file has records of; see `runs_in`; none without a file."""
    return runs_in(read_records(file) if file.is_file() else [])


def runs_in(records: Iterable[Record]) -> set[str]:
    """Returns the runs of records, as text: task, learner, curriculum, settings, seed.

    Records of a selection of runs, whose settings have `SELECTION`, are about runs that others record.
    """
    keys = ("env", "agent", "teacher", "schedule", "settings")
    return {
        json.dumps([seed, *(record[key] for key in keys)], sort_keys=True)
        for record in records
        if SELECTION not in record["settings"]
        for seed in record["seeds"]
    }


def recorded_timings(file: Path, device: str) -> list[Timing]:
    """Returns how long the runs took that a file has records of and that ran on this device; none without a file."""
    lane_iterations: dict[
        tuple[str, float], int
    ] = {}  # groups of one sweep took the same seconds together
    for record in read_records(file) if file.is_file() else []:
        seconds, iterations = record["wall_seconds"], record["iterations"]
        if (
            record["metric"] == "discounted_return"
            and record["device"] == device
            and seconds
            and iterations
        ):
            run = (kind_of(record["env"], record["agent"]), seconds)
            lane_iterations[run] = (
                lane_iterations.get(run, 0) + len(record["seeds"]) * iterations
            )
    return [Timing(*run, count) for run, count in lane_iterations.items()]


def write_report(results: Path, name: str, records: Sequence[Record], text: str) -> str:
    """Writes NAME.json and NAME.md, and returns the text; writes nothing while there is no record."""
    if not records:
        return "nothing is finished yet"
    write_records(results / f"{name}.json", records)
    (results / f"{name}.md").write_text(text, encoding="utf-8")
    return text
