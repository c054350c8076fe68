"""Sampling of Gaussians inside bounds."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

MAX_REDRAWS = 100


def sample_inside(
    key: Array,
    means: Float[Array, "N D"],
    chol: Float[Array, "D D"],
    lower: tuple[float, ...],
    upper: tuple[float, ...],
) -> Float[Array, "N D"]:
    """Returns a draw of N(mean, chol chol') for each row.

    A draw outside the bounds is replaced as a whole, up to 100 times; the last one is clipped, as in the released code. All
    rows are drawn again together until none is left outside, so late in a training, with narrow distributions, this
    costs a draw or two.
    """
    low, high = (
        jnp.asarray(lower, means.dtype)[None],
        jnp.asarray(upper, means.dtype)[None],
    )

    def unfinished(
        state: tuple[Int[Array, ""], Array, Array, Bool[Array, " N"]],
    ) -> Bool[Array, ""]:
        draws, _, _, inside = state
        return ~inside.all() & (draws <= MAX_REDRAWS)

    def redraw(
        state: tuple[Array, Array, Array, Array],
    ) -> tuple[Array, Array, Array, Array]:
        draws, key, theta, inside = state
        key, key_draw = jax.random.split(key)
        new = means + jax.random.normal(key_draw, means.shape, means.dtype) @ chol.T
        theta = jnp.where(inside[:, None], theta, new)
        return draws + 1, key, theta, ((theta >= low) & (theta <= high)).all(axis=1)

    # "like" the means, so that under shard_map it varies over devices as they do
    inside = jnp.zeros_like(means[:, 0], bool)
    start = (jnp.zeros((), jnp.int32), key, jnp.zeros_like(means), inside)
    _, _, theta, _ = lax.while_loop(unfinished, redraw, start)
    return jnp.clip(theta, low, high)
