"""What the borders between iterations cut: episodes go on across them, while learner and teacher change.

An episode that crosses a border is learned from in two parts, and on-policy learners put the critic's value in the place of what
follows the first. The teacher moves at the border too, so an episode that ends after it may run in a context of the distribution
before. These are the ones that cross it, and the ones that begin right behind it: a slot that finishes with an iteration's
last step gets its next context there and then.
"""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.step_based.rollout import Slot
from spjax.episodes import Maybe


@struct.dataclass
class Borders:
    """Of one iteration."""

    crossed_fraction: Maybe  # of the episodes that ended, begun before its first step
    stale_fraction: (
        Maybe  # of the same, in a context from before the teacher's newest update
    )
    cut_fraction: Float[
        Array, ""
    ]  # of the slots, inside an episode after its last step


def borders(
    before: Slot, after: Slot, num_steps: int, num_ended: Int[Array, ""]
) -> Borders:
    """Returns what an iteration's borders cut.

    Args:
        before: slots [B] at its first step.
        after: slots [B] after its last step.
        num_steps: control steps of each slot.
        num_ended: episodes that ended in it, in all slots.
    """
    age, later = before.env_state.time_step, after.env_state.time_step

    # the episode that a slot was in, or about to begin, has ended if the slot is younger now than that would be
    first_ended = later < age + num_steps
    return Borders(
        crossed_fraction=_share(first_ended & (age > 0), num_ended),
        stale_fraction=_share(first_ended, num_ended),
        cut_fraction=(later > 0).mean(dtype=float),
    )


def _share(slots: Bool[Array, " env"], num_ended: Int[Array, ""]) -> Maybe:
    """Returns the share of the ended episodes that are the first ones of these slots."""
    some = num_ended > 0
    count = slots.sum().astype(float)
    return Maybe.where(some, count / jnp.maximum(num_ended, 1).astype(float))
