"""Absolute learning progress, ALP (Portelas et al., 2019): how far a return is from that of the nearest context before it."""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.teachers.buffer import places


def absolute_progress(
    context: Float[Array, " dim"],
    episode_return: Float[Array, ""],
    contexts: Float[Array, "dim store"],
    returns: Float[Array, " store"],
    searched: Bool[Array, " store"],
) -> Float[Array, ""]:
    """Returns |return - return of the nearest stored context|, distances in context units; any number where none is searched."""
    squared_distance = ((contexts - context[:, None]) ** 2).sum(0)
    nearest = jnp.argmin(jnp.where(searched, squared_distance, jnp.inf))
    return jnp.abs(episode_return - returns[nearest])


@struct.dataclass
class History:
    """A ring of the newest episodes that earlier updates were made from."""

    contexts: Float[Array, "dim capacity"]
    returns: Float[Array, " capacity"]  # discounted
    count: Int[Array, ""]  # episodes so far, kept or not

    @classmethod
    def empty(cls, capacity: int, dim: int) -> "History":
        """Returns one without episodes."""
        return cls(
            contexts=jnp.zeros((dim, capacity)),
            returns=jnp.zeros(capacity),
            count=jnp.zeros((), jnp.int32),
        )

    def progress(
        self, contexts: Float[Array, "row dim"], returns: Float[Array, " row"]
    ) -> Float[Array, " row"]:
        """Returns the ALP of every row; 0 as long as there is no earlier episode."""
        searched = jnp.arange(self.returns.size) < self.count
        found = jax.vmap(
            lambda context, total: absolute_progress(
                context, total, self.contexts, self.returns, searched
            )
        )(contexts, returns)
        return jnp.where(self.count > 0, found, 0.0)

    def extended(
        self,
        contexts: Float[Array, "row dim"],
        returns: Float[Array, " row"],
        mask: Bool[Array, " row"],
    ) -> "History":
        """Returns the ring with the masked rows added in order; the oldest episodes are overwritten."""
        row, count = places(self.count, mask, self.returns.size)
        return History(
            contexts=self.contexts.at[:, row].set(contexts.T, mode="drop"),
            returns=self.returns.at[row].set(returns, mode="drop"),
            count=count,
        )


@struct.dataclass
class Remembered:
    """What a teacher with learning progress keeps between updates."""

    schedule: PyTree  # what its schedule keeps
    history: History
    progress: Float[Array, " row"]  # ALP of the episodes in the rows of the last update
    seen: Int[Array, ""]  # episodes in them so far, that the next update has again

    @classmethod
    def nothing(cls, schedule: PyTree, history: History, rows: int) -> "Remembered":
        """Returns what there is before the first update."""
        return cls(schedule, history, jnp.zeros(rows), jnp.zeros((), jnp.int32))

    def fresh(self, count: Int[Array, ""]) -> Bool[Array, " row"]:
        """Returns which rows of a ring that has taken so many episodes hold one that no update has had."""
        size = self.progress.size
        number = count - 1 - (count - 1 - jnp.arange(size)) % size
        return number >= self.seen
