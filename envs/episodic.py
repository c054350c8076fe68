"""The contract of episodic tasks, for black-box agents: a whole rollout is one function of its parameters and the context.

A task is a pytree of settings with pure functions for one rollout, which the caller maps over many.
"""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from spjax.envs.base import EnvState, Task
from spjax.episodes import Outcome


class EpisodicTask(Task):
    """What every episodic task offers."""

    collected = "rollouts"

    @property
    @abc.abstractmethod
    def parameter_lower(self) -> tuple[float, ...]:
        """Lower bounds of theta."""

    @property
    @abc.abstractmethod
    def parameter_upper(self) -> tuple[float, ...]:
        """Upper bounds of theta."""

    @property
    @abc.abstractmethod
    def parameter_std(self) -> tuple[float, ...]:
        """Standard deviations of the initial search distribution, whose mean is 0."""

    @property
    def parameter_size(self) -> int:
        """The number of entries of theta."""
        return len(self.parameter_lower)

    @abc.abstractmethod
    def rollout(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> Outcome:
        """Returns the reward, always finite, and the success of one rollout; theta and context as they are, not clipped."""

    @abc.abstractmethod
    def states(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> EnvState:
        """Returns the states [horizon + 1] of the rollout with the same arguments, for pictures and films.

        After its end the last one is repeated. The reward is 0 but in the state at the end.
        """


def whole_rollout(
    physics: PyTree, outcome: Outcome, context: Float[Array, " dim"]
) -> EnvState:
    """Returns the states [time] of a rollout, from its physics after 0, 1, ... control steps and its outcome."""
    time = jnp.arange(jax.tree.leaves(physics)[0].shape[0])
    last = time == outcome.length
    return EnvState(
        physics=physics,
        observation=jnp.zeros((time.size, 0)),
        reward=jnp.where(last, outcome.reward, 0.0),
        terminated=last,
        truncated=jnp.zeros_like(last),
        success=last & outcome.success,
        context=jnp.broadcast_to(context, (time.size, *context.shape)),
        time_step=time,
    )
