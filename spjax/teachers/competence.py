"""What an agent can do where it was not tried: a kernel regression of Nadaraya and Watson on episodes."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

ABSENT = -1e30  # log weight of a row without an episode


def expected_values(
    points: Float[Array, "row dim"],
    known: Float[Array, "episode dim"],
    values: Float[Array, " episode"],
    present: Bool[Array, " episode"],
    bandwidth: ArrayLike,
) -> Float[Array, " row"]:
    """Returns the mean of the values, weighted by a normal kernel around each point; differentiable in points and values.

    Args:
        points: where to, in units that are alike in all dimensions, such as widths of the space.
        known: where the episodes were, likewise.
        values: of the episodes; 0 where there is none.
        present: which rows hold an episode; where none does, the mean is 0.
        bandwidth: standard deviation of the kernel, in the unit of the points.
    """
    squared = ((points[:, None] - known[None]) ** 2).sum(axis=2)
    logits = -0.5 * squared / bandwidth**2
    weights = jax.nn.softmax(jnp.where(present[None], logits, ABSENT), axis=1)
    return weights @ values
