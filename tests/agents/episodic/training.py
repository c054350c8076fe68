"""Trains an episodic learner, whatever its teacher, and keeps all that it was."""

import functools

import jax
import jax.numpy as jnp

from spjax.training.experiment import Experiment


def experiment(task, agent, teacher):
    """Returns the experiment with the teacher bound to the task."""
    return Experiment(task=task, agent=agent, teacher=teacher.bound_to(task))


@functools.partial(jax.jit, static_argnames="iterations")
def train(setup, key, iterations):
    """Returns the first state, and all later ones (without their keys) and metrics stacked along a leading axis."""
    first = setup.init(key)

    def iteration(state, _):
        state, metrics = setup.step(state)
        return state, (state.replace(key=None), metrics)

    _, history = jax.lax.scan(iteration, first, jnp.arange(iterations))
    return first, *history
