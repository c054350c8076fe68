"""Reading a run folder: configuration, metrics, evaluation and trajectories of one experiment.

The folder holds config.json, Parquet parts in metrics/ and evaluation/ and, once the run has ended, summary.json and
trajectories.parquet. A lane is one training run: one seed with one value of every swept setting.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from spjax.analysis.paper import Method

FORMAT_VERSION = 1

# what folders lack that were written before there was a choice
_SINCE = {
    "start": "initial",
    "hold_position": False,
    "plane": ("x", "y"),
    "scenery_name": "wall",
    "rollouts_per_iteration": None,
}

T = TypeVar("T")
Setting = int | float | str | None | tuple[int | float, ...]


@dataclass(frozen=True)
class Lane:
    """One training run of the folder."""

    seed: int
    settings: dict[str, Setting]  # the swept ones, for example {"teacher.kl_proportion": 0.8}


@dataclass(frozen=True)
class Contexts:
    """The box of tasks."""

    names: tuple[str, ...]
    units: tuple[str, ...]  # "1" for a dimensionless context
    lower: tuple[float, ...]
    upper: tuple[float, ...]


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of a distribution with independent context dimensions, context units."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class RunConfig:
    """What config.json says; fields as in the file."""

    env: str
    agent: str
    teacher: str
    schedule: str | None
    variant: str
    start: str | None  # distribution that the teacher's contexts start from: "initial", "target", or none
    hold_position: bool  # whether the policy was cloned to the zero action before training
    settings: dict[str, Any]
    num_iterations: int
    evaluate_every: int  # iterations
    steps_per_iteration: int | None  # environment steps; None where their number varies
    rollouts_per_iteration: int | None  # of episodic learners
    lanes: tuple[Lane, ...]
    context_space: Contexts
    target: Moments
    initial: Moments
    scenery: tuple[tuple[tuple[float, float], ...], ...]  # polylines of the target task, metres
    goal: tuple[float, float] | None  # position that the target task asks for, metres
    plane: tuple[str, str]  # axes of trajectories, scenery and goal
    scenery_name: str
    versions: dict[str, str | None]
    device: str | None
    commit: str | None
    command: str | None
    created: str | None

    @property
    def method(self) -> Method:
        """The key of this run among the published results.

        In ball catching the paper stars SPDL and GoalGAN that start at the initial contexts, and Default without cloned policy.
        """
        starred = self.start == "initial" if self.teacher != "default" else not self.hold_position
        return Method(self.env, self.agent, self.teacher, self.schedule, starred and self.env == "ball-catching")


@dataclass(frozen=True)
class Frozen:
    """A lane that stopped learning because its parameters became non-finite."""

    lane: int
    seed: int
    iteration: int


@dataclass(frozen=True)
class Summary:
    """What summary.json says; written when the run ends."""

    finished: bool
    wall_seconds: float | None
    compile_seconds: float | None
    frozen: tuple[Frozen, ...]


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
    config: RunConfig
    summary: Summary | None  # None while the run goes on
    metrics: pa.Table  # one row a lane and iteration
    evaluation: pa.Table  # one row a lane and evaluated iteration
    trajectories: pa.Table | None  # one row an episode

    @property
    def last_evaluated_iteration(self) -> int:
        """The iteration that the final values belong to."""
        return int(self.evaluation["iteration"].to_numpy().max())

    def groups(self) -> list[Group]:
        """Returns the lanes by swept settings, in order of first appearance; one group if nothing is swept."""
        found: dict[tuple[tuple[str, Setting], ...], list[int]] = {}
        for index, lane in enumerate(self.config.lanes):
            found.setdefault(tuple(lane.settings.items()), []).append(index)
        return [Group(dict(settings), tuple(lanes)) for settings, lanes in found.items()]

    def seeds(self, group: Group) -> list[int]:
        """Returns the seed of each lane of the group."""
        return [self.config.lanes[lane].seed for lane in group.lanes]

    def evaluation_curves(self, column: str, group: Group) -> Curves:
        """Returns an evaluation column; its iterations start at 0."""
        return _curves(self.evaluation, column, group)

    def metric_curves(self, column: str, group: Group) -> Curves:
        """Returns a training metric; its iterations start at 1."""
        return _curves(self.metrics, column, group)

    def has_metric(self, column: str) -> bool:
        """Says whether the column was recorded with at least one finite, nonzero value."""
        if column not in self.metrics.column_names:
            return False
        values = _floats(self.metrics, column)
        return bool(np.any(np.isfinite(values) & (values != 0)))

    def num_frozen(self, group: Group) -> int:
        """Returns how many lanes of the group were frozen."""
        return 0 if self.summary is None else sum(lane.lane in group.lanes for lane in self.summary.frozen)


def load_run(path: str | Path) -> Run:
    """Returns the run stored at ``path``, finished or not.

    Raises:
        ValueError: the folder is missing, is not a run folder, has a damaged config.json or one of another format
            version, or holds no evaluation yet.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}; give the path of a run folder that `spjax train` wrote")
    if not (path / "config.json").is_file():
        raise ValueError(f"{path} is not a run folder: it has no config.json")
    config = _read_json(path / "config.json", _parse_config)
    summary_file = path / "summary.json"
    trajectories_file = path / "trajectories.parquet"
    evaluation = _read_parts(path / "evaluation")
    if evaluation is None:
        raise ValueError(f"{path} has no evaluation yet; wait until the run has written its first part")
    return Run(
        path=path,
        config=config,
        summary=_read_json(summary_file, _parse_summary) if summary_file.is_file() else None,
        metrics=_read_parts(path / "metrics") or pa.table({}),
        evaluation=evaluation,
        trajectories=pq.ParquetFile(trajectories_file).read() if trajectories_file.is_file() else None,
    )


def _read_json(file: Path, parse: Callable[[dict[str, Any]], T]) -> T:
    """Returns the parsed file, or one sentence about what is wrong with it."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is damaged or half-written ({error}); restore it or train again") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{file} must hold a JSON object, got {type(raw).__name__}")
    try:
        return parse(raw)
    except KeyError as error:
        raise ValueError(f"{file} lacks the entry {error}; restore it or train again") from None
    except (TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{file} is damaged ({error}); restore it or train again") from None


def _parse_config(raw: dict[str, Any]) -> RunConfig:
    if raw["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"this run folder has format version {raw['format_version']!r}, this spjax reads version {FORMAT_VERSION}; "
            "use the spjax that wrote it, or train again"
        )
    raw = {**_SINCE, **raw}
    space = raw["context_space"]
    structured: dict[str, Any] = {
        "lanes": tuple(Lane(lane["seed"], _hashable(lane["settings"])) for lane in raw["lanes"]),
        "context_space": Contexts(*(tuple(space[key]) for key in ("names", "units", "lower", "upper"))),
        "target": Moments(tuple(raw["target"]["mean"]), tuple(raw["target"]["std"])),
        "initial": Moments(tuple(raw["initial"]["mean"]), tuple(raw["initial"]["std"])),
        "scenery": tuple(tuple((x, y) for x, y in line) for line in raw["scenery"]),
        "goal": None if raw.get("goal") is None else (raw["goal"][0], raw["goal"][1]),
        "plane": tuple(raw["plane"]),
    }
    plain = {field.name: raw[field.name] for field in fields(RunConfig) if field.name not in structured}
    return RunConfig(**structured, **plain)


def _hashable(settings: dict[str, Any]) -> dict[str, Setting]:
    """Returns the settings with the lists of JSON as tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _parse_summary(raw: dict[str, Any]) -> Summary:
    frozen = tuple(Frozen(entry["lane"], entry["seed"], entry["iteration"]) for entry in raw["frozen"])
    return Summary(raw["finished"], raw["wall_seconds"], raw["compile_seconds"], frozen)


def _read_parts(folder: Path) -> pa.Table | None:
    """Returns the parts in order as one table; temporary files do not count."""
    parts = sorted(file for file in folder.glob("*.parquet") if file.stem.isdecimal())
    tables = [pq.ParquetFile(part).read() for part in parts]
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


def _floats(table: pa.Table, column: str) -> Float[np.ndarray, " row"]:
    return np.asarray(table[column].to_numpy(zero_copy_only=False), dtype=float)


def _curves(table: pa.Table, column: str, group: Group) -> Curves:
    if column not in table.column_names:
        raise ValueError(f"the run folder has no column {column!r}, only {', '.join(table.column_names) or 'none'}")
    lane, iteration = (table[name].to_numpy(zero_copy_only=False) for name in ("lane", "iteration"))
    iterations, point = np.unique(iteration, return_inverse=True)
    values = np.full((int(lane.max()) + 1, iterations.size), np.nan)
    values[lane, point] = _floats(table, column)
    return Curves(iterations, values[list(group.lanes)])
