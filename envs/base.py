"""The environment contract and the registry.

A step-based task is a frozen, hashable dataclass of static facts with two pure functions, ``reset`` and ``step``, for one
instance. The context is an argument of ``reset``, so a finished slot always starts with a context of the caller's choice.
"""

import abc
import difflib
from collections.abc import Callable
from typing import Any

from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts import ContextSpace
from spjax.envs.physics import Scene


@struct.dataclass
class EnvState:
    """One instance at one control step."""

    physics: Any  # a pytree, the environment's own
    observation: Float[Array, " observation"]
    reward: Float[Array, ""]  # of the step that led here; 0 after a reset
    terminated: Bool[Array, ""]  # the task itself ended
    truncated: Bool[Array, ""]  # the horizon was reached and the task had not ended
    success: Bool[Array, ""]  # meaningful where the episode has ended
    context: Float[Array, " dim"]
    time_step: Int[Array, ""]  # control steps since the reset


class Task(abc.ABC):
    """The static facts of every task, step-based (`Env`) or episodic (`spjax.envs.episodic.EpisodicTask`)."""

    name: str
    horizon: int  # control steps of an episode at most
    control_period: float  # seconds
    context_space: ContextSpace
    initial_mean: tuple[float, ...]  # published initial context distribution
    initial_std: tuple[float, ...]
    target_mean: tuple[float, ...]  # published target distribution
    target_std: tuple[float, ...]
    goal: tuple[float, float] | None = None  # a point to mark in pictures of trajectories
    plane: tuple[str, str] = ("x", "y")  # the axes of these pictures
    scenery_name: str = "wall"  # what their polylines are
    ends: tuple[str, str] = ("failure", "success")  # what films call an episode's end
    trail: str | None = None  # the geom of the scene whose way films in space show

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Options for ``jax.jit`` that programs around this task need to be fast."""
        return {}

    def share_cores(self, count: int) -> None:  # noqa: B027  most tasks have nothing to share
        """Prepares for that many programs around this task to run at the same time, each on a core of its own."""

    @abc.abstractmethod
    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the polylines (walls) that pictures of trajectories show for one context."""

    def physics_scene(self) -> Scene | None:
        """Returns the scene that `EnvState.physics` is a `PhysicsState` of, for films in space; None for tasks of the plane."""
        return None

    def mark(self, context: tuple[float, ...]) -> tuple[float, float, float] | None:
        """Returns the point of the scene [m] that films mark in one context, or None."""
        return None


class Env(Task):
    """What every step-based task offers."""

    observation_size: int
    action_lower: tuple[float, ...]
    action_upper: tuple[float, ...]

    @abc.abstractmethod
    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        """Returns the first state of an episode in this context; the context is clipped to the bounds."""

    @abc.abstractmethod
    def step(self, key: Array, state: EnvState, action: Float[Array, " action"]) -> EnvState:
        """Returns the state one control period later; the action is clipped to its bounds. Never resets."""

    @abc.abstractmethod
    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the point of the plane that pictures of trajectories show."""

    @property
    def resting_steps(self) -> int:
        """Control steps that an episode of zero actions lasts, about; the horizon where the task does not know better."""
        return self.horizon


_REGISTRY: dict[str, Callable[[], Any]] = {}


def register(name: str, constructor: Callable[[], Any]) -> None:
    """Makes a task known to `make` and the command line."""
    _REGISTRY[name] = constructor


def names() -> tuple[str, ...]:
    """Returns the names of all registered environments."""
    return tuple(_REGISTRY)


def make(name: str) -> Any:
    """Returns the task, an `Env` or an `EpisodicTask`, of this name with its published settings.

    Raises:
        ValueError: no such environment; the message names the nearest one.
    """
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(_REGISTRY)}"
        raise ValueError(f"unknown environment {name!r}{hint}")
    return _REGISTRY[name]()
