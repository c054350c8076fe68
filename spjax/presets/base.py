"""Looks a published experiment up by names.

Two variants exist where paper and published results differ: "published" (what the results most plausibly used, the default)
and "article" (the printed text). Each file beside this one lists one environment's differences.
"""

import dataclasses
from collections.abc import Callable, Iterable

from spjax import envs
from spjax.presets import ball_catching, gate, point_mass, policy_search
from spjax.training.config import AGENTS, TEACHER_NAMES, TEACHERS, VARIANTS, RunConfig, nearest, traced_settings

STARTS = ("initial", "target")  # distributions that a curriculum can start from
SCHEDULES = ("proportion", "bound")  # of the self-paced teacher of step-based agents

_STEP_BASED = ("ppo", "trpo", "sac")
_POINT_MASS = {**dict.fromkeys(_STEP_BASED, point_mass.config), "sprl": policy_search.config}
_BALL_CATCHING = dict.fromkeys(_STEP_BASED, ball_catching.config)
_GATE = dict.fromkeys(("sprl", "creps", "cma-es"), gate.config)

# environment -> who builds the experiments of each agent, the default first; and those of STARTS that it has, the default first
_EXPERIMENTS: dict[str, tuple[dict[str, Callable[..., RunConfig]], tuple[str, ...]]] = {
    "point-mass-3d": (_POINT_MASS, point_mass.STARTS),
    "point-mass-2d": (_POINT_MASS, point_mass.STARTS),
    "ball-catching": (_BALL_CATCHING, ball_catching.STARTS),
    "gate-precision": (_GATE, gate.STARTS),
    "gate-global": (_GATE, gate.STARTS),
}


def preset(
    env: str,
    agent: str | None = None,
    teacher: str | None = None,
    schedule: str | None = None,
    variant: str = "published",
    start: str | None = None,
) -> RunConfig:
    """Returns a published experiment; change it with `dataclasses.replace`.

    Args:
        env: environment name.
        agent: learner name; None for the first that the environment has, "ppo" or, for episodic tasks, "sprl".
        teacher: curriculum name; None for the first that the agent has, "self-paced" but for C-REPS and CMA-ES.
        schedule: of the self-paced teacher, "proportion" (its default) or "bound"; None for the others.
        variant: "published" or "article".
        start: where the contexts of a self-paced teacher or GoalGAN start, at the "initial" or the "target" distribution;
            None for the first that was published for this environment.

    Raises:
        ValueError: an unknown name, the message has the nearest known one; or names that do not go together.
    """
    envs.make(env)
    builders, starts = _EXPERIMENTS[env]
    agent = agent or next(iter(builders))
    _check("agent", agent, AGENTS)
    if agent not in builders:
        raise ValueError(f"agent of {env} must be {' or '.join(builders)}, got {agent!r}")
    teacher = teacher or next(iter(TEACHERS[agent]))
    _check("teacher", teacher, TEACHER_NAMES)
    if teacher not in TEACHERS[agent]:
        raise ValueError(f"teacher of {agent} must be {' or '.join(TEACHERS[agent])}, got {teacher!r}")
    _check("variant", variant, VARIANTS)
    if _has_schedule(agent, teacher):
        schedule = schedule or SCHEDULES[0]
        _check("schedule", schedule, SCHEDULES)
    elif schedule is not None:
        raise ValueError(
            f"only the self-paced teacher of {', '.join(_STEP_BASED)} has a schedule, "
            f"got schedule {schedule!r} for {agent} with {teacher!r}"
        )
    start = start or starts[0]
    if start not in starts:
        raise ValueError(f"start of {env} must be {' or '.join(starts)}, got {start!r}")
    return builders[agent](env, agent, teacher, schedule, variant, start)


def starts_of(env: str) -> tuple[str, ...]:
    """Returns the distributions that curricula of this environment can start from, the default first.

    Raises:
        ValueError: no such environment.
    """
    envs.make(env)
    return _EXPERIMENTS[env][1]


def preset_names() -> list[tuple[str, str, str, str | None, str | None]]:
    """Returns (env, agent, teacher, schedule, start) of every experiment that can be run; start None is the default."""
    return [
        (env, agent, teacher, schedule, start)
        for env, (builders, starts) in _EXPERIMENTS.items()
        for agent in builders
        for teacher, kind in TEACHERS[agent].items()
        for schedule in (SCHEDULES if _has_schedule(agent, teacher) else (None,))
        for start in (None, *(starts[1:] if "initial_mean" in traced_settings(kind) else ()))
    ]


def _has_schedule(agent: str, teacher: str) -> bool:
    return "schedule" in {field.name for field in dataclasses.fields(TEACHERS[agent][teacher])}


def _check(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; {nearest(name, known)}")
