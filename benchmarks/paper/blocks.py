"""How far a cell is: its run folders, which seeds are missing, and how long the rest will take.

The first seeds of a cell are in the folder NAME; seeds added later are in folders of their own, NAME_seeds-11-20. What has
finished is kept beside the results as well, so that a cell that was trained on one machine is not trained again on the next.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.paper.cells import Cell
from spjax.runs.folder import last_iteration
from spjax.runs.read import read_record, read_summary
from spjax.runs.schema import FORMAT_VERSION, PARTS, Moments, RunRecord
from spjax.training.run_folder import record_of


@dataclasses.dataclass(frozen=True)
class Block:
    """Some seeds of a cell, in one run folder."""

    cell: Cell
    folder: Path
    seeds: tuple[int, ...]
    state: str  # "finished", "to be resumed", "to be trained"
    num_iterations: int
    iteration: int = 0
    wall_seconds: float | None = None  # of a finished run that was not interrupted

    @property
    def lane_iterations(self) -> int:
        """Iterations of all lanes, done or not."""
        return (
            len(self.seeds)
            * math.prod(map(len, self.cell.over.values()))
            * self.num_iterations
        )

    @property
    def left(self) -> float:
        """The fraction that is not done."""
        return (
            0.0
            if self.state == "finished"
            else 1 - self.iteration / self.num_iterations
        )


def blocks_of(
    cell: Cell, runs: Path, num_seeds: int, kept: Path | None = None
) -> list[Block]:
    """Returns the run folders of a cell and, if seeds of 1..num_seeds are in none of them, one still to be trained.

    Args:
        cell: the cell.
        runs: where is trained.
        num_seeds: how many are wanted.
        kept: where finished run folders are kept, see `benchmarks.paper.kept`; of two folders of one name this one counts.

    Raises:
        ValueError: a folder cannot be read, or was trained with other settings than the cell's.
    """
    folders = {
        folder.name: folder
        for place in (runs, kept)
        if place
        for folder in _folders(cell, place)
    }
    blocks = [_read(cell, folders[name]) for name in sorted(folders)]
    present = {seed for block in blocks for seed in block.seeds}
    missing = tuple(seed for seed in range(1, num_seeds + 1) if seed not in present)
    if missing:
        name = f"{cell.name}_seeds-{missing[0]}-{missing[-1]}" if blocks else cell.name
        num_iterations = cell.config(missing).num_iterations
        blocks.append(
            Block(cell, runs / name, missing, "to be trained", num_iterations)
        )
    return blocks


def _folders(cell: Cell, place: Path) -> list[Path]:
    found = [place / cell.name, *place.glob(f"{cell.name}_seeds-*")]
    return [folder for folder in found if (folder / "config.json").is_file()]


def _read(cell: Cell, folder: Path) -> Block:
    """Returns what a run folder holds."""
    found = read_record(folder)
    different = _differences(found, record_of(cell.config(found.seeds), ""))
    if different:
        raise ValueError(
            f"{folder} was trained with other settings ({', '.join(different)}); move it away"
        )
    summary = read_summary(folder)
    return Block(
        cell=cell,
        folder=folder,
        seeds=found.seeds,
        state="to be resumed" if summary is None else "finished",
        iteration=last_iteration(folder),
        num_iterations=found.num_iterations,
        wall_seconds=None if summary is None else summary.wall_seconds,
    )


def _differences(found: RunRecord, wanted: RunRecord) -> list[str]:
    """Returns the names of what differs; format 1 does not have all settings of parts, so there only their names count."""
    names = {"task": "task_name"}
    parts = [part for part in PARTS if _differ(found, wanted, names.get(part, part))]
    if found.format_version == FORMAT_VERSION:
        records = (record.completed for record in (found, wanted))
        trained, asked = (record.to_json()["config"] for record in records)
        parts = [part for part in PARTS if trained[part] != asked[part]]
    others = ("schedule", "start", "hold_position", "over", "num_iterations")
    different = parts + [name for name in others if _differ(found, wanted, name)]
    return (
        different
        if _same_moments(found.target, wanted.target)
        else [*different, "target"]
    )


def _differ(found: RunRecord, wanted: RunRecord, name: str) -> bool:
    return bool(getattr(found, name) != getattr(wanted, name))


def _same_moments(found: Moments, wanted: Moments) -> bool:
    """Says whether distributions are the same to single precision, in which they are computed."""
    return np.array_equal(
        np.float32([*found.mean, *found.std]), np.float32([*wanted.mean, *wanted.std])
    )


@dataclasses.dataclass(frozen=True)
class Estimate:
    """How long what is left will take."""

    seconds: float
    unknown: tuple[
        str, ...
    ]  # tasks and learners that were never measured, so that they are not in the seconds

    def __str__(self) -> str:
        """Returns it in words."""
        unknown = f"unknown time for {', '.join(self.unknown)}"
        known = f"about {duration(self.seconds)} left"
        if not self.unknown:
            return known
        return f"{known} and {unknown}" if self.seconds else unknown


def time_left(
    left: Iterable[Block], blocks: Iterable[Block], recorded: Iterable["Timing"] = ()
) -> Estimate:
    """Returns the time that some blocks will take.

    Args:
        left: the blocks.
        blocks: those that are finished tell how long their task and learner take.
        recorded: what is known of tasks and learners of which none is finished.
    """
    rates = _seconds_per_lane_iteration(recorded) | _seconds_per_lane_iteration(
        _timings(blocks)
    )
    left = list(left)
    known = [block for block in left if _kind(block) in rates]
    seconds = sum(
        rates[_kind(block)] * block.lane_iterations * block.left for block in known
    )
    return Estimate(
        seconds, tuple(sorted({_kind(block) for block in left} - rates.keys()))
    )


class Timing(NamedTuple):
    """How long a run took, compiling included."""

    kind: str  # task and learner
    seconds: float
    lane_iterations: int


def _timings(blocks: Iterable[Block]) -> list[Timing]:
    """Returns those of finished blocks."""
    return [
        Timing(_kind(block), block.wall_seconds, block.lane_iterations)
        for block in blocks
        if block.wall_seconds is not None
    ]


def kind_of(env: str, agent: str) -> str:
    """Returns the name of what takes about the same time: task and learner."""
    return f"{env} {agent}"


def _kind(block: Block) -> str:
    return kind_of(block.cell.env, block.cell.agent)


def _seconds_per_lane_iteration(timings: Iterable[Timing]) -> dict[str, float]:
    """Returns the mean of each kind."""
    measured: dict[str, list[Timing]] = {}
    for timing in timings:
        measured.setdefault(timing.kind, []).append(timing)
    return {
        kind: sum(timing.seconds for timing in found)
        / sum(timing.lane_iterations for timing in found)
        for kind, found in measured.items()
    }


def duration(seconds: float) -> str:
    """Returns for example "3 h 05 min" or "12 min"."""
    minutes = math.ceil(seconds / 60)
    return (
        f"{minutes // 60} h {minutes % 60:02d} min"
        if minutes >= 60
        else f"{minutes} min"
    )


def seeds_label(seeds: Sequence[int]) -> str:
    """Returns "1-20", or the list where seeds are missing between."""
    whole = len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}-{seeds[-1]}" if whole else ", ".join(map(str, seeds))
