"""What a run is, in full: the configuration that a run folder keeps and that `resume` needs.

It holds objects only, no names beside them. Everything is checked here, in words, before anything compiles.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from spjax import catalogue, settings
from spjax.agents.base import Agent, Episodic, StepBased
from spjax.catalogue import Use
from spjax.envs.base import Task
from spjax.envs.episodic import EpisodicTask
from spjax.runs.schema import Lane, Preset, Reference
from spjax.settings import Part, PartOf, Value
from spjax.teachers.base import Teacher
from spjax.training.checks import check_count, check_seeds, several
from spjax.training.experiment import Experiment
from spjax.training.halving import Halving
from spjax.trees import as_leaf

PARTS = ("task", "agent", "teacher")


@dataclasses.dataclass(frozen=True)
class Printed:
    """What is printed about exactly one experiment, and which that is."""

    of: str  # the experiment, as `RunConfig.identity` spells it
    reference: Reference


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A sweep: one experiment, the seeds, and the traced settings to vary. Presets make them."""

    task: Task
    agent: Agent
    teacher: Teacher
    seeds: Sequence[int] = (1,)
    over: Mapping[str, Sequence[Value]] = dataclasses.field(
        default_factory=dict
    )  # dotted name -> values
    num_iterations: int = 400
    evaluate_every: int = 5  # iterations between evaluations and checkpoints
    evaluation_episodes: int = 50
    hold_position: bool = False  # start from a policy cloned to zero actions
    halving: Halving | None = None  # whether settings that are behind stop early
    preset: Preset | None = None  # names that it was looked up by
    printed: Printed | None = None  # about the preset

    def __post_init__(self) -> None:
        """Turns numbers of NumPy into Python's, so that JSON can hold them."""
        for name in (
            "seeds",
            "num_iterations",
            "evaluate_every",
            "evaluation_episodes",
        ):
            object.__setattr__(self, name, settings.plain(getattr(self, name)))
        object.__setattr__(self, "seeds", several("seeds", self.seeds))
        over = {
            name: several(f"over {name!r}", values)
            for name, values in self.over.items()
        }
        object.__setattr__(self, "over", over)
        for name in PARTS:
            value = getattr(self, name)
            object.__setattr__(
                self, name, settings.plain(value) if isinstance(value, Part) else value
            )

    def check(self) -> None:
        """Checks everything.

        Raises:
            ValueError: one sentence that names the value and what would be right.
        """
        for field in ("num_iterations", "evaluate_every", "evaluation_episodes"):
            check_count(field, getattr(self, field))
        check_seeds(self.seeds)
        self._check_halving()
        for name, contract in (("task", Task), ("agent", Agent), ("teacher", Teacher)):
            value = getattr(self, name)
            if not isinstance(value, contract):
                wanted = f"{settings.a_kind(name)} (spjax.catalogue makes them)"
                raise ValueError(
                    f"{name} must be {wanted}, got {settings.named(value)}"
                )
        self.uses()
        for name, values in self.over.items():
            self._check_swept(name, values)
        varied = [self._with_settings(setting) for setting in self._grid()]
        for parts in varied:
            for name, part in zip(PARTS, parts, strict=True):
                settings.check(name, part)
        self._check_pair()
        for parts in varied:
            _check_together(*parts)
        if self.agent.collects == "rollouts" and self.hold_position:
            agent = catalogue.name_of(self.agent)
            raise ValueError(
                f"hold_position is for agents that act step by step, got it with {agent!r}"
            )

    @property
    def resolved(self) -> "RunConfig":
        """The same with the teacher bound to the task, so that its distributions are there."""
        return dataclasses.replace(self, teacher=self.teacher.bound_to(self.task))

    def uses(self) -> list[Use]:
        """Returns the user's files that the parts come from; raises ValueError where a part is not in the catalogue."""
        return catalogue.uses([self.task, self.agent, self.resolved.teacher])

    def spelled(self) -> dict[str, Any]:
        """Returns the configuration as JSON holds it."""
        resolved = self.resolved
        return {
            **{name: catalogue.spell(getattr(resolved, name)) for name in PARTS},
            "num_iterations": self.num_iterations,
            "evaluate_every": self.evaluate_every,
            "evaluation_episodes": self.evaluation_episodes,
            "hold_position": self.hold_position,
            "halving": self.halving and dataclasses.asdict(self.halving),
            "seeds": list(self.seeds),
            "over": {
                name: [catalogue.spell(value) for value in values]
                for name, values in self.over.items()
            },
        }

    @classmethod
    def built(cls, spelled: Mapping[str, Any]) -> "RunConfig":
        """Returns the configuration that `spelled` spelled; raises ValueError as `catalogue.build`."""
        plain = {
            name: spelled[name]
            for name in spelled
            if name not in (*PARTS, "over", "seeds", "halving")
        }
        halving = spelled.get("halving")
        return cls(
            **{name: catalogue.build(spelled[name]) for name in PARTS},
            seeds=tuple(spelled["seeds"]),
            halving=halving and Halving(**halving),
            over={
                name: tuple(map(catalogue.build, values))
                for name, values in spelled["over"].items()
            },
            **plain,
        )

    @property
    def identity(self) -> str:
        """What makes the experiment another one: its parts, not its seeds or length."""
        resolved = self.resolved
        parts = [catalogue.spell(getattr(resolved, name)) for name in PARTS]
        return repr((parts, self.hold_position))

    @property
    def reference(self) -> Reference | None:
        """What is printed about this experiment, None where any setting differs or a setting is swept."""
        if self.printed is None or self.over or self.printed.of != self.identity:
            return None
        return self.printed.reference

    @property
    def steps_per_iteration(self) -> int | None:
        """Environment steps, None where their number varies."""
        return (
            self.agent.steps_per_iteration
            if isinstance(self.agent, StepBased)
            else None
        )

    @property
    def rollouts_per_iteration(self) -> int | None:
        """Rollouts of an episodic agent."""
        if isinstance(self.agent, Episodic) and isinstance(self.task, EpisodicTask):
            return self.agent.num_rollouts(self.task)
        return None

    def lanes(self) -> list[Lane]:
        """Returns every run of the sweep: the grid of settings times the seeds, seeds running fastest."""
        return [Lane(seed, setting) for setting in self._grid() for seed in self.seeds]

    def experiments(self, lanes: Sequence[Lane] | None = None) -> Experiment:
        """Returns the experiment of all lanes, or of these, with a leading lane axis on every leaf, on the host."""
        lanes = self.lanes() if lanes is None else lanes
        places: dict[tuple[Value, ...], int] = {}  # seeds share an experiment
        different: list[Experiment] = []
        rows = []
        for lane in lanes:
            values = tuple(lane.settings.values())
            if values not in places:
                places[values] = len(different)
                different.append(self.experiment(lane))
            rows.append(places[values])
        return jax.tree.map(
            lambda *leaves: np.stack([as_leaf(leaf) for leaf in leaves])[rows],
            *different,
        )

    def experiment(self, lane: Lane) -> Experiment:
        """Returns the experiment of one lane."""
        task, agent, teacher = self._with_settings(lane.settings)
        return Experiment(
            task=task,
            agent=agent,
            teacher=teacher,
            evaluation_episodes=self.evaluation_episodes,
            hold_position=self.hold_position,
        )

    def _grid(self) -> list[dict[str, Value]]:
        """Returns every combination of the swept settings; one without any where nothing is swept."""
        return [
            dict(zip(self.over, values, strict=True))
            for values in itertools.product(*self.over.values())
        ]

    @functools.cached_property
    def _bound_teacher(self) -> Teacher:
        return self.teacher.bound_to(self.task)

    def _with_settings(self, swept: Mapping[str, Value]) -> tuple[Task, Agent, Teacher]:
        task = _with_swept("task", self.task, swept)
        agent = _with_swept("agent", self.agent, swept)
        varied = any(name.startswith("task.") for name in swept)
        bound = self.teacher.bound_to(task) if varied else self._bound_teacher
        return task, agent, _with_swept("teacher", bound, swept)

    def _check_swept(self, name: str, values: Sequence[Value]) -> None:
        if not values:
            raise ValueError(f"{name} needs at least one value to sweep over, got none")
        part, _, path = name.partition(".")
        if part not in PARTS or not path:
            raise ValueError(
                f"cannot sweep over {name!r}: settings are named task., agent. or teacher.<setting>"
                + self._hint(name, PARTS)
            )
        holder = getattr(self.resolved, part)
        known, varied = settings.every(holder), settings.traced(holder)
        if path not in known:
            tail = self._hint(name, (part,))
            tail = tail or f"; known: {', '.join(f'{part}.{one}' for one in varied)}"
            raise ValueError(f"unknown setting {name!r}{tail}")
        if path not in varied:
            raise ValueError(
                f"cannot sweep over {name!r}: it shapes the compiled program, so each value needs a run of its own"
            )
        for value in values:
            settings.check_value(name, varied[path], value)
        if len({None if value is None else np.shape(value) for value in values}) > 1:
            raise ValueError(
                f"all values of {name} need the same shape, got {', '.join(map(str, values))}"
            )
        if len(set(values)) < len(values):
            raise ValueError(
                f"each value of {name} may be given once, got {', '.join(map(str, values))}"
            )

    def _hint(self, name: str, kinds: Sequence[str]) -> str:
        """Returns what may be meant by a setting, or which other part has it, as the tail of a sentence."""
        parts = {kind: getattr(self.resolved, kind) for kind in kinds}
        known = [
            f"{kind}.{one}" for kind in kinds for one in settings.traced(parts[kind])
        ]
        if near := settings.near_name(name, known):
            return f"; did you mean {near!r}?"
        parts.pop("task", None)  # one is not there for another's settings
        nested = [
            inner for part in parts.values() for inner in settings.with_nested(part)
        ]
        other = catalogue.elsewhere(name, reversed(nested))
        return f"; {other}" if other else ""

    def _check_halving(self) -> None:
        if self.halving is None:
            return
        if not isinstance(self.halving, Halving):
            raise ValueError(
                f"halving must be a Halving of spjax.training.halving, got {self.halving!r}"
            )
        self.halving.check(self.evaluate_every)
        if self.halving.every >= self.num_iterations:
            raise ValueError(
                f"every must be below num_iterations, {self.num_iterations}, so that settings stop before the end, "
                f"got {self.halving.every}"
            )
        if not self.over:
            raise ValueError(
                "halving is for sweeps: it needs settings to choose from, got none to sweep over"
            )

    def _check_pair(self) -> None:
        """Checks that task, agent and teacher go together, by what they can do."""
        names = {name: catalogue.name_of(getattr(self, name)) for name in PARTS}
        agent, teacher = self.agent, self.teacher
        if agent.collects != self.task.collected:
            how = {"slots": "acts step by step", "rollouts": "runs whole rollouts"}[
                agent.collects
            ]
            played = {
                "slots": "played step by step",
                "rollouts": "played in whole rollouts",
            }[self.task.collected]
            raise ValueError(
                f"the agent {names['agent']!r} {how}, the task {names['task']!r} is {played}"
            )
        if agent.collects not in teacher.collects:
            how = {"slots": "act step by step", "rollouts": "run whole rollouts"}[
                teacher.collects[0]
            ]
            raise ValueError(
                f"the teacher {names['teacher']!r} is for agents that {how}, got {names['agent']!r}"
            )
        if teacher.fits_contexts and not agent.fits_contexts:
            raise ValueError(
                f"the teacher {names['teacher']!r} needs an agent that fits the contexts together with its policy, "
                f"such as sprl, got {names['agent']!r}"
            )
        if agent.fits_contexts and not teacher.fits_contexts:
            raise ValueError(
                f"the agent {names['agent']!r} needs a teacher whose contexts are fitted together with the policy, "
                f"such as self-paced-joint, got {names['teacher']!r}"
            )
        if teacher.needs_value and not agent.has_value:
            raise ValueError(
                f"the agent {names['agent']!r} has no state value; set teacher.value_source to return"
            )


def _check_together(task: Task, agent: Agent, teacher: Teacher) -> None:
    """Checks the parts of a lane beside one another."""
    space = task.context_space
    agent.check()
    agent.check_contexts(space)
    teacher.check(space)
    if isinstance(agent, Episodic) and isinstance(task, EpisodicTask):
        teacher.check_batch(agent.num_rollouts(task))


def _with_swept(kind: str, part: PartOf, swept: Mapping[str, Value]) -> PartOf:
    """Returns a part with the swept settings that are its own."""
    for name, value in swept.items():
        owner, _, path = name.partition(".")
        if owner == kind:
            with settings.naming(name):
                part = settings.put(part, path, value)
    return part
