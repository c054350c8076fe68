"""The gamma function's logarithm and its derivatives, and the gap of the Beta function's logarithm without cancellation.

With h(x, d) = (x + d) log(1 + d / x) - d, the gap of log Gamma at x is h plus a rest that stays small where x is large. The
three gaps of log B(a, b) = log Gamma(a) + log Gamma(b) - log Gamma(a + b) nearly cancel for large a and b, but their h
together are (s + ds) KL(m_new || m), of Bernoulli distributions with m = a / s, s = a + b.

Stirling's series is used from 8 on, and the recurrence below.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from spjax.solvers.series import expm1_minus

SHIFT = 8
POWERS = (1, 3, 5, 7, 9, 11)
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def log_gamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns log Gamma(x), x > 0."""
    above = x + SHIFT
    powers, factors = _stirling(x)
    series = (factors / above[..., None] ** powers).sum(axis=-1)
    start = (above - 0.5) * jnp.log(above) - above + 0.5 * math.log(2 * math.pi)
    return start + series - jnp.log(_steps(x)).sum(axis=-1)


def digamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns the derivative of `log_gamma`."""
    above = x + SHIFT
    powers, factors = _stirling(x)
    series = (powers * factors / above[..., None] ** (powers + 1)).sum(axis=-1)
    return jnp.log(above) - 0.5 / above - series - (1 / _steps(x)).sum(axis=-1)


def trigamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns the derivative of `digamma`."""
    above = x + SHIFT
    powers, factors = _stirling(x)
    terms = powers * (powers + 1) * factors / above[..., None] ** (powers + 2)
    start = (1 + 0.5 / above) / above
    return start + terms.sum(axis=-1) + (1 / _steps(x) ** 2).sum(axis=-1)


def tetragamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns the derivative of `trigamma`."""
    above = x + SHIFT
    powers, factors = _stirling(x)
    rising = powers * (powers + 1) * (powers + 2)
    terms = rising * factors / above[..., None] ** (powers + 3)
    start = (1 + 1 / above) / above**2
    return -start - terms.sum(axis=-1) - (2 / _steps(x) ** 3).sum(axis=-1)


def log_less_digamma(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns log x - digamma(x), close to 1 / (2 x) where x is large."""
    powers, factors = _stirling(x)
    far = jnp.maximum(x, SHIFT)
    series = (powers * factors / far[..., None] ** (powers + 1)).sum(axis=-1)
    return jnp.where(x >= SHIFT, 0.5 / far + series, jnp.log(x) - digamma(x))


@jax.custom_jvp
def digamma_gap(
    x: Float[Array, "*n"], change: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """Returns digamma(x + change) - digamma(x) without cancellation."""
    above, steps = x + SHIFT, _steps(x)
    powers, factors = _stirling(x)
    log_ratio = jnp.log1p(change / above)
    start = log_ratio + 0.5 * change / (above * (above + change))
    down = jnp.expm1(-(powers + 1) * log_ratio[..., None])
    series = powers * factors / above[..., None] ** (powers + 1) * down
    recurrence = change[..., None] / (steps * (steps + change[..., None]))
    return start - series.sum(axis=-1) + recurrence.sum(axis=-1)


@digamma_gap.defjvp
def _digamma_gap_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    x, change = primals
    at_new = trigamma(x + change)
    of_x = (at_new - trigamma(x)) * tangents[0]
    return digamma_gap(x, change), of_x + at_new * tangents[1]


@jax.custom_jvp
def log_beta_gap(
    a: Float[Array, "*n"],
    b: Float[Array, "*n"],
    of_a: Float[Array, "*n"],
    of_b: Float[Array, "*n"],
    turn: Float[Array, "*n"],
) -> Float[Array, "*n"]:
    """Returns log B(a + da, b + db) - log B(a, b) less its linear part, without cancellation.

    Args:
        a: > 0.
        b: > 0.
        of_a: da.
        of_b: db.
        turn: (b da - a db) / (a + b), which a caller may know to more digits; not differentiated in.
    """
    total, of_total = a + b, of_a + of_b
    first = turn * total / (a * (total + of_total))  # of the mean, relative
    second = -turn * total / (b * (total + of_total))
    excess = _excess(jnp.stack([first, second]))
    bernoulli = (a * excess[0] + b * excess[1]) / total
    rests = _rest(jnp.stack([a, b, total]), jnp.stack([of_a, of_b, of_total]))
    return (total + of_total) * bernoulli + (rests[0] + rests[1] - rests[2])


@log_beta_gap.defjvp
def _log_beta_gap_jvp(
    primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[Array, Array]:
    a, b, of_a, of_b, _ = primals
    numbers, changes = jnp.stack([a, b, a + b]), jnp.stack([of_a, of_b, of_a + of_b])
    moved = digamma_gap(numbers, changes)
    bent = trigamma(numbers) * changes
    linear = moved - bent
    tangent = (linear[0] - linear[2]) * tangents[0]
    tangent += (linear[1] - linear[2]) * tangents[1]
    tangent += (moved[0] - moved[2]) * tangents[2]
    tangent += (moved[1] - moved[2]) * tangents[3]
    return log_beta_gap(*primals), tangent


def _excess(ratio: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns (1 + r) log(1 + r) - r >= 0."""
    return (1 + ratio) * expm1_minus(-jnp.log1p(ratio))


def _rest(x: Float[Array, "*n"], change: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns the gap of log Gamma less h(x, change).

    With t = log(1 + change / X) and E(t) = exp(t) - 1 - t it is E(t) / 2 and, for each term c / X^n of Stirling's series,
    c X^-n [E(-n t) + n E(t)]. Below 8 the gap is taken at X = x + 8, and the recurrence adds E of the log ratios.
    """
    far = (x >= SHIFT) & (x + change >= SHIFT)
    start = jnp.where(far, x, x + SHIFT)
    powers, factors = _stirling(x)
    log_ratio = jnp.log1p(change / start)[..., None]
    of_steps = jnp.log1p(change[..., None] / _steps(x))
    exponents = jnp.concatenate([log_ratio, -powers * log_ratio, of_steps], axis=-1)
    apart, down, recurrence = jnp.split(
        expm1_minus(exponents), (1, 1 + len(POWERS)), axis=-1
    )
    series = (factors / start[..., None] ** powers * (down + powers * apart)).sum(-1)
    excess = _excess(jnp.stack([change / start, change / x]))
    mains = start * excess[0] - x * excess[1]
    below = recurrence.sum(axis=-1) + mains
    return 0.5 * apart[..., 0] + series + jnp.where(far, 0.0, below)


def _steps(x: Float[Array, "*n"]) -> Float[Array, "*n step"]:
    """Returns x, x + 1, ... below the point from which Stirling's series is used."""
    return x[..., None] + _last_axis(tuple(range(SHIFT)), x)


def _stirling(x: Float[Array, "*n"]) -> tuple[Float[Array, "*one term"], ...]:
    """Returns powers and factors of Stirling's series."""
    return _last_axis(POWERS, x), _last_axis(STIRLING, x)


def _last_axis(
    values: tuple[float, ...], x: Float[Array, "*n"]
) -> Float[Array, "*one value"]:
    """Returns numbers along an axis behind those of x."""
    return jnp.asarray(values, x.dtype).reshape((1,) * x.ndim + (-1,))
