"""What a run is, in full: the configuration that a run folder keeps and that `resume` needs.

Everything is checked here, in words, before anything compiles.
"""

import dataclasses
import difflib
import itertools
import math
import numbers
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import jax
import numpy as np

from spjax import teachers
from spjax.agents.episodic import CMAES, CREPS, SPRL, EpisodicLearner
from spjax.agents.step_based import PPO, SAC, TRPO
from spjax.contexts import Gaussian
from spjax.envs.base import Task
from spjax.runs.schema import Lane
from spjax.training.episodic import EpisodicExperiment, SelfPacedContexts, TargetContexts
from spjax.training.experiment import Experiment

_STEP_BASED: dict[str, type] = {
    "self-paced": teachers.SelfPaced,
    "self-paced-gaussian": teachers.SelfPacedGaussian,
    "alp-gmm": teachers.ALPGMM,
    "goal-gan": teachers.GoalGAN,
    "sagg-riac": teachers.SAGGRIAC,
    "default": teachers.Target,
    "random": teachers.Random,
}
AGENTS: dict[str, type] = {"ppo": PPO, "trpo": TRPO, "sac": SAC, "sprl": SPRL, "creps": CREPS, "cma-es": CMAES}
TEACHERS: dict[str, dict[str, type]] = {  # of each agent, its default first
    "ppo": _STEP_BASED,
    "trpo": _STEP_BASED,
    "sac": _STEP_BASED,
    "sprl": {"self-paced": SelfPacedContexts},
    "creps": {
        "default": TargetContexts,
        "goal-gan": teachers.EpisodicGoalGAN,
        "sagg-riac": teachers.SAGGRIAC,
    },
    "cma-es": {"default": TargetContexts},
}
EPISODIC_AGENTS = ("sprl", "creps", "cma-es")
TEACHER_NAMES = tuple(dict.fromkeys(name for known in TEACHERS.values() for name in known))
VARIANTS = ("published", "article")

Setting = Any  # a number, or a tuple of numbers; checked in words


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A sweep: one experiment, the seeds, and the traced settings to vary. Presets make them."""

    env: Task
    agent: Any
    teacher: Any
    agent_name: str
    teacher_name: str
    variant: str = "published"
    target_mean: tuple[float, ...] = ()  # of the evaluation, context units; () for the task's published target
    target_std: tuple[float, ...] = ()
    seeds: tuple[int, ...] = (1,)
    over: Mapping[str, tuple[Setting, ...]] = dataclasses.field(default_factory=dict)  # dotted name -> values
    num_iterations: int = 400
    evaluate_every: int = 5  # iterations between evaluations and checkpoints
    evaluation_episodes: int = 50
    hold_position: bool = False  # start from a policy cloned to zero actions

    def check(self) -> None:
        """Checks everything.

        Raises:
            ValueError: one sentence that names the value and what would be right.
        """
        for field in ("num_iterations", "evaluate_every", "evaluation_episodes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        _check_seeds(self.seeds)
        for prefix, part in (("agent", self.agent), ("teacher", self.teacher)):
            _check_kinds(prefix, part)
        for name, values in self.over.items():
            if not values:
                raise ValueError(f"{name} needs at least one value to sweep over, got none")
        for lane in self.lanes():
            self._check_parts(*self._with_settings(lane.settings))
        target = teachers.Target(*self.target)
        target.check(self.env.context_space)
        if self.episodic and self.hold_position:
            raise ValueError(f"hold_position is for agents that act step by step, got it with {self.agent_name!r}")

    def _check_parts(self, agent: Any, teacher: Any) -> None:
        agent.check()
        teacher.check(self.env.context_space)
        if isinstance(teacher, teachers.Teacher) and self.episodic:
            teacher.check_batch(agent.num_rollouts(self.env))
        if isinstance(agent, EpisodicLearner):
            agent.check_contexts(self.env.context_space)
        if getattr(teacher, "value_source", None) == "critic" and getattr(agent, "critic", None) == "twin-q":
            raise ValueError("the twin-q critic has no state value; set teacher.value_source to return")

    @property
    def episodic(self) -> bool:
        """Whether the learner searches in the parameters of whole rollouts."""
        return self.agent_name in EPISODIC_AGENTS

    @property
    def target(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the distribution that the result is measured on."""
        mean = self.target_mean or getattr(self.teacher, "target_mean", ()) or self.env.target_mean
        std = self.target_std or getattr(self.teacher, "target_std", ()) or self.env.target_std
        return tuple(mean), tuple(std)

    @property
    def start(self) -> str | None:
        """Where the teacher's contexts start: "initial" or "target" distribution; None if it has no such start."""
        if not hasattr(self.teacher, "initial_mean"):
            return None
        target = (self.env.target_mean, self.env.target_std)
        given = (self.teacher.initial_mean, self.teacher.initial_std)
        return "target" if given in (target, self.target, (None, None)) else "initial"

    def lanes(self) -> list[Lane]:
        """Returns every run of the sweep: the grid of settings times the seeds, seeds running fastest."""
        grid = [dict(zip(self.over, values, strict=True)) for values in itertools.product(*self.over.values())]
        return [Lane(seed, settings) for settings in grid for seed in self.seeds]

    def experiments(self) -> Experiment:
        """Returns the experiment with a leading lane axis on every leaf, on the host."""
        stacked = [self._experiment(lane.settings) for lane in self.lanes()]
        return jax.tree.map(lambda *leaves: np.stack([_as_leaf(leaf) for leaf in leaves]), *stacked)

    def _experiment(self, settings: Mapping[str, Setting]) -> Experiment:
        agent, teacher = self._with_settings(settings)
        mean, std = self.target
        kind: Any = EpisodicExperiment if self.episodic else Experiment
        experiment: Experiment = kind(
            agent=agent,
            teacher=teacher,
            target=Gaussian.from_std(mean, std),
            env=self.env,
            evaluation_episodes=self.evaluation_episodes,
            hold_position=self.hold_position,
        )
        return experiment

    def _with_settings(self, settings: Mapping[str, Setting]) -> tuple[Any, Any]:
        parts = {"agent": self.agent, "teacher": self.teacher}
        for name, value in settings.items():
            part, _, field = name.partition(".")
            _check_traced(name, parts.get(part), field)
            _check_number(name, value)
            parts[part] = dataclasses.replace(parts[part], **{field: value})
        return parts["agent"], parts["teacher"]


def traced_settings(part: Any) -> tuple[str, ...]:
    """Returns the names of the settings of an agent or teacher that a sweep may vary without recompiling."""
    return tuple(f.name for f in dataclasses.fields(part) if f.metadata.get("pytree_node", True))


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the tail of an error message: the nearest known name, or all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def _check_seeds(seeds: tuple[int, ...]) -> None:
    if not seeds:
        raise ValueError("at least one seed is needed, got none")
    if min(seeds) < 0 or max(seeds) >= 2**32:
        raise ValueError(f"seeds must lie in [0, 2^32), got {min(seeds)}..{max(seeds)}")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"each seed may be given once, got {list(seeds)}")


def _check_traced(name: str, part: Any, field: str) -> None:
    if part is None or not field:
        raise ValueError(f"cannot sweep over {name!r}: settings are named agent.<setting> or teacher.<setting>")
    prefix = name.partition(".")[0]
    if field not in {f.name for f in dataclasses.fields(part)}:
        known = [f"{prefix}.{setting}" for setting in traced_settings(part)]
        raise ValueError(f"unknown setting {name!r}; {nearest(name, known)}")
    if field not in traced_settings(part):
        raise ValueError(
            f"cannot sweep over {name!r}: it shapes the compiled program, so each value needs a run of its own"
        )


def _check_number(name: str, value: Any) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, numbers.Real):
            raise ValueError(f"{name} needs a number, got {number!r}")
        if math.isnan(number):
            raise ValueError(f"{name} must not be NaN")
        if isinstance(number, numbers.Integral) and not -(2**31) < int(number) < 2**31:
            raise ValueError(f"{name} must be less than 2^31 if it is a whole number, got {number}")


def _check_kinds(prefix: str, part: Any) -> None:
    """Checks that settings are the numbers and words that they should be."""
    traced = traced_settings(part)
    for field in dataclasses.fields(part):
        name, value = f"{prefix}.{field.name}", getattr(part, field.name)
        if typing.get_origin(field.type) is Literal:
            choices = typing.get_args(field.type)
            if value not in choices:
                raise ValueError(f"{name} must be {', '.join(choices[:-1])} or {choices[-1]}, got {value!r}")
        elif field.name in traced:
            if value is not None:
                _check_number(name, tuple(value) if isinstance(value, list | tuple) else value)
        elif field.type is int and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
            raise ValueError(f"{name} must be a whole number, got {value!r}")


def _as_leaf(value: Any) -> np.ndarray:
    """Returns a Python number in the dtype that JAX would give it."""
    array = np.asarray(value)
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)
