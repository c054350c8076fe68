"""Looks a published experiment up by names.

Two variants exist where paper and published results differ: "published" (what the results most plausibly used, the default)
and "article" (the printed text); a task may have more. A preset is a difference from the defaults of its parts; each file
beside this one is the table of a task. A task without a table trains on the defaults.
"""

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType

from spjax import catalogue
from spjax.agents.base import Agent
from spjax.envs.base import Task
from spjax.presets.published import published
from spjax.presets.table import SCHEDULED, STARTED, VARIANTS, Names, Settings, table_of
from spjax.runs.schema import Preset
from spjax.settings import check_value, nearest, put, put_all
from spjax.teachers.base import Teacher
from spjax.training.config import Printed, RunConfig

NONE: Settings = MappingProxyType({})


def preset(
    task: str,
    agent: str | None = None,
    teacher: str | None = None,
    schedule: str | None = None,
    variant: str = "published",
    start: str | None = None,
) -> RunConfig:
    """Returns a published experiment; change it with `dataclasses.replace`.

    Args:
        task: its name.
        agent: its name; None for the first that the task has, "ppo" or, for episodic tasks, "sprl".
        teacher: its name; None for the first that the agent has.
        schedule: name of the schedule, for teachers that have one; None for the first.
        variant: "published", "article", or another one that the task has.
        start: where the contexts of a teacher that moves start, at the "initial" or the "target" distribution; None for the
            first that was published for this task.

    Raises:
        ValueError: an unknown name, the message has the nearest known one; or names that do not go together.
    """
    made: Task = catalogue.make("task", task)
    table = table_of(task)
    if variant not in table.variants:
        others = nearest(variant, table.variants)
        raise ValueError(f"unknown variant {variant!r}; {others}")
    agent = agent or next(iter(table.agents), _fitting_agent(made))
    learner: Agent = catalogue.make("agent", agent)
    if learner.collects == "rollouts" and made.collected == "slots":
        made = catalogue.make("task", "policy-search", of=made)
    teacher = teacher or next(
        iter(table.agents.get(agent, ())), _fitting_teacher(learner)
    )
    curriculum: Teacher = catalogue.make("teacher", teacher)
    schedule = _chosen("schedule", schedule, curriculum, table.schedules)
    start = _chosen("start", start, curriculum, table.starts)
    names = Names(task, agent, teacher, schedule, start, variant)
    curriculum = _with_choices(curriculum, schedule, start)
    known = agent in table.agents and teacher in table.agents[agent]
    differences = table.settings(names) if known else {}
    config = RunConfig(
        made, learner, curriculum, preset=Preset(schedule, variant, start)
    )
    return _with_reference(_changed(config, **differences), names)


def _changed(
    config: RunConfig,
    task: Settings = NONE,
    agent: Settings = NONE,
    teacher: Settings = NONE,
    run: Settings = NONE,
) -> RunConfig:
    """Returns the run with what a table says is different."""
    return dataclasses.replace(
        config,
        task=put_all(config.task, task),
        agent=put_all(config.agent, agent),
        teacher=put_all(config.teacher, teacher),
        **run,
    )


def _chosen(
    what: str, name: str | None, teacher: Teacher, published: Sequence[str]
) -> str | None:
    """Returns the name of the schedule or start that the teacher gets, None where it has none."""
    declared = teacher.declared()
    own = catalogue.name_of(teacher)
    if what not in declared:
        if name is not None:
            raise ValueError(f"the teacher {own!r} has no {what}, got {name!r}")
        return None
    if name is None:
        return (
            published[0]
            if own in {"schedule": SCHEDULED, "start": STARTED}[what]
            else None
        )
    if what == "schedule":
        catalogue.find("schedule", name)
    else:
        check_value(what, declared[what], name)
    return name


def _with_choices(teacher: Teacher, schedule: str | None, start: str | None) -> Teacher:
    if (
        schedule is not None
        and catalogue.name_of(teacher.settings()["schedule"]) != schedule
    ):
        teacher = put(teacher, "schedule", catalogue.make("schedule", schedule))
    if start is not None:
        teacher = put(teacher, "start", start)
    return teacher


def _fitting_agent(task: Task) -> str:
    return {"slots": "ppo", "rollouts": "sprl"}[task.collected]


def _fitting_teacher(agent: Agent) -> str:
    if agent.fits_contexts:
        return "self-paced-joint"
    return {"slots": "self-paced", "rollouts": "default"}[agent.collects]


def _with_reference(config: RunConfig, names: Names) -> RunConfig:
    """Returns the preset with what is printed about it; the paper's numbers belong to the published variant."""
    found = published(
        names.task,
        names.agent,
        names.teacher,
        names.schedule,
        names.start,
        config.hold_position,
    )
    if found is None or names.variant != VARIANTS[0]:
        return config
    return dataclasses.replace(
        config, printed=Printed(of=config.identity, reference=found)
    )
