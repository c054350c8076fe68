"""Lengths of vectors, with a gradient everywhere."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def norm(vector: Float[Array, " n"]) -> Float[Array, ""]:
    """Returns the Euclidean length, in the vector's unit; its gradient at zero is zero, where `jnp.linalg.norm` has NaN.

    The rule leaves the value alone: a `where` around the root would round one in forty lengths the other way.
    """
    return jnp.linalg.norm(vector)


@norm.defjvp
def _norm_jvp(
    primals: tuple[Float[Array, " n"]], tangents: tuple[Float[Array, " n"]]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    (vector,), (change,) = primals, tangents
    length = norm(vector)

    direction = vector / jnp.where(length > 0, length, 1.0)
    return length, direction @ change
