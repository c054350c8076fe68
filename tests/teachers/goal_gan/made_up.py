"""A small GoalGAN and the episodes that it is told of, for its tests."""

import dataclasses

import jax
import jax.numpy as jnp

from spjax.contexts import ContextSpace
from spjax.episodes import Attempt, Episodes
from spjax.teachers.goal_gan.step_based import GoalGAN, GoalGANTicket, Source

SPACE = ContextSpace(
    ("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0)
)
UNEQUAL = ContextSpace(("far", "near"), ("m", "m"), (-1.0, 0.10), (7.0, 0.15))
TEACHER = GoalGAN(
    generator_hidden=(8, 8), discriminator_hidden=(8, 8), label_capacity=32, success_capacity=8, num_rollouts=10,
    train_iterations=5, start="target",
)  # fmt: skip


@jax.jit
def update(teacher, state, key, rows):
    return teacher.update(state, key, rows, lambda observation: observation[:, 0])


@jax.jit
def assign(teacher, state, key, last):
    return teacher.assign(state, key, SPACE, last)


@jax.jit
def draws(teacher, state, keys):
    """Returns contexts and their sources, of many slots that have not run yet."""
    never = Attempt(teacher.ticket(SPACE), jnp.zeros(2), jnp.asarray(False))
    contexts, tickets = jax.vmap(
        lambda k: teacher.assign(state, k, state.space, never)
    )(keys)
    return contexts, tickets.source


def start(key, teacher=TEACHER, space=SPACE):
    return jax.jit(teacher.init, static_argnums=1)(key, space)


def rows(
    contexts, first, second, source=Source.GENERATOR, attempt=2, mask=True, total=40
):
    """Returns finished episodes with the given success of their first and of this attempt; masked rows follow them."""
    count = len(contexts)

    def fill(value, dtype):
        return jnp.zeros(total, dtype).at[:count].set(jnp.asarray(value, dtype))

    zeros = jnp.zeros(total)
    return Episodes(
        mask=fill(mask, bool),
        context=jnp.zeros((total, 2)).at[:count].set(jnp.asarray(contexts)),
        first_observation=jnp.zeros((total, 2)),
        episode_return=zeros,
        discounted_return=zeros,
        length=zeros.astype(jnp.int32),
        success=fill(second, bool),
        ticket=GoalGANTicket(
            fill(source, jnp.int32), fill(attempt, jnp.int32), fill(first, bool)
        ),
    )


def with_successes(state, contexts):
    contexts = jnp.asarray(contexts, jnp.float32)
    stored = state.successes.context.at[: len(contexts)].set(contexts)
    return dataclasses.replace(
        state,
        successes=state.successes.replace(
            context=stored, count=jnp.array(len(contexts))
        ),
    )


def many(key, count=4000):
    """Returns keys, the same ones at each call, each time as new arrays: a key array may be used once."""
    return jax.random.split(jax.random.fold_in(key, 99), count)


def largest_difference(tree, other):
    return max(
        float(jnp.abs(a - b).max())
        for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    )
