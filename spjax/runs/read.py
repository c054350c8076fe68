"""Reading a run folder: what it says, and its metrics, evaluation and trajectories as tables."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from spjax.runs import folder as layout
from spjax.runs.cuts import Cut, read_cuts
from spjax.runs.schema import RunRecord, Setting, Summary

T = TypeVar("T")


@dataclass(frozen=True)
class Curves:
    """One quantity over the iterations; NaN where nothing was recorded."""

    iterations: Int[np.ndarray, " point"]
    values: Float[np.ndarray, "lane point"]


@dataclass(frozen=True)
class Group:
    """The lanes that share their swept settings: they differ in the seed alone."""

    settings: dict[str, Setting]
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One run folder in memory."""

    path: Path
    config: RunRecord
    summary: Summary | None  # None while the run goes on
    metrics: pa.Table  # one row a lane and iteration
    evaluation: pa.Table  # one row a lane and evaluated iteration
    trajectories: pa.Table | None  # one row an episode
    cuts: tuple[Cut, ...] = ()  # settings of the sweep that stopped early
    _kept: dict[tuple[str, str], Curves] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )  # of all lanes, by table and column

    @property
    def last_evaluated_iteration(self) -> int:
        """The iteration that the final values belong to."""
        return int(self.evaluation["iteration"].to_numpy().max())

    def groups(self) -> list[Group]:
        """Returns the lanes by swept settings, in order; one group if nothing is swept."""
        found: dict[tuple[tuple[str, Setting], ...], list[int]] = {}
        for index, lane in enumerate(self.config.lanes):
            found.setdefault(tuple(lane.settings.items()), []).append(index)
        return [
            Group(dict(settings), tuple(lanes)) for settings, lanes in found.items()
        ]

    def seeds(self, group: Group) -> list[int]:
        """Returns the seed of each lane of the group."""
        return [self.config.lanes[lane].seed for lane in group.lanes]

    def only(self, group: Group) -> "Run":
        """Returns the run with these lanes alone, numbered from 0."""
        numbers = {lane: number for number, lane in enumerate(group.lanes)}
        lanes = tuple(self.config.lanes[lane] for lane in group.lanes)
        summary = self.summary
        if summary is not None:
            kept = [lane for lane in summary.frozen if lane.lane in numbers]
            frozen = tuple(
                dataclasses.replace(lane, lane=numbers[lane.lane]) for lane in kept
            )
            summary = dataclasses.replace(summary, frozen=frozen)
        cut = self.cut(group)
        cuts = (
            ()
            if cut is None
            else (dataclasses.replace(cut, lanes=tuple(range(len(numbers)))),)
        )
        return Run(
            path=self.path,
            config=dataclasses.replace(self.config, lanes=lanes),
            summary=summary,
            metrics=_only(self.metrics, numbers),
            evaluation=_only(self.evaluation, numbers),
            trajectories=None
            if self.trajectories is None
            else _only(self.trajectories, numbers),
            cuts=cuts,
        )

    def cut(self, group: Group) -> Cut | None:
        """Returns when and why the lanes of the group stopped early, None where they did not."""
        cuts = (cut for cut in self.cuts if set(group.lanes) <= set(cut.lanes))
        return next(cuts, None)

    @property
    def going_on(self) -> list[int]:
        """The lanes that got to the last evaluated iteration; the others stopped early."""
        last = pc.field("iteration") == self.last_evaluated_iteration
        rows = self.evaluation.select(["lane", "iteration"]).filter(last)
        return sorted(set(rows["lane"].to_pylist()))

    def evaluation_curves(self, column: str, group: Group) -> Curves:
        """Returns an evaluation column; its iterations start at 0."""
        return self._curves("evaluation", column, group)

    def metric_curves(self, column: str, group: Group) -> Curves:
        """Returns a training metric; its iterations start at 1."""
        return self._curves("metrics", column, group)

    def has_metric(self, column: str) -> bool:
        """Says whether the column was recorded with at least one finite, nonzero value."""
        if column not in self.metrics.column_names:
            return False
        values = _floats(self.metrics, column)
        return bool(np.any(np.isfinite(values) & (values != 0)))

    def _curves(self, name: str, column: str, group: Group) -> Curves:
        """Returns those of the group; those of all lanes are made once, since a sweep may have thousands of groups."""
        if (name, column) not in self._kept:
            self._kept[name, column] = _curves(getattr(self, name), column)
        every = self._kept[name, column]
        return Curves(every.iterations, every.values[list(group.lanes)])

    def num_frozen(self, group: Group) -> int:
        """Returns how many lanes of the group were frozen."""
        frozen = () if self.summary is None else self.summary.frozen
        return sum(lane.lane in group.lanes for lane in frozen)


def load_run(path: str | Path) -> Run:
    """Returns the run stored at ``path``, finished or not.

    Raises:
        ValueError: what `read_record` raises, or there is no evaluation yet.
    """
    path = Path(path)
    config = read_record(path)
    evaluation = _read_parts(path, layout.EVALUATION)
    if evaluation is None:
        if read_summary(path) is not None:
            raise ValueError(
                f"{path} is finished, but its evaluation is missing; copy the folder anew or train again"
            )
        advice = "wait until the run has written its first part"
        raise ValueError(f"{path} has no evaluation yet; {advice}")
    paths = path / layout.TRAJECTORIES
    return Run(
        path=path,
        config=config,
        summary=read_summary(path),
        metrics=_read_parts(path, layout.METRICS) or pa.table({}),
        evaluation=evaluation,
        trajectories=pq.ParquetFile(paths).read() if paths.is_file() else None,
        cuts=read_cuts(path),
    )


def read_record(folder: Path) -> RunRecord:
    """Returns what config.json says.

    Raises:
        ValueError: the folder is missing, is not a run folder, or its config.json is damaged or of
            another format.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no run folder {folder}")
    if not (folder / layout.CONFIG).is_file():
        raise ValueError(f"{folder} is not a run folder: it has no {layout.CONFIG}")
    return _read_json(folder / layout.CONFIG, RunRecord.from_json)


def read_returns(part: Path) -> dict[int, float]:
    """Returns of each lane in a part of the evaluation its discounted return."""
    table = pq.ParquetFile(part).read(columns=["lane", "discounted_return"])
    returns = _floats(table, "discounted_return")
    lanes: list[int] = table["lane"].to_pylist()
    return dict(zip(lanes, returns.tolist(), strict=True))


def read_summary(folder: Path) -> Summary | None:
    """Returns what summary.json says, None while the run goes on.

    Raises:
        ValueError: the file is damaged.
    """
    if not layout.is_finished(folder):
        return None
    return _read_json(folder / layout.SUMMARY, Summary.from_json)


def _read_json(file: Path, parse: Callable[[Mapping[str, Any]], T]) -> T:
    """Returns the parsed file, or one sentence about what is wrong with it."""
    advice = "restore it or train again"
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{file} is damaged or half-written ({error}); {advice}"
        ) from None
    if not isinstance(raw, dict):
        raise ValueError(f"{file} must hold a JSON object, got {type(raw).__name__}")
    try:
        return parse(raw)
    except KeyError as error:
        raise ValueError(f"{file} lacks the entry {error}; {advice}") from None
    except ValueError as error:
        raise ValueError(f"{file.parent}: {error}") from None
    except (TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{file} is damaged ({error}); {advice}") from None


def _read_parts(folder: Path, kind: str) -> pa.Table | None:
    """Returns the parts as one table, None where there is none."""
    tables = [pq.ParquetFile(file).read() for file in layout.parts(folder, kind)]
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


def _only(table: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """Returns the rows of some lanes, renumbered."""
    if "lane" not in table.column_names:  # nothing was recorded yet
        return table
    rows = table.filter(pc.field("lane").isin(list(numbers)))
    renumbered = [numbers[lane] for lane in rows["lane"].to_pylist()]
    place = rows.column_names.index("lane")
    return rows.set_column(place, "lane", pa.array(renumbered, rows["lane"].type))


def _floats(table: pa.Table, column: str) -> Float[np.ndarray, " row"]:
    return np.asarray(table[column].to_numpy(zero_copy_only=False), dtype=float)


def _curves(table: pa.Table, column: str) -> Curves:
    if column not in table.column_names:
        known = ", ".join(table.column_names) or "none"
        raise ValueError(f"the run folder has no column {column!r}, only {known}")
    lane, iteration = (
        table[name].to_numpy(zero_copy_only=False) for name in ("lane", "iteration")
    )
    iterations, point = np.unique(iteration, return_inverse=True)
    values = np.full((int(lane.max()) + 1, iterations.size), np.nan)
    values[lane, point] = _floats(table, column)
    return Curves(iterations, values)
