"""The temperature at which exponential weights have a given KL divergence from uniform ones: the inner problem of both duals.

    minimise over t in [low, high]:  t (epsilon + log mean_i exp(a_i / t))

Its derivative is epsilon - KL(w || uniform) with w_i proportional to exp(a_i / t), and KL falls monotonically with t; so this is
a root search. Against the logarithm of t, log KL is almost linear, and Newton's method with a bracket takes a few steps.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

MAX_STEPS = 60


class Tempered(NamedTuple):
    """The weights at the optimal temperature; nats and units of the exponents."""

    temperature: Float[Array, ""]
    kl: Float[Array, ""]
    log_mean: Float[Array, ""]  # log mean exp(a / t)
    mean: Float[Array, ""]  # of a under the weights
    variance: Float[Array, ""]


class _Search(NamedTuple):
    x: Float[Array, ""]  # log t to try next
    below: Float[Array, ""]  # largest x known to have KL > epsilon
    above: Float[Array, ""]  # smallest x known to have KL <= epsilon
    found: Tempered  # at the last x
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def optimal_temperature(
    exponents: Float[Array, " N"],
    low: Float[Array, ""],
    high: Float[Array, ""],
    start: Float[Array, ""],
    max_kl: Float[Array, ""],
) -> Tempered:
    """Returns the optimum; exactly ``low`` or ``high`` where it lies there.

    Args:
        exponents: a, the largest of them 0.
        low: smallest temperature, > 0.
        high: largest temperature.
        start: where the search begins.
        max_kl: epsilon > 0, nats.
    """
    tolerance = max(1e-11, 32 * float(jnp.finfo(exponents.dtype).eps))
    first, last = jnp.log(low), jnp.log(high)

    def unfinished(search: _Search) -> Bool[Array, ""]:
        return ~search.done & (search.steps < MAX_STEPS)

    def newton_step(search: _Search) -> _Search:
        x = search.x
        found = _at(
            exponents,
            jnp.where(x <= first, low, jnp.where(x >= last, high, jnp.exp(x))),
        )
        over = found.kl > max_kl
        below = jnp.where(over, jnp.maximum(x, search.below), search.below)
        above = jnp.where(over, search.above, jnp.minimum(x, search.above))
        done = (jnp.abs(found.kl - max_kl) <= tolerance * max_kl) | (
            above - below <= tolerance
        )
        done |= (~over & (x <= first)) | (over & (x >= last))

        slope = found.variance / (found.temperature**2 * found.kl)  # of -log KL
        newton = jnp.clip(x + jnp.log(found.kl / max_kl) / slope, first, last)
        middle = jnp.clip((below + above) / 2, first, last)
        inside = (newton > below) & (newton < above)  # False for NaN
        return _Search(
            jnp.where(inside, newton, middle),
            below,
            above,
            found,
            search.steps + 1,
            done,
        )

    x = jnp.clip(jnp.log(start), first, last)

    # "like" x, so that under shard_map they vary over devices as it does
    steps, done = jnp.zeros_like(x, jnp.int32), jnp.zeros_like(x, bool)
    blank = _Search(x, first - 1, last + 1, Tempered(x, x, x, x, x), steps, done)
    return lax.while_loop(unfinished, newton_step, blank).found


def _at(exponents: Float[Array, " N"], temperature: Float[Array, ""]) -> Tempered:
    factors = jnp.exp(exponents / temperature)
    first = (
        exponents * factors
    )  # the factor first: no 0 * inf where an exponent is huge
    total, first, second = jnp.stack([factors, first, exponents * first]).sum(axis=1)
    mean, log_mean = first / total, jnp.log(total / exponents.size)
    return Tempered(
        temperature=temperature,
        kl=jnp.maximum(0.0, mean / temperature - log_mean),
        log_mean=log_mean,
        mean=mean,
        variance=jnp.maximum(0.0, second / total - mean**2),
    )
