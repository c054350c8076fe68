"""The map from all of R^D into a box by which CMA-ES keeps its candidates inside: that of pycma 2.7.0, its default.

It is the identity but for a margin at each bound, has a continuous derivative, and repeats itself mirrored, so that no point is
too far outside to be mapped. pycma 4.5 has narrower margins, max(1, |bound|) / 20.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

Bounds = tuple[float, ...]


def into_bounds(
    point: Float[Array, "*N D"], lower: Bounds, upper: Bounds
) -> Float[Array, "*N D"]:
    """Returns the point of the box, bounds included, that a point anywhere stands for.

    With margins a = min((upper - lower) / 2, (1 + |bound|) / 20) the map is the identity in [lower + a, upper - a], and from
    there a parabola whose vertex, (bound - a, bound) or (bound + a, bound), is where it turns back: it is even about each vertex.
    An infinite bound has no margin, and between two of them nothing changes.
    """
    low, high = np.asarray(lower, float), np.asarray(upper, float)
    low_margin, high_margin = _margin(low, high - low), _margin(high, high - low)
    low_turn, high_turn = low - low_margin, high + high_margin
    boxed = np.isfinite(high - low)
    period = np.where(boxed, 2 * (high_turn - low_turn), 1.0)
    centre = np.where(
        boxed, low_turn + 0.5 * np.where(boxed, high_turn - low_turn, 0.0), 0.0
    )

    def constant(values: np.ndarray) -> Array:
        return lax.broadcast_to_rank(jnp.asarray(values, point.dtype), point.ndim)

    turns = jnp.where(
        boxed, jnp.floor((point - constant(centre)) / constant(period) + 0.5), 0.0
    )
    point = point - turns * constant(period)
    point = jnp.where(
        point > constant(high_turn), constant(2 * high_turn) - point, point
    )
    point = jnp.where(point < constant(low_turn), constant(2 * low_turn) - point, point)
    from_low, from_high = point - constant(low_turn), constant(high_turn) - point
    point = jnp.where(
        point < constant(low + low_margin),
        constant(low) + from_low**2 / constant(4 * low_margin),
        jnp.where(
            point > constant(high - high_margin),
            constant(high) - from_high**2 / constant(4 * high_margin),
            point,
        ),
    )
    return jnp.clip(
        point, constant(low), constant(high)
    )  # where rounding lost the period


def _margin(bound: np.ndarray, width: np.ndarray) -> np.ndarray:
    return np.where(
        np.isfinite(bound), np.minimum(width / 2, (1 + np.abs(bound)) / 20), 1.0
    )
