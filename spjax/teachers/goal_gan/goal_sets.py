"""What GoalGAN remembers: contexts that got a label, until a training has used them, and contexts that succeeded."""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int


@struct.dataclass
class Labelled:
    """A ring of labelled contexts; number n lies in row n modulo the capacity."""

    context: Float[Array, "capacity dim"]  # scaled
    label: Float[Array, " capacity"]
    collected: Int[Array, ""]  # so far
    used: Int[Array, ""]  # of them, by a training, skipped with its set, or overwritten

    @classmethod
    def empty(cls, capacity: int, dim: int) -> "Labelled":
        """Returns a ring without contexts."""
        zero = jnp.zeros((), jnp.int32)
        return cls(
            context=jnp.zeros((capacity, dim)),
            label=jnp.zeros(capacity),
            collected=zero,
            used=zero,
        )

    @property
    def waiting(self) -> Int[Array, ""]:
        """The number of contexts that no training has used."""
        return self.collected - self.used

    def any_positive(self, count: int | Int[Array, ""]) -> Bool[Array, ""]:
        """Returns whether one of the oldest `count` waiting contexts has label 1."""
        age = (jnp.arange(self.label.size) - self.used) % self.label.size
        return ((age < count) & (self.label > 0)).any()


@struct.dataclass
class Successes:
    """Contexts, at some distance from each other, that succeeded twice."""

    context: Float[Array, "capacity dim"]  # context units
    count: Int[Array, ""]

    @classmethod
    def empty(cls, capacity: int, dim: int) -> "Successes":
        """Returns a buffer without contexts."""
        return cls(context=jnp.zeros((capacity, dim)), count=jnp.zeros((), jnp.int32))


def add_labelled(
    labelled: Labelled,
    mask: Bool[Array, " row"],
    contexts: Float[Array, "row dim"],
    labels: Float[Array, " row"],
) -> tuple[Labelled, Int[Array, ""]]:
    """Returns the ring with the masked rows added in order, and how many unused contexts were overwritten or left out."""
    capacity = labelled.label.size
    collected = labelled.collected + mask.sum()
    number = labelled.collected + jnp.cumsum(mask) - 1
    row = jnp.where(
        mask & (number >= collected - capacity), number % capacity, capacity
    )  # past the end: dropped
    dropped = jnp.maximum(collected - labelled.used - capacity, 0)
    labelled = Labelled(
        context=labelled.context.at[row].set(contexts, mode="drop"),
        label=labelled.label.at[row].set(labels, mode="drop"),
        collected=collected.astype(jnp.int32),
        used=(labelled.used + dropped).astype(jnp.int32),
    )
    return labelled, dropped


def add_successes(
    successes: Successes,
    mask: Bool[Array, " row"],
    contexts: Float[Array, "row dim"],
    distance: Float[Array, ""],
) -> tuple[Successes, Int[Array, ""]]:
    """Returns the buffer with each masked row added that is farther than `distance` from all entries, and how many found no room.

    The rows are taken in order, so they keep their distance from each other too. Costs one pass over the buffer for each of them.
    """
    capacity = successes.context.shape[0]
    rows = jnp.flatnonzero(
        mask, size=mask.size, fill_value=0
    )  # the masked ones, at the front

    def add(number: Array, carry: tuple[Successes, Array]) -> tuple[Successes, Array]:
        successes, dropped = carry
        context = contexts[rows[number]]
        squared = ((successes.context - context[None]) ** 2).sum(-1)
        new = (
            (squared > distance**2) | (jnp.arange(capacity) >= successes.count)
        ).all()
        fits = successes.count < capacity
        added = Successes(
            context=successes.context.at[jnp.where(new, successes.count, capacity)].set(
                context, mode="drop"
            ),
            count=successes.count + (new & fits).astype(jnp.int32),
        )
        return added, dropped + (new & ~fits).astype(jnp.int32)

    return jax.lax.fori_loop(0, mask.sum(), add, (successes, jnp.zeros((), jnp.int32)))
