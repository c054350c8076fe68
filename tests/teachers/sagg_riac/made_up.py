"""Small SAGG-RIAC curricula for the tests of the teacher and of its regions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from spjax.contexts import ContextSpace
from spjax.episodes import Episodes
from spjax.teachers.sagg_riac.teacher import SAGGRIAC

SPACE = ContextSpace(
    ("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0)
)
TEACHER = SAGGRIAC(
    candidates=10,
    region_capacity=64,
    sample_capacity=1000,
    split_window=64,
    max_goals=20,
    max_history=10,
)
ROWS = 60  # of an update
UNBOUNDED = np.finfo(np.float32).max


@jax.jit
def advance(teacher, state, key, contexts, rewards, mask):
    rows = Episodes(
        mask=mask,
        context=contexts,
        first_observation=jnp.zeros((rewards.size, 0)),
        episode_return=rewards,
        discounted_return=rewards,
        length=jnp.ones(rewards.shape, jnp.int32),
        success=mask,
        ticket=(),
    )
    return teacher.update(state, key, rows, lambda observation: observation[:, 0])


@functools.partial(jax.jit, static_argnames="count")
def propose(teacher, state, key, count):
    return teacher.batch(state, key, SPACE, count)[0]


def learn(teacher, state, key, contexts, rewards, mask=None):
    """Runs one update with these rollouts, in rows of which only some are real."""
    place = np.arange(len(rewards)) if mask is None else np.flatnonzero(mask)
    padded, returns, real = (
        np.full((ROWS, 2), np.nan),
        np.full(ROWS, np.nan),
        np.zeros(ROWS, bool),
    )
    padded[place], returns[place], real[place] = contexts, rewards, True
    return advance(
        teacher,
        state,
        key,
        *(jnp.asarray(rows, jnp.float32) for rows in (padded, returns)),
        real,
    )


def begin(key, teacher=TEACHER):
    return teacher.init(key, SPACE)


def uniform(seed, count):
    return (
        np.random.default_rng(seed)
        .uniform(SPACE.lower, SPACE.upper, (count, 2))
        .astype(np.float32)
    )


def feed(key, teacher, contexts, rewards, parts):
    """Returns the state after these rollouts, split into updates at `parts`."""
    state = begin(jax.random.fold_in(key, 0), teacher)
    for number, rows in enumerate(np.split(np.arange(len(rewards)), parts)):
        state, metrics = learn(
            teacher,
            state,
            jax.random.fold_in(key, 1 + number),
            contexts[rows],
            rewards[rows],
        )
    return state, metrics


def sizes(state):
    return np.asarray(state.regions.size)[: int(state.regions.count)]
