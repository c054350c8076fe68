"""Small differences of exponentials and logarithms without cancellation."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

SMALL = 0.1  # where the series is used
COEFFICIENTS = [
    1 / math.factorial(power) for power in range(11, 1, -1)
]  # of exp, highest power first


def expm1_minus(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns exp(x) - 1 - x >= 0 to a few units of rounding, in single and double precision; differentiable."""
    small = jnp.abs(x) < SMALL
    near = jnp.where(small, x, 0.0)
    series = near**2 * jnp.polyval(jnp.asarray(COEFFICIENTS, x.dtype), near)
    far = jnp.where(small, 1.0, x)
    return jnp.where(small, series, jnp.exp(far) - 1.0 - far)
