"""Looks a published experiment up by names.

Two variants exist where paper and published results differ: "published" (what the results most plausibly used, the default)
and "article" (the printed text). Each file beside this one lists one environment's differences.
"""

from collections.abc import Callable, Iterable

from spjax import envs
from spjax.presets import point_mass
from spjax.training.config import AGENTS, TEACHERS, VARIANTS, RunConfig, nearest

_BUILDERS: dict[str, Callable[..., RunConfig]] = {
    "point-mass-3d": point_mass.config,
    "point-mass-2d": point_mass.config,
}


def preset(
    env: str,
    agent: str = "ppo",
    teacher: str = "self-paced",
    schedule: str | None = None,
    variant: str = "published",
) -> RunConfig:
    """Returns a published experiment; change it with `dataclasses.replace`.

    Args:
        env: environment name.
        agent: learner name.
        teacher: curriculum name.
        schedule: of the self-paced teacher, "proportion" (its default) or "bound"; None for the others.
        variant: "published" or "article".

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
    return _BUILDERS[env](env, agent, teacher, schedule, variant)


def preset_names() -> list[tuple[str, str, str, str | None]]:
    """Returns (env, agent, teacher, schedule) of every published experiment that can be run."""
    teachers: list[tuple[str, str | None]] = [("self-paced", "proportion"), ("self-paced", "bound")]
    teachers += [(name, None) for name in TEACHERS if name != "self-paced"]
    return [(env, agent, *teacher) for env in _BUILDERS for agent in AGENTS for teacher in teachers]


def _check(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; {nearest(name, known)}")
