"""Trainings of which only the ends are recorded: they count in the final values of an equal kept run.

Their records lie beside the kept run, in earlier.json.
"""

import math
from typing import Any

from spjax.analysis.records import record, records_of_run
from spjax.runs.pool import joined_text, joined_versions, total
from spjax.runs.read import Run
from spjax.runs.results import Record, read_records

EARLIER = "earlier.json"


def num_earlier_seeds(run: Run) -> int:
    """Returns how many seeds without curves count in the final values of a run."""
    return max((len(entry["seeds"]) for entry in _earlier(run)), default=0)


def all_records_of_run(
    run: Run, experiment: str, threshold: float | None = None
) -> list[Record]:
    """Returns the records of a run, its final values pooled with those of an earlier training."""
    earlier = {entry["metric"]: entry for entry in _earlier(run)}
    return [
        pool_records(earlier[entry["metric"]], entry)
        if entry["metric"] in earlier
        else entry
        for entry in records_of_run(run, experiment, threshold)
    ]


def pool_records(earlier: Record, later: Record) -> Record:
    """Returns the record of both trainings.

    A seed that both have is there twice, since their machines round differently. Commits, devices
    and commands that differ are joined by "; ", seconds are added up, versions that differ are None.
    """
    both = (earlier, later)
    values = [value for entry in both for value in entry["values"]]
    computed = {"mean", "standard_error"}
    fields: dict[str, Any] = {
        name: value for name, value in later.items() if name not in computed
    }
    fields |= {
        "seeds": [seed for entry in both for seed in entry["seeds"]],
        "values": [math.nan if value is None else value for value in values],
        "wall_seconds": total(entry["wall_seconds"] for entry in both),
        "compile_seconds": total(entry["compile_seconds"] for entry in both),
        "versions": joined_versions([entry["versions"] or {} for entry in both]),
        "device": joined_text(entry["device"] for entry in both),
        "commit": joined_text(entry["commit"] for entry in both),
        "command": joined_text(entry["command"] for entry in both),
    }
    return record(**fields)


def _earlier(run: Run) -> list[Record]:
    file = run.path / EARLIER
    return read_records(file) if file.is_file() else []
