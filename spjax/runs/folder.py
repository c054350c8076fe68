"""The run folder: all that is needed to resume, evaluate, plot and render a run in a fresh process.

    config.json          the resolved configuration, versions, device: `RunRecord`
    metrics/             Parquet parts, one row a lane and iteration
    evaluation/          Parquet parts, one row a lane and evaluated iteration
    checkpoints/         the whole state, the newest two, of all lanes or of blocks of them
    cuts.json            which settings of a sweep stopped early, and why: `spjax.runs.cuts`
    trajectories.parquet episodes of the final policies on the target
    summary.json         times and frozen lanes, once the run has ended: `Summary`

A part is named by its last iteration.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from spjax.runs import files
from spjax.runs.schema import Lane, RunRecord, Summary

CONFIG = "config.json"
SUMMARY = "summary.json"
METRICS = "metrics"
EVALUATION = "evaluation"
CHECKPOINTS = "checkpoints"
TRAJECTORIES = "trajectories.parquet"

Column: TypeAlias = pa.Array | np.ndarray


def part(folder: Path, kind: str, iteration: int) -> Path:
    """Returns the file of a part, `METRICS` or `EVALUATION`, that ends with this iteration."""
    return folder / kind / f"{iteration:06d}.parquet"


def parts(folder: Path, kind: str) -> list[Path]:
    """Returns the parts in order; temporary files do not count."""
    return sorted(
        file for file in (folder / kind).glob("*.parquet") if file.stem.isdecimal()
    )


def last_iteration(folder: Path) -> int:
    """Returns the iteration of the newest evaluation, 0 before there is one."""
    return max((int(file.stem) for file in parts(folder, EVALUATION)), default=0)


def written(folder: Path) -> set[int]:
    """Returns the iterations whose chunk is written; its metrics come last, and before training there are none."""
    begun = {0} if part(folder, EVALUATION, 0).is_file() else set()
    return begun | {int(file.stem) for file in parts(folder, METRICS)}


def write_record(folder: Path, record: RunRecord) -> None:
    """Writes config.json, the first file of a run."""
    files.write_json(folder / CONFIG, record.to_json())


def write_summary(folder: Path, summary: Summary) -> None:
    """Writes summary.json, the last file of a run."""
    files.write_json(folder / SUMMARY, dataclasses.asdict(summary))


def is_finished(folder: Path) -> bool:
    """Says whether the run has ended."""
    return (folder / SUMMARY).is_file()


def check_free(folder: Path) -> None:
    """Checks that a run may begin here; a process killed before its first file leaves nothing that counts.

    Raises:
        ValueError: there is something else.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or any(file.name[0] != "." for file in folder.iterdir()):
        raise ValueError(
            f"{folder} exists already; resume it, or choose another folder"
        )


def discard_after(folder: Path, iteration: int) -> None:
    """Removes what a killed process left: parts after its last checkpoint, and half-written files."""
    written = [*parts(folder, METRICS), *parts(folder, EVALUATION)]
    newer = [file for file in written if int(file.stem) > iteration]
    half = [folder.glob(depth + ".*.tmp") for depth in ("", "*/", "*/*/")]
    for file in itertools.chain(newer, *half):
        file.unlink(missing_ok=True)


def lane_columns(
    lanes: Sequence[Lane], repeats: int, numbers: Sequence[int] | None = None
) -> dict[str, Column]:
    """Returns the columns that say which run a row belongs to; `repeats` rows a lane, lanes numbered as given or from 0."""
    numbers = range(len(lanes)) if numbers is None else numbers
    columns: dict[str, Column] = {
        "lane": np.repeat(np.asarray(numbers, np.int32), repeats),
        "seed": np.repeat(np.asarray([lane.seed for lane in lanes], np.int64), repeats),
    }
    for name in lanes[0].settings:
        values = [lane.settings[name] for lane in lanes for _ in range(repeats)]
        columns[name] = pa.array(
            [list(v) if isinstance(v, tuple) else v for v in values]
        )
    return columns


def tidy(tree: Any, prefix: str = "") -> dict[str, Column]:
    """Returns a column for each leaf [lane, iteration, ...] of metrics, named by the path of its fields."""
    columns: dict[str, Column] = {}
    for field in dataclasses.fields(tree):
        value = getattr(tree, field.name)
        if _is_maybe(value):
            columns[prefix + field.name] = column(
                value.value, np.asarray(value.present)
            )
        elif dataclasses.is_dataclass(value):
            columns.update(tidy(value, f"{prefix}{field.name}."))
        elif value is not None:
            columns[prefix + field.name] = column(value)
    return columns


def column(values: np.ndarray, present: np.ndarray | None = None) -> Column:
    """Returns a column of [lane, iteration, ...]: numbers, or lists where there are more axes; null where not present."""
    missing = None if present is None else ~present.reshape(-1)
    if values.ndim == 2:
        flat = values.reshape(-1)
        return flat if missing is None else pa.array(flat, mask=missing)
    rows = list(values.reshape(values.shape[0] * values.shape[1], -1))
    return pa.array(
        rows
        if missing is None
        else [None if gone else row for row, gone in zip(rows, missing, strict=True)]
    )


def _is_maybe(value: object) -> bool:
    """Says whether a metric is a `spjax.episodes.Maybe`, by its fields: nothing here imports JAX."""
    return dataclasses.is_dataclass(value) and {
        field.name for field in dataclasses.fields(value)
    } == {
        "value",
        "present",
    }
