"""Benchmark records: numbers together with everything needed to make them again.

A record is one metric of one method: a value per seed, its mean and standard error, the published
value, the command, the commit, the versions and the device. Records are kept as JSON lists in
benchmarks/results/; `spjax.analysis.records` makes them.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from spjax.runs.files import write_json
from spjax.runs.schema import Setting


class Record(TypedDict):
    """One metric of one method; None, `null` in JSON, is what is unknown or does not apply."""

    experiment: str
    env: str
    agent: str
    teacher: str
    schedule: str | None
    settings: Mapping[str, Setting]  # swept settings of these seeds
    metric: str  # "discounted_return", "success_rate", "iterations_to_threshold", ...
    threshold: float | None  # return that iterations_to_threshold refers to
    never_reached: (
        int | None
    )  # seeds that never reached it; they count as the last iteration
    seeds: list[int]
    values: list[float | None]  # one a seed; None where it is not finite
    mean: float | None  # over the finite values
    standard_error: float | None  # population std / sqrt(n)
    paper_mean: float | None
    paper_standard_error: float | None
    iterations: int | None
    wall_seconds: float | None
    compile_seconds: float | None
    device: str | None
    versions: dict[str, str | None] | None
    commit: str | None
    command: str | None


def write_records(path: str | Path, records: Sequence[Record]) -> None:
    """Writes the records as JSON, keys sorted."""
    write_json(Path(path), list(records), sort_keys=True)


def write_records_beside(path: str | Path, records: Sequence[Record]) -> None:
    """Writes the records, beside those that the file has of other tasks, methods, metrics or settings."""
    file = Path(path)
    new = {_identity(record) for record in records}
    old = read_records(file) if file.is_file() else []
    kept = [record for record in old if _identity(record) not in new]
    write_records(file, [*kept, *records])


def _identity(record: Record) -> tuple[str | None, ...]:
    settings = str(sorted(record["settings"].items()))
    method = record["env"], record["agent"], record["teacher"], record["schedule"]
    return *method, record["metric"], settings


def read_records(path: str | Path) -> list[Record]:
    """Returns the records of one file.

    Raises:
        ValueError: an entry lacks a key or has an unknown one.
    """
    records = json.loads(Path(path).read_text(encoding="utf-8"))
    for index, entry in enumerate(records):
        if entry.keys() != Record.__annotations__.keys():
            odd = ", ".join(sorted(entry.keys() ^ Record.__annotations__.keys()))
            raise ValueError(
                f"record {index} of {path} lacks keys or has unknown ones: {odd}"
            )
    return records
