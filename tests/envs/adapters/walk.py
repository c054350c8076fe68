"""A task with both kinds of end, noise, lopsided actions and a cliff of NaN, and a teacher that says what it saw."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.base import Env, EnvState
from spjax.episodes import masked_mean
from spjax.teachers.base import Teacher


@struct.dataclass
class Walk(Env):
    """A walk on a line; beyond the goal, which is the context, it ends, and below -5 m it is not a number."""

    observation_size = 2
    action_lower = (-2.0,)  # m a step
    action_upper = (6.0,)
    horizon = 4
    control_period = 0.5
    context_space = ContextSpace(("goal",), ("m",), (0.0,), (20.0,))
    initial = property(lambda self: Gaussian.from_std((3.0,), (1.0,)))
    target = property(lambda self: Gaussian.from_std((10.0,), (0.5,)))

    def reset(self, key, context):
        context = self.context_space.clip(context)
        place = 0.1 * jax.random.normal(key, (1,))
        return EnvState.start(place, jnp.concatenate([place, context]), context)

    def dynamics(self, key, state, action):
        place = state.physics + action + 0.1 * jax.random.normal(key, (1,))
        place = jnp.where(place < -5.0, jnp.nan, place)
        return dataclasses.replace(
            state,
            physics=place,
            observation=jnp.concatenate([place, state.context]),
            reward=place[0] / 10,
            terminated=place[0] > state.context[0],
            success=jnp.abs(place[0] - state.context[0]) < 3.0,
        )

    def trace(self, state):
        return state.observation


@struct.dataclass
class CountingState:
    updates: jnp.ndarray
    episodes: jnp.ndarray
    mean_return: jnp.ndarray  # of the newest update


@struct.dataclass
class CountingMetrics:
    episodes: jnp.ndarray
    mean_return: jnp.ndarray


@struct.dataclass
class Counting(Teacher):
    """Its contexts lie between the number of its updates and a little more; a ticket is ten times the context."""

    def init(self, key, space):
        return CountingState(
            jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), jnp.zeros(())
        )

    def sample(self, state, key, space):
        return state.updates.astype(float) + jax.random.uniform(key, (1,), maxval=0.5)

    def ticket(self, space):
        return jnp.zeros(())

    def assign(self, state, key, space, last):
        context = self.sample(state, key, space)
        return context, 10 * context[0]

    def update(self, state, key, episodes, value):
        count = episodes.mask.sum(dtype=jnp.int32)
        mean = masked_mean(episodes.discounted_return, episodes.mask)
        new = CountingState(state.updates + 1, state.episodes + count, mean)
        return new, CountingMetrics(count, mean)
