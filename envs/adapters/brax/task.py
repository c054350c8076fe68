"""A task of spjax as an environment of Brax, for one instance; Brax's wrappers map over many."""

import jax
import jax.numpy as jnp
import numpy as np
from brax.envs.base import Env as BraxEnv
from brax.envs.base import State
from jaxtyping import Array, Float

from spjax import settings
from spjax.contexts import ContextDistribution
from spjax.envs.base import Env, Task, contained


class BraxTask(BraxEnv):
    """A step-based task as an environment of Brax; actions in [-1, 1] span the bounds of the task's.

    Contexts come from a distribution that stays, unless a teacher takes over, see `wrap`. An episode is cut by Brax, whose
    ``episode_length`` is to be the task's horizon. A control step whose outcome is not finite ends the episode with reward 0 and
    the last finite observation, as everywhere in spjax.
    """

    def __init__(self, task: Task, contexts: ContextDistribution | None = None) -> None:
        """Makes the environment.

        Args:
            task: step-based, with bounded actions.
            contexts: to draw from, under `wrap` too, as evaluation wants it; None for the target, which a teacher replaces.

        Raises:
            ValueError: the task is played in whole rollouts, its actions have no bounds, or the contexts are not its own.
        """
        if not isinstance(task, Task):
            raise ValueError(
                f"BraxTask needs a task such as spjax.envs.PointMass(), got {task!r}"
            )
        if not isinstance(task, Env):
            raise ValueError(
                f"BraxTask needs a task that is played step by step, {task.name} is played in whole rollouts"
            )
        settings.check("task", task)
        if not np.isfinite((task.action_lower, task.action_upper)).all():
            raise ValueError(
                f"BraxTask needs bounded actions, those of {task.name} lie in {task.action_lower} to {task.action_upper}"
            )
        if not isinstance(contexts, ContextDistribution | None):
            raise ValueError(
                f"contexts must be a distribution such as a Gaussian, got {contexts!r}"
            )
        if contexts is not None:
            contexts.check(task.context_space, "contexts")
        self.task = task
        self.contexts = contexts

    def reset(self, rng: Array) -> State:
        """Returns the first state of an episode in a context that is drawn."""
        key_context, key = jax.random.split(typed(rng))
        drawn_from = self.task.target if self.contexts is None else self.contexts
        context = drawn_from.sample(key_context, self.task.context_space)
        return self.reset_in(key, context)

    def reset_in(self, rng: Array, context: Float[Array, " dim"]) -> State:
        """Returns the first state of an episode in this context."""
        key_reset, key = jax.random.split(typed(rng))
        first = self.task.reset(key_reset, context)
        zero = jnp.zeros_like(first.reward)
        return State(
            pipeline_state=first,
            obs=first.observation,
            reward=zero,
            done=zero,
            metrics={"success": zero},
            info={"key": jax.random.key_data(key)},
        )

    def step(self, state: State, action: Float[Array, " action"]) -> State:
        """Returns the state one control step later; done where the task ended, not at the horizon, which Brax counts."""
        key_step, key = jax.random.split(typed(state.info["key"]))
        before = state.pipeline_state
        after = self.task.step(key_step, before, self.scaled(action))
        after, _ = contained(before, after)

        ended = after.terminated | (after.time_step == self.task.horizon)
        dtype = after.reward.dtype
        success = (ended & after.success).astype(dtype)
        return state.replace(
            pipeline_state=after,
            obs=after.observation,
            reward=after.reward,
            done=after.terminated.astype(dtype),
            metrics={**state.metrics, "success": success},
            info={**state.info, "key": jax.random.key_data(key)},
        )

    def scaled(
        self, action: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch action"]:
        """Returns the task's action for one in [-1, 1], to which it is clipped."""
        shape = (*[1] * (action.ndim - 1), -1)
        lower, upper = (
            jnp.asarray(bound, action.dtype).reshape(shape)
            for bound in (self.task.action_lower, self.task.action_upper)
        )
        return lower + (jnp.clip(action, -1.0, 1.0) + 1) / 2 * (upper - lower)

    @property
    def observation_size(self) -> int:
        """That of the task."""
        return self.task.observation_size

    @property
    def action_size(self) -> int:
        """The number of entries of an action."""
        return len(self.task.action_lower)

    @property
    def backend(self) -> str:
        """The name of what computes the dynamics."""
        return "spjax"

    @property
    def dt(self) -> float:
        """Seconds of a control step."""
        return self.task.control_period


def typed(key: Array) -> Array:
    """Returns the key that Brax carries as plain bits, as spjax carries it."""
    return jax.random.wrap_key_data(jax.random.key_data(key))
