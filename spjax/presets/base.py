"""Looks a published experiment up by names.

Two variants exist where paper and published results differ: "published" (what the results most plausibly used, the default)
and "article" (the printed text). Each file beside this one lists one environment's differences.
"""

from collections.abc import Callable, Iterable

from spjax import envs
from spjax.presets import ball_catching, point_mass
from spjax.training.config import AGENTS, TEACHERS, VARIANTS, RunConfig, nearest, traced_settings

STARTS = ("initial", "target")  # distributions that a curriculum can start from

# environment -> its experiments, and those of STARTS that it has, the default first
_BUILDERS: dict[str, tuple[Callable[..., RunConfig], tuple[str, ...]]] = {
    "point-mass-3d": (point_mass.config, point_mass.STARTS),
    "point-mass-2d": (point_mass.config, point_mass.STARTS),
    "ball-catching": (ball_catching.config, ball_catching.STARTS),
}


def preset(
    env: str,
    agent: str = "ppo",
    teacher: str = "self-paced",
    schedule: str | None = None,
    variant: str = "published",
    start: str | None = None,
) -> RunConfig:
    """Returns a published experiment; change it with `dataclasses.replace`.

    Args:
        env: environment name.
        agent: learner name.
        teacher: curriculum name.
        schedule: of the self-paced teacher, "proportion" (its default) or "bound"; None for the others.
        variant: "published" or "article".
        start: where the contexts of a self-paced teacher or GoalGAN start, at the "initial" or the "target" distribution;
            None for the first that was published for this environment.

    Raises:
        ValueError: an unknown name; the message has the nearest known one.
    """
    envs.make(env)
    _check("agent", agent, AGENTS)
    _check("teacher", teacher, TEACHERS)
    _check("variant", variant, VARIANTS)
    if teacher == "self-paced":
        schedule = schedule or "proportion"
        _check("schedule", schedule, ("proportion", "bound"))
    elif schedule is not None:
        raise ValueError(f"only the self-paced teacher has a schedule, got schedule {schedule!r} for {teacher!r}")
    builder, starts = _BUILDERS[env]
    start = start or starts[0]
    if start not in starts:
        raise ValueError(f"start of {env} must be {' or '.join(starts)}, got {start!r}")
    return builder(env, agent, teacher, schedule, variant, start)


def starts_of(env: str) -> tuple[str, ...]:
    """Returns the distributions that curricula of this environment can start from, the default first.

    Raises:
        ValueError: no such environment.
    """
    envs.make(env)
    return _BUILDERS[env][1]


def preset_names() -> list[tuple[str, str, str, str | None, str | None]]:
    """Returns (env, agent, teacher, schedule, start) of every experiment that can be run; start None is the default."""
    teachers: list[tuple[str, str | None]] = [("self-paced", "proportion"), ("self-paced", "bound")]
    teachers += [(name, None) for name in TEACHERS if name != "self-paced"]
    return [
        (env, agent, *teacher, start)
        for env, (_, starts) in _BUILDERS.items()
        for agent in AGENTS
        for teacher in teachers
        for start in (None, *(starts[1:] if "initial_mean" in traced_settings(TEACHERS[teacher[0]]) else ()))
    ]


def _check(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; {nearest(name, known)}")
