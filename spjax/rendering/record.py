"""Episodes with everything that happened in them: the states of the environment, not only the outcome."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from spjax.envs.base import EnvState
from spjax.training.episodic import EpisodicExperiment
from spjax.training.experiment import Experiment, RunState


@dataclasses.dataclass(frozen=True)
class Episode:
    """One episode on the host, from the reset to its end."""

    states: EnvState  # NumPy arrays [time, ...], after 0, 1, ... length control steps
    path: Float[np.ndarray, "time 2"]  # the env's trace
    returns: Float[np.ndarray, " time"]  # discounted return so far

    @property
    def length(self) -> int:
        """Control steps."""
        return len(self.returns) - 1

    @property
    def context(self) -> tuple[float, ...]:
        """The task."""
        return tuple(float(value) for value in self.states.context[0])

    @property
    def success(self) -> bool:
        """Whether it ended well."""
        return bool(self.states.success[-1])


def record(
    experiment: Experiment, state: RunState, key: PRNGKeyArray, contexts: Float[Array, "episode dim"]
) -> tuple[EnvState, Float[Array, "time episode 2"]]:
    """Returns the states [time, episode, ...] and paths of one episode of the stochastic policy in each context.

    Time counts 0, 1, ... horizon control steps; what follows an episode's end means nothing. The same key gives the episodes of
    `Experiment.play`. A rollout of an episodic task has one reward, at its end.
    """
    if isinstance(experiment, EpisodicExperiment):
        return _record_rollouts(experiment, state, key, contexts)
    env, count = experiment.env, contexts.shape[0]
    key_reset, key_steps = jax.random.split(key)
    start = jax.vmap(env.reset)(jax.random.split(key_reset, count), contexts)

    def environment_step(env_states: EnvState, key: Array) -> tuple[EnvState, EnvState]:
        after = experiment.control_step(state, key, env_states)
        return after, after

    _, later = jax.lax.scan(environment_step, start, jax.random.split(key_steps, env.horizon))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, later)
    return states, jax.vmap(jax.vmap(env.trace))(states)


def _record_rollouts(
    experiment: EpisodicExperiment, state: RunState, key: PRNGKeyArray, contexts: Float[Array, "episode dim"]
) -> tuple[EnvState, Float[Array, "time episode 2"]]:
    outcome, path = experiment.play(state, key, contexts)
    time = jnp.broadcast_to(jnp.arange(len(path))[:, None], path.shape[:2])
    last = time == outcome.length
    states = EnvState(
        physics=(),
        observation=jnp.zeros((*last.shape, 0)),
        reward=jnp.where(last, outcome.discounted_return, 0.0),
        terminated=last,
        truncated=jnp.zeros_like(last),
        success=last & outcome.success,
        context=jnp.broadcast_to(contexts, (*last.shape, contexts.shape[-1])),
        time_step=time,
    )
    return states, path


def episodes(states: Any, paths: Float[np.ndarray, "time episode 2"], discount: float) -> tuple[Episode, ...]:
    """Returns the recorded episodes one by one, each up to its end; non-finite rewards count 0."""
    return tuple(_episode(states, paths, discount, index) for index in range(paths.shape[1]))


def _episode(states: Any, paths: np.ndarray, discount: float, index: int) -> Episode:
    ended = states.terminated[1:, index] | states.truncated[1:, index]
    size = 2 + int(ended.argmax()) if ended.any() else len(paths)
    own = jax.tree.map(lambda leaf: leaf[:size, index], states)
    rewards = np.where(np.isfinite(own.reward[1:]), own.reward[1:], 0.0)
    returns = np.cumsum(discount ** np.arange(size - 1) * rewards)
    return Episode(own, paths[:size, index], np.concatenate([[0.0], returns]))
