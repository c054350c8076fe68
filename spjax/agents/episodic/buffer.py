"""The samples of the last iterations: a ring of batches with fixed sizes."""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int


@struct.dataclass
class Batch:
    """Rollouts; a buffer is one with a leading axis of batches."""

    contexts: Float[Array, "*batch M dim"]
    thetas: Float[Array, "*batch M parameter"]
    features: Float[
        Array, "*batch M F"
    ]  # of the value function; kept, since they cost more than a rollout of the gate
    rewards: Float[Array, "*batch M"]
    successes: Bool[Array, "*batch M"]
    lengths: Int[Array, "*batch M"]  # control steps


def store(buffer: Batch, batch: Batch, slot: Int[Array, ""]) -> Batch:
    """Returns the buffer with the batch in the place of an older one; ``slot`` is taken modulo the buffer's length."""
    slot = slot % buffer.rewards.shape[0]
    return jax.tree.map(lambda kept, new: kept.at[slot].set(new), buffer, batch)


def flatten(buffer: Batch) -> Batch:
    """Returns all samples of the buffer as one batch."""
    return jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *leaf.shape[2:])), buffer)
