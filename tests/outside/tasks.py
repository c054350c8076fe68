"""What the tests of this folder drive: spaces, distributions, and a teacher that writes everything down."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.teachers import SelfPaced
from spjax.teachers.base import Teacher

SPACE = ContextSpace(("mass", "length"), ("kg", "m"), (0.1, 0.2), (2.0, 2.0))
INITIAL = Gaussian.from_std((0.5, 0.5), (0.2, 0.2))
TARGET = Gaussian.from_std((1.5, 1.5), (0.1, 0.1))
SELF_PACED = SelfPaced(value_source="return", warmup=0, buffer_size=32)


@struct.dataclass
class Note:
    """What an episode carries: the number of its attempt, and a mark of the draw."""

    attempt: jax.Array
    mark: jax.Array


@struct.dataclass
class Notes:
    """All that the last update saw."""

    context: jax.Array
    episode_return: jax.Array
    success: jax.Array
    attempt: jax.Array
    matches: jax.Array
    key: jax.Array  # typed, as a teacher's state may have it
    count: jax.Array


@struct.dataclass
class Seen:
    """Metrics."""

    episodes: jax.Array
    all_match: jax.Array


@part("teacher", "notebook")
@struct.dataclass
class Notebook(Teacher):
    """Plays a context again until it succeeds, and marks each draw by its context."""

    def init(self, key, space):
        return Notes(
            context=jnp.zeros((8, space.size)),
            episode_return=jnp.zeros(8),
            success=jnp.zeros(8, bool),
            attempt=jnp.zeros(8, jnp.int32),
            matches=jnp.zeros(8, bool),
            key=key,
            count=jnp.zeros((), jnp.int32),
        )

    def sample(self, state, key, space):
        return space.sample_uniform(key)

    def ticket(self, space):
        return Note(jnp.zeros((), jnp.int32), jnp.zeros(()))

    def assign(self, state, key, space, last):
        again = (last.ticket.attempt > 0) & ~last.success
        context = jnp.where(again, last.context, self.sample(state, key, space))
        attempt = jnp.where(again, last.ticket.attempt + 1, 1)
        return context, Note(attempt.astype(jnp.int32), context.sum())

    def update(self, state, key, episodes, value):
        matches = episodes.ticket.mark == episodes.context.sum(axis=1)
        count = episodes.mask.sum(dtype=jnp.int32)
        state = dataclasses.replace(
            state,
            context=episodes.context[:8],
            episode_return=episodes.discounted_return[:8],
            success=episodes.success[:8],
            attempt=episodes.ticket.attempt[:8],
            matches=(matches & episodes.mask)[:8],
            count=count,
        )
        return state, Seen(count, (matches | ~episodes.mask).all())
