"""A replay buffer of fixed size that lives in the learner's state."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, PyTree

from spjax.agents.step_based.minibatches import packed


@struct.dataclass
class Replay:
    """A ring of the newest `capacity` rows; a row is everything of a transition side by side, so one gather fetches it."""

    rows: Float[Array, "capacity column"]
    count: Int[Array, ""]  # rows seen, kept or not

    @classmethod
    def empty(cls, capacity: int, like: PyTree) -> "Replay":
        """Returns an empty buffer for rows such as `like`, a pytree of [1, ...] arrays of one floating dtype."""
        row, _ = packed(like)
        rows = jnp.zeros((capacity, row.shape[1]), row.dtype)
        return cls(rows=rows, count=jnp.zeros((), jnp.int32))

    def add(self, batch: PyTree) -> "Replay":
        """Returns the buffer with a batch of rows, in place of the oldest ones; their number must divide the capacity."""
        rows, _ = packed(batch)
        start = self.count % self.rows.shape[0]
        return dataclasses.replace(
            self,
            rows=jax.lax.dynamic_update_slice_in_dim(self.rows, rows, start, axis=0),
            count=self.count + rows.shape[0],
        )

    def sample(self, uniform: Float[Array, " batch"]) -> Float[Array, "batch column"]:
        """Returns one row for each number in [0, 1), uniformly from the kept ones, with replacement."""
        kept = jnp.minimum(self.count, self.rows.shape[0])
        index = jnp.minimum(
            (uniform * kept.astype(uniform.dtype)).astype(jnp.int32), kept - 1
        )
        return self.rows[index]
