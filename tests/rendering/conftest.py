"""Two short films: the point mass with random forces, and throws of the ball at an arm that holds still."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from spjax.envs import BallCatching, PointMass
from spjax.rendering.film import Film
from spjax.rendering.record import episodes
from spjax.teachers.target import Target
from spjax.training.experiment import Experiment, RunState


@dataclasses.dataclass(frozen=True)
class Noise:
    """A learner that acts at random, or not at all."""

    strength: float
    discount: float = 0.9

    collects = "slots"

    def act(self, state, env, key, observations):
        shape = (len(observations), len(env.action_lower))
        return self.strength * jax.random.normal(key, shape)


jax.tree_util.register_static(Noise)
BLANK = RunState(None, None, None, None, None, None)


def experiment_of(env, strength):
    return Experiment(task=env, agent=Noise(strength), teacher=Target())


def recorded(experiment, key, contexts):
    """Returns the states of new episodes, and their paths."""
    states = experiment.states(BLANK, key, contexts)
    return states, jax.vmap(jax.vmap(experiment.task.trace))(states)


def film_of(env, strength, contexts, key):
    experiment = experiment_of(env, strength)
    states, paths = jax.device_get(
        jax.jit(lambda: recorded(experiment, key, jnp.asarray(contexts)))()
    )
    return Film(
        env, episodes(states, paths, experiment.agent.discount), "noise, seed 3"
    )


@pytest.fixture(scope="session")
def plane_film():
    """A crash into the wall at once, and an episode that goes on for long."""
    return film_of(PointMass(2), 3.0, [[-3.0, 0.5], [0.0, 8.0]], jax.random.key(1))


@pytest.fixture(scope="session")
def space_film():
    """A throw of the initial distribution's mean, and one from far away."""
    return film_of(
        BallCatching(), 0.0, [[0.68, 0.9, 0.85], [1.2, 1.0, 3.5]], jax.random.key(3)
    )
