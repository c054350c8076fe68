"""From a configuration to the record that its run folder keeps, and back."""

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spjax import envs
from spjax.agents.episodic import Polynomial, RadialBasis
from spjax.envs.adapters.policy_search import PolicySearch
from spjax.envs.base import Env
from spjax.runs.folder import CONFIG, write_record
from spjax.runs.provenance import commit, device, versions
from spjax.runs.read import read_record
from spjax.runs.schema import Contexts, Moments, Preset, RunRecord
from spjax.training.config import AGENTS, EPISODIC_AGENTS, TEACHERS, RunConfig

_NESTED = {kind.__name__: kind for kind in (Polynomial, RadialBasis)}  # what settings may hold beside numbers and words


def write_config(folder: Path, config: RunConfig, command: str) -> None:
    """Writes config.json, the first file of a run."""
    write_record(folder, record_of(config, command))


def record_of(config: RunConfig, command: str) -> RunRecord:
    """Returns what the run folder of a configuration says."""
    mean, std = config.target
    space, env, teacher = config.env.context_space, config.env, config.teacher
    initial_mean = getattr(teacher, "initial_mean", None) or env.initial_mean
    initial_std = getattr(teacher, "initial_std", None) or env.initial_std
    return RunRecord(
        task=env.name,
        agent=config.agent_name,
        teacher=config.teacher_name,
        settings={"task": _settings(env), "agent": _settings(config.agent), "teacher": _settings(teacher)},
        num_iterations=config.num_iterations,
        evaluate_every=config.evaluate_every,
        evaluation_episodes=config.evaluation_episodes,
        hold_position=config.hold_position,
        seeds=config.seeds,
        over=config.over,
        lanes=tuple(config.lanes()),
        steps_per_iteration=None if config.episodic else config.agent.steps_per_iteration,
        rollouts_per_iteration=config.agent.num_rollouts(env) if config.episodic else None,
        context_space=Contexts(space.names, space.units, space.lower, space.upper),
        target=Moments(mean, std),
        initial=Moments(tuple(initial_mean), tuple(initial_std)),
        scenery=tuple(tuple(line) for line in env.scenery(mean)),
        goal=env.goal,
        plane=env.plane,
        scenery_name=env.scenery_name,
        versions=versions(),
        device=device(),
        commit=commit(),
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        preset=Preset(getattr(teacher, "schedule", None), config.variant, config.start),
    )


def read_config(folder: Path) -> RunConfig:
    """Returns the configuration of a run folder.

    Raises:
        ValueError: the folder is missing, is not a run folder, is half-written, or has another format version.
    """
    record = read_record(folder)
    try:
        return RunConfig(
            env=_task(record.task, record.agent, _typed(record.settings["task"])),
            agent=AGENTS[record.agent](**_typed(record.settings["agent"])),
            teacher=TEACHERS[record.agent][record.teacher](**_typed(record.settings["teacher"])),
            agent_name=record.agent,
            teacher_name=record.teacher,
            variant=record.variant or "published",
            target_mean=record.target.mean,
            target_std=record.target.std,
            seeds=record.seeds,
            over=record.over,
            num_iterations=record.num_iterations,
            evaluate_every=record.evaluate_every,
            evaluation_episodes=record.evaluation_episodes,
            hold_position=record.hold_position,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / CONFIG} is not a configuration of this version: {error}") from error


def _task(name: str, agent: str, settings: Mapping[str, Any]) -> Any:
    made = envs.make(name)
    searched = agent in EPISODIC_AGENTS and isinstance(made, Env)
    return PolicySearch(**settings) if searched else dataclasses.replace(made, **settings)


def _settings(part: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(part, field.name)) for field in dataclasses.fields(part)}


def _plain(value: Any) -> Any:
    return {"kind": type(value).__name__, **_settings(value)} if dataclasses.is_dataclass(value) else value


def _typed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with the parts inside them made."""
    return {name: _restored(value) for name, value in settings.items()}


def _restored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    settings = _typed(value)
    return _NESTED[settings.pop("kind")](**settings)
