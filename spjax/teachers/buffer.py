"""The newest finished episodes, in arrays of fixed size."""

import dataclasses

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.episodes import Episodes


@struct.dataclass
class EpisodeBuffer:
    """A ring of the newest `capacity` episodes since the last `clear`."""

    context: Float[Array, "capacity dim"]
    first_observation: Float[Array, "capacity observation"]
    discounted_return: Float[Array, " capacity"]
    count: Int[Array, ""]  # episodes seen since the last clear, kept or not

    @property
    def mask(self) -> Bool[Array, " capacity"]:
        """Which rows hold an episode."""
        return jnp.arange(self.discounted_return.size, dtype=jnp.int32) < self.count


def init_buffer(capacity: int, dim: int, observation_size: int) -> EpisodeBuffer:
    """Returns an empty buffer."""
    return EpisodeBuffer(
        context=jnp.zeros((capacity, dim)),
        first_observation=jnp.zeros((capacity, observation_size)),
        discounted_return=jnp.zeros(capacity),
        count=jnp.zeros((), jnp.int32),
    )


def add(buffer: EpisodeBuffer, episodes: Episodes) -> EpisodeBuffer:
    """Returns the buffer with the masked episodes added in order; the oldest are overwritten."""
    row, total = places(buffer.count, episodes.mask, buffer.discounted_return.size)

    def put(old: Array, new: Array) -> Array:
        return old.at[row].set(new, mode="drop")

    return EpisodeBuffer(
        context=put(buffer.context, episodes.context),
        first_observation=put(buffer.first_observation, episodes.first_observation),
        discounted_return=put(buffer.discounted_return, episodes.discounted_return),
        count=total,
    )


def places(
    count: Int[Array, ""], mask: Bool[Array, " row"], capacity: int
) -> tuple[Int[Array, " row"], Int[Array, ""]]:
    """Returns where masked rows go in a ring that has seen so many, `capacity` for those that find no room, and the new count."""
    total = count + mask.sum(dtype=jnp.int32)
    number = count + jnp.cumsum(mask, dtype=jnp.int32) - 1
    kept = mask & (number >= total - capacity)
    return jnp.where(kept, number % capacity, capacity), total


def clear(buffer: EpisodeBuffer, when: Bool[Array, ""]) -> EpisodeBuffer:
    """Returns the buffer, emptied where `when` holds."""
    return dataclasses.replace(buffer, count=jnp.where(when, 0, buffer.count))
