"""The run folder: all that is needed to resume, evaluate, plot and render a run in a fresh process.

    config.json          the resolved configuration, versions, device
    metrics/             Parquet parts, one row a lane and iteration
    evaluation/          Parquet parts, one row a lane and evaluated iteration
    checkpoints/         the whole state, the newest two
    trajectories.parquet episodes of the final policies on the target
    summary.json         times and frozen lanes, once the run has ended

Every file is written under a temporary name and renamed.
"""

import dataclasses
import datetime
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spjax import envs
from spjax.agents.episodic import Polynomial, RadialBasis
from spjax.analysis.results import commit, device, versions
from spjax.envs.adapters.policy_search import PolicySearch
from spjax.envs.base import Env
from spjax.training.config import AGENTS, EPISODIC_AGENTS, TEACHERS, Lane, RunConfig

FORMAT_VERSION = 1
_NESTED = {kind.__name__: kind for kind in (Polynomial, RadialBasis)}  # what settings may hold beside numbers and words


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file under a temporary name in the same folder and renames it; leaves nothing behind on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Writes JSON atomically."""
    write_atomically(path, lambda p: p.write_text(json.dumps(content, indent=1) + "\n"))


def write_table(path: Path, table: pa.Table) -> None:
    """Writes Parquet atomically."""
    write_atomically(path, lambda p: pq.write_table(table, p))


def write_config(folder: Path, config: RunConfig, command: str) -> None:
    """Writes config.json, the first file of a run."""
    mean, std = config.target
    space = config.env.context_space
    write_json(
        folder / "config.json",
        {
            "format_version": FORMAT_VERSION,
            "env": config.env.name,
            "agent": config.agent_name,
            "teacher": config.teacher_name,
            "schedule": getattr(config.teacher, "schedule", None),
            "variant": config.variant,
            "settings": {
                "env": _settings(config.env),
                "agent": _settings(config.agent),
                "teacher": _settings(config.teacher),
            },
            "num_iterations": config.num_iterations,
            "evaluate_every": config.evaluate_every,
            "evaluation_episodes": config.evaluation_episodes,
            "hold_position": config.hold_position,
            "start": config.start,
            "steps_per_iteration": None if config.episodic else config.agent.steps_per_iteration,
            "rollouts_per_iteration": config.agent.num_rollouts(config.env) if config.episodic else None,
            "seeds": list(config.seeds),
            "over": {name: list(values) for name, values in config.over.items()},
            "lanes": [{"seed": lane.seed, "settings": dict(lane.settings)} for lane in config.lanes()],
            "context_space": {
                "names": space.names,
                "units": space.units,
                "lower": space.lower,
                "upper": space.upper,
            },
            "target": {"mean": mean, "std": std},
            "initial": {
                "mean": getattr(config.teacher, "initial_mean", None) or config.env.initial_mean,
                "std": getattr(config.teacher, "initial_std", None) or config.env.initial_std,
            },
            "scenery": config.env.scenery(mean),
            "goal": config.env.goal,
            "plane": config.env.plane,
            "scenery_name": config.env.scenery_name,
            "versions": versions(),
            "device": device(),
            "commit": commit(),
            "command": command,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        },
    )


def read_config(folder: Path) -> RunConfig:
    """Returns the configuration of a run folder.

    Raises:
        ValueError: the folder is missing, is not a run folder, is half-written, or has another format version.
    """
    content = read_config_json(folder)
    try:
        settings = content["settings"]
        return RunConfig(
            env=_task(content["env"], content["agent"], _typed(settings["env"])),
            agent=AGENTS[content["agent"]](**_typed(settings["agent"])),
            teacher=TEACHERS[content["agent"]][content["teacher"]](**_typed(settings["teacher"])),
            agent_name=content["agent"],
            teacher_name=content["teacher"],
            variant=content["variant"],
            target_mean=tuple(content["target"]["mean"]),
            target_std=tuple(content["target"]["std"]),
            seeds=tuple(content["seeds"]),
            over={name: tuple(_typed(dict(enumerate(values))).values()) for name, values in content["over"].items()},
            num_iterations=content["num_iterations"],
            evaluate_every=content["evaluate_every"],
            evaluation_episodes=content["evaluation_episodes"],
            hold_position=content.get("hold_position", False),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / 'config.json'} is not a configuration of this version: {error}") from error


def read_config_json(folder: Path) -> dict[str, Any]:
    """Returns config.json as it stands; the same errors as `read_config`."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ValueError(f"there is no run folder {folder}")
    if not path.is_file():
        raise ValueError(f"{folder} is not a run folder: it has no config.json")
    try:
        content = json.loads(path.read_text())
        version = content["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is half-written or damaged") from error
    if version != FORMAT_VERSION:
        raise ValueError(f"{folder} has format version {version}, this spjax reads {FORMAT_VERSION}")
    return content


def is_finished(folder: Path) -> bool:
    """Says whether the run has ended."""
    return (folder / "summary.json").is_file()


def check_free(folder: Path) -> None:
    """Checks that a run may begin here; what a process left that was killed before its first file does not count.

    Raises:
        ValueError: there is something else.
    """
    if folder.exists() and (not folder.is_dir() or any(file.name[0] != "." for file in folder.iterdir())):
        raise ValueError(f"{folder} exists already; resume it, or choose another folder")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the run folder for this process; leaves no lock file where no run has begun.

    Raises:
        ValueError: another process is training in it.
    """
    path = folder / ".lock"
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process is training in {folder}") from None
        try:
            yield
        finally:
            if not (folder / "config.json").exists():
                path.unlink(missing_ok=True)


def discard_after(folder: Path, iteration: int) -> None:
    """Removes the parts that a killed process wrote after its last checkpoint."""
    for part in [*folder.glob("metrics/*.parquet"), *folder.glob("evaluation/*.parquet")]:
        if int(part.stem) > iteration:
            part.unlink()


def lane_columns(lanes: list[Lane], repeats: int) -> dict[str, Any]:
    """Returns the columns that say which run a row belongs to; `repeats` rows a lane."""
    columns: dict[str, Any] = {
        "lane": np.repeat(np.arange(len(lanes), dtype=np.int32), repeats),
        "seed": np.repeat(np.asarray([lane.seed for lane in lanes], np.int64), repeats),
    }
    for name in lanes[0].settings:
        values = [lane.settings[name] for lane in lanes for _ in range(repeats)]
        columns[name] = pa.array([list(v) if isinstance(v, tuple) else v for v in values])
    return columns


def tidy(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Returns one column for each leaf [lane, iteration, ...] of a metrics pytree, named by the path of its fields."""
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(tree):
        value = getattr(tree, field.name)
        if dataclasses.is_dataclass(value):
            columns.update(tidy(value, f"{prefix}{field.name}."))
        elif value is not None:
            columns[prefix + field.name] = column(value)
    return columns


def column(values: np.ndarray) -> pa.Array | np.ndarray:
    """Returns a column of [lane, iteration, ...]: numbers, or lists where there are more axes."""
    if values.ndim == 2:
        return values.reshape(-1)
    return pa.array(list(values.reshape(values.shape[0] * values.shape[1], -1)))


def _task(name: str, agent: str, settings: Mapping[str, Any]) -> Any:
    made = envs.make(name)
    searched = agent in EPISODIC_AGENTS and isinstance(made, Env)
    return PolicySearch(**settings) if searched else dataclasses.replace(made, **settings)


def _settings(part: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(part, field.name)) for field in dataclasses.fields(part)}


def _plain(value: Any) -> Any:
    return {"kind": type(value).__name__, **_settings(value)} if dataclasses.is_dataclass(value) else value


def _typed(settings: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the settings in the types that they had before JSON, which has lists only."""
    return {name: _restored(value) for name, value in settings.items()}


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        settings = _typed(value)
        return _NESTED[settings.pop("kind")](**settings)
    return tuple(value) if isinstance(value, list) else value
