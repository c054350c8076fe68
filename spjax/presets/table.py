"""Tables of published experiments: which there are, and what differs from the defaults of their parts. Needs no JAX."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

VARIANTS = ("published", "article")  # of every task

Settings = Mapping[str, Any]  # dotted name -> value


@dataclasses.dataclass(frozen=True)
class Names:
    """What a preset is looked up by."""

    task: str
    agent: str
    teacher: str
    schedule: str | None  # of teachers that have one
    start: str | None  # of teachers that start somewhere
    variant: str

    @property
    def article(self) -> bool:
        """Whether the printed text is asked for."""
        return self.variant == "article"


@dataclasses.dataclass(frozen=True)
class Table:
    """The published experiments of a task."""

    agents: Mapping[str, Sequence[str]]  # agent -> its teachers; the defaults first
    settings: Callable[
        [Names], Mapping[str, Settings]
    ]  # "task", "agent", "teacher", "run" -> differences
    starts: Sequence[str] = ("initial",)  # that were published, the default first
    schedules: Sequence[str] = (
        "proportion",
        "bound",
    )  # of `SCHEDULED` teachers, the default first
    variants: Sequence[str] = VARIANTS  # the default first


# teachers with experiments under several schedules, and from several starts
SCHEDULED = ("self-paced", "self-paced-particles")
STARTED = ("self-paced", "spgl", "goal-gan", "self-paced-joint")

BOUNDED = ("bound", "chance-bound", "rollback")  # schedules that have a V_LB

_TABLES = {  # task -> module with `TABLE`
    "point-mass-3d": "spjax.presets.point_mass",
    "point-mass-2d": "spjax.presets.point_mass",
    "ball-catching": "spjax.presets.ball_catching",
    "ant": "spjax.presets.ant",
    "ball-in-a-cup": "spjax.presets.ball_in_a_cup",
    "gate-precision": "spjax.presets.gate",
    "gate-global": "spjax.presets.gate",
    "two-route-gate": "spjax.presets.two_route_gate",
    "reacher": "spjax.presets.reacher",
    "reacher-step": "spjax.presets.reacher_step",
}


def preset_names() -> list[tuple[str, str, str, str | None, str | None]]:
    """Returns (task, agent, teacher, schedule, start) of every experiment that can be run; start None is the default."""
    return [name for task in _TABLES for name in names_of(task)]


def variant_names() -> list[str]:
    """Returns every variant that some task has."""
    return list(dict.fromkeys(v for task in _TABLES for v in table_of(task).variants))


def names_of(task: str) -> list[tuple[str, str, str, str | None, str | None]]:
    """Returns the experiments of one task, as `preset_names`."""
    table = table_of(task)
    return [
        (task, agent, teacher, schedule, start)
        for agent, teachers in table.agents.items()
        for teacher in teachers
        for schedule in (table.schedules if teacher in SCHEDULED else (None,))
        for start in (None, *(table.starts[1:] if teacher in STARTED else ()))
    ]


def table_of(task: str) -> Table:
    """Returns the published experiments of a task; an empty table where there are none."""
    if task not in _TABLES:
        return Table(agents={}, settings=lambda names: {})
    table: Table = importlib.import_module(_TABLES[task]).TABLE
    return table
