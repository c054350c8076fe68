"""Starts of next episodes, in the slots that have finished one and in no other.

A reset that is cheap runs for all slots, and a selection keeps what has finished. One that costs as much as a control step would
slow everything down, so there the finished slots are gathered and reset a few at a time, until all of them are. Which slots, in
which contexts and with which keys is the same both ways, and so is what comes of it, but for rounding.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

from spjax.trees import with_keys, without_keys

SHARE = 16  # a costly reset runs for a sixteenth of the slots at a time


def renewed(
    start: Callable[[PyTree], PyTree],
    given: PyTree,
    ended: Bool[Array, " slot"],
    slots: PyTree,
    costly: bool,
) -> PyTree:
    """Returns the slots [slot, ...], those that ended at the start of an episode.

    Args:
        start: of one slot, from its row of `given`.
        given: [slot, ...], keys too.
        ended: the slots to start anew.
        slots: as they stand, the tree that `start` returns.
        costly: whether to call `start` for those that ended alone, see above.
    """
    if costly:
        return _few_at_a_time(start, given, ended, slots)
    fresh = jax.vmap(start)(given)
    return jax.vmap(_chosen)(ended, fresh, slots)


def _few_at_a_time(
    start: Callable[[PyTree], PyTree],
    given: PyTree,
    ended: Bool[Array, " slot"],
    slots: PyTree,
) -> PyTree:
    """Returns the same; a step in which nothing ended resets nothing, one in which all end resets all."""
    count = ended.shape[0]
    at_once = -(-count // SHARE)
    num_parts = -(-count // at_once)

    # finished slots first; rows past the last are read from anywhere and written nowhere
    rows = jnp.nonzero(ended, size=num_parts * at_once, fill_value=count)[0]
    parts = rows.astype(jnp.int32).reshape(num_parts, at_once)
    needed = (parts[:, 0] < count).sum(dtype=jnp.int32)

    # as plain bits, since the reuse check takes a key that is indexed inside a loop for one that is used again
    bits = without_keys(given)

    def unfinished(carry: tuple[Int[Array, ""], PyTree]) -> Bool[Array, ""]:
        part, _ = carry
        return part < needed

    def restart_some(
        carry: tuple[Int[Array, ""], PyTree],
    ) -> tuple[Int[Array, ""], PyTree]:
        part, slots = carry
        some = parts[part]
        theirs = jax.tree.map(lambda leaf: leaf.at[some].get(mode="clip"), bits)
        fresh = jax.vmap(start)(with_keys(theirs, given))
        slots = jax.tree.map(
            lambda old, new: old.at[some].set(new, mode="drop"), slots, fresh
        )
        return part + 1, slots

    _, slots = lax.while_loop(
        unfinished, restart_some, (jnp.zeros((), jnp.int32), slots)
    )
    return slots


def _chosen(ended: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda new, old: jnp.where(ended, new, old), new, old)
