"""The contract of tasks, step-based ones above all.

A task is a pytree of settings with pure functions for one instance; whoever calls it maps over many. The context is an
argument of ``reset``, so a finished slot always starts with a context of the caller's choice. A step-based task of one's own
says how it starts, ``reset``, and what a control step does, ``dynamics``; time and its limit are counted here.
"""

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax import catalogue
from spjax.contexts import ContextDistribution, ContextSpace
from spjax.settings import Part

if TYPE_CHECKING:  # MuJoCo, which most tasks do without
    from spjax.envs.physics import Scene


@struct.dataclass
class EnvState:
    """One instance at one control step."""

    physics: PyTree  # a pytree, the environment's own
    observation: Float[Array, " observation"]
    reward: Float[Array, ""]  # of the step that led here; 0 after a reset
    terminated: Bool[Array, ""]  # the task itself ended
    truncated: Bool[Array, ""]  # the horizon was reached and the task had not ended
    success: Bool[Array, ""]  # meaningful where the episode has ended
    context: Float[Array, " dim"]
    time_step: Int[Array, ""]  # control steps since the reset

    @classmethod
    def start(
        cls,
        physics: PyTree,
        observation: Float[Array, " observation"],
        context: Float[Array, " dim"],
    ) -> "EnvState":
        """Returns the state after a reset."""
        no = jnp.asarray(False)
        return cls(
            physics=physics,
            observation=observation,
            reward=jnp.zeros((), context.dtype),
            terminated=no,
            truncated=no,
            success=no,
            context=context,
            time_step=jnp.zeros((), jnp.int32),
        )


class Task(Part, abc.ABC):
    """What every task offers, step-based (`Env`) or played in whole rollouts (`spjax.envs.episodic.EpisodicTask`)."""

    kind: ClassVar[str] = "task"
    collected: ClassVar[Literal["slots", "rollouts"]]  # the world that it is played in

    @property
    def name(self) -> str:
        """The name in folders, tables and titles; that of the catalogue."""
        return catalogue.name_of(self)

    @property
    @abc.abstractmethod
    def horizon(self) -> int:
        """Control steps of an episode at most."""

    @property
    @abc.abstractmethod
    def control_period(self) -> float:
        """Seconds of a control step."""

    @property
    @abc.abstractmethod
    def context_space(self) -> ContextSpace:
        """Names, units and bounds of the contexts."""

    @property
    @abc.abstractmethod
    def initial(self) -> ContextDistribution:
        """The distribution that curricula start from."""

    @property
    @abc.abstractmethod
    def target(self) -> ContextDistribution:
        """The distribution that counts in the end."""

    @property
    def has_success(self) -> bool:
        """Whether an episode can succeed; teachers that go by success refuse a task that says no."""
        return True

    @property
    def goal(self) -> tuple[float, float] | None:
        """A point to mark in pictures of trajectories."""
        return None

    @property
    def plane(self) -> tuple[str, str]:
        """The axes of these pictures."""
        return "x", "y"

    @property
    def scenery_name(self) -> str:
        """What their polylines are."""
        return "wall"

    @property
    def ends(self) -> tuple[str, str]:
        """What films call an episode's end without and with success."""
        return "failure", "success"

    @property
    def trail(self) -> str | None:
        """The geom of the scene whose way films in space show."""
        return None

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Options for ``jax.jit`` that programs around this task need to be fast."""
        return {}

    @abc.abstractmethod
    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the point of the plane that pictures of trajectories show."""

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the polylines (walls) that pictures of trajectories show for one context."""
        return []

    def physics_scene(self) -> "Scene | None":
        """Returns the scene that `EnvState.physics` is a `PhysicsState` of, for films in space; None for tasks of the plane."""
        return None

    def mark(self, context: tuple[float, ...]) -> tuple[float, float, float] | None:
        """Returns the point of the scene [m] that films mark in one context, or None."""
        return None


class Env(Task):
    """What every step-based task offers."""

    collected = "slots"
    costly_reset: ClassVar[bool] = False  # whether to reset finished slots alone

    @property
    @abc.abstractmethod
    def observation_size(self) -> int:
        """The number of entries of an observation."""

    @property
    @abc.abstractmethod
    def action_lower(self) -> tuple[float, ...]:
        """Lower bounds of an action."""

    @property
    @abc.abstractmethod
    def action_upper(self) -> tuple[float, ...]:
        """Upper bounds of an action."""

    @abc.abstractmethod
    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        """Returns the first state of an episode in this context, see `EnvState.start`.

        It runs for every slot at every control step, whether a slot has finished or not, so it must be cheap, or say that it
        is not, see `costly_reset`.
        """

    @abc.abstractmethod
    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, " action"]
    ) -> EnvState:
        """Returns the state one control period later: physics, observation, reward, terminated and success.

        The action is inside its bounds. Time is not counted here, and nothing is reset.
        """

    def step(
        self, key: Array, state: EnvState, action: Float[Array, " action"]
    ) -> EnvState:
        """Returns the state one control period later; the action is clipped to its bounds. Never resets."""
        after = self.dynamics(key, state, self.clip(action))
        time_step = state.time_step + 1
        truncated = ~after.terminated & (time_step >= self.horizon)
        return dataclasses.replace(after, truncated=truncated, time_step=time_step)

    def clip(
        self, action: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch action"]:
        """Returns the nearest action inside the bounds."""
        lower, upper = (
            lax.broadcast_to_rank(jnp.asarray(bound), action.ndim)
            for bound in (self.action_lower, self.action_upper)
        )
        return jnp.clip(action, lower, upper)

    @property
    def resting_steps(self) -> int:
        """Control steps that an episode of zero actions lasts, about; the horizon where the task does not know better."""
        return self.horizon


def contained(before: EnvState, after: EnvState) -> tuple[EnvState, Bool[Array, ""]]:
    """Ends a non-finite instance where it stands, so that nothing non-finite reaches the learner.

    Returns:
        the state after a control step, where it is not finite the last finite one as terminated with reward 0; and whether so.
    """
    failed = ~(jnp.isfinite(after.observation).all() & jnp.isfinite(after.reward))
    yes = jnp.asarray(True)
    ended = dataclasses.replace(
        before,
        reward=jnp.zeros_like(before.reward),
        terminated=yes,
        truncated=~yes,
        success=~yes,
        time_step=after.time_step,
    )
    return jax.tree.map(
        lambda bad, good: jnp.where(failed, bad, good), ended, after
    ), failed
