"""Trains a learner on a probe, whatever the learner."""

import jax

from spjax.agents.base import Slots
from spjax.agents.step_based.rollout import init_slots


def uniform(key, last):
    """Assigns contexts uniform over [-1, 1]."""
    return jax.random.uniform(key, (1,), minval=-1.0), ()


def train(agent, env, key, iterations, assign=uniform):
    """Returns the learner's state and the metrics [iteration]."""
    state = agent.init(jax.random.fold_in(key, 1), env)
    slots = init_slots(env, jax.random.fold_in(key, 2), agent.num_envs, assign, ())

    def iterate(carry, iteration_key):
        state, slots = carry
        state, world, _, metrics = agent.iterate(
            state, Slots(env, slots, assign), iteration_key
        )
        return (state, world.slots), metrics

    keys = jax.random.split(jax.random.fold_in(key, 3), iterations)
    (state, _), metrics = jax.jit(lambda carry: jax.lax.scan(iterate, carry, keys))(
        (state, slots)
    )
    return state, metrics
