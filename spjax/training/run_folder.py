"""From a configuration to the record that its run folder keeps, and back."""

import dataclasses
import datetime
from pathlib import Path

from spjax import catalogue
from spjax.catalogue import Use
from spjax.contexts import ContextDistribution
from spjax.contexts.base import decimals
from spjax.runs.folder import CONFIG, write_record
from spjax.runs.provenance import commit, device, versions
from spjax.runs.read import read_record
from spjax.runs.schema import FORMAT_VERSION, Contexts, Moments, RunRecord
from spjax.training.config import PARTS, RunConfig


def write_config(
    folder: Path, config: RunConfig, command: str, computed_on: str | None = None
) -> None:
    """Writes config.json, the first file of a run."""
    write_record(folder, record_of(config, command, computed_on))


def record_of(
    config: RunConfig, command: str, computed_on: str | None = None
) -> RunRecord:
    """Returns what the run folder of a configuration says; it is computed on the device of this process if no other is named."""
    resolved = config.resolved
    task, space = resolved.task, resolved.task.context_space
    spelled = resolved.spelled()
    target = _moments(resolved.teacher.aims_at)
    return RunRecord(
        **{part: spelled[part][part] for part in PARTS},
        settings={
            part: {name: spelled[part][name] for name in spelled[part] if name != part}
            for part in PARTS
        },
        num_iterations=config.num_iterations,
        evaluate_every=config.evaluate_every,
        evaluation_episodes=config.evaluation_episodes,
        hold_position=config.hold_position,
        seeds=tuple(config.seeds),
        over={name: tuple(values) for name, values in config.over.items()},
        lanes=tuple(config.lanes()),
        steps_per_iteration=config.steps_per_iteration,
        rollouts_per_iteration=config.rollouts_per_iteration,
        context_space=Contexts(space.names, space.units, space.lower, space.upper),
        target=target,
        initial=_moments(resolved.teacher.starts_at),
        scenery=tuple(tuple(line) for line in task.scenery(target.mean)),
        goal=task.goal,
        plane=task.plane,
        scenery_name=task.scenery_name,
        versions=versions(),
        device=computed_on or device(),
        commit=commit(),
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        uses=tuple(dataclasses.asdict(use) for use in config.uses()),
        preset=config.preset,
        reference=config.reference,
        halving=spelled["halving"],
    )


def read_config(folder: Path, accept_changes: bool = False) -> RunConfig:
    """Returns the configuration of a run folder.

    Args:
        folder: the run folder.
        accept_changes: whether the user's own files may be others than those that the run began with.

    Raises:
        ValueError: the folder is missing, is not a run folder, is half-written, has another format version, or needs a file
            that is missing or another one than it was.
    """
    record = read_record(folder)
    if record.format_version != FORMAT_VERSION:
        raise ValueError(
            f"{folder} was trained by an earlier version (format {record.format_version}): its pictures can be drawn, "
            "but its policies cannot be read"
        )
    catalogue.load([Use(**use) for use in record.uses], accept_changes)
    try:
        return RunConfig.built(record.to_json()["config"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{folder / CONFIG} is not a configuration of this version: {error}"
        ) from error


def _moments(distribution: ContextDistribution) -> Moments:
    summary = distribution.summary()
    return Moments(decimals(summary.mean), decimals(summary.std))
