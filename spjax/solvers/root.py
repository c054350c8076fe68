"""The root of an increasing function between two ends, by interpolation that never does much worse than bisection.

The ITP method of Oliveira and Takahashi, "An Enhancement of the Bisection Method Average Performance Preserving Minmax
Optimality" (ACM TOMS 2020): the secant's point, moved towards the middle and held within a distance of it at which the
number of trips stays that of bisection plus one.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

SLACK_TRIPS = 1  # n_0: more than bisection may take
TRUNCATION = 0.2  # kappa_1, times the first width of the bracket; kappa_2 is 2


class Bracket(NamedTuple):
    """Two points with the root between them, and the function there."""

    low: Float[Array, ""]  # function <= 0 here, or it is the lower end
    high: Float[Array, ""]  # function > 0 here, or it is the upper end
    at_low: Float[Array, ""]
    at_high: Float[Array, ""]
    trips: Int[Array, ""]


def bracket_root(
    function: Callable[[Float[Array, ""]], Float[Array, ""]],
    low: Float[Array, ""],
    high: Float[Array, ""],
    tolerance: float,
) -> Bracket:
    """Returns a bracket of at most ``tolerance`` around the root of an increasing function.

    Where the function is positive at the lower end both points are that end; where it is not at the upper end, the upper one.
    A value that is NaN counts as positive. The points carry no derivatives.
    """
    low, high = lax.stop_gradient((low, high))
    at_low, at_high = function(low), function(high)
    width = high - low
    halvings = jnp.ceil(jnp.log2(jnp.maximum(width / tolerance, 1.0)))

    def unfinished(bracket: Bracket) -> Bool[Array, ""]:
        return (bracket.high - bracket.low > tolerance) & (bracket.trips <= halvings + SLACK_TRIPS + 1)

    def trip(bracket: Bracket) -> Bracket:
        low, high, at_low, at_high, trips = bracket
        middle = 0.5 * (low + high)
        secant = (at_high * low - at_low * high) / (at_high - at_low)
        secant = jnp.where(jnp.isfinite(secant), secant, middle)
        towards = jnp.sign(middle - secant)

        shift = jnp.maximum(TRUNCATION * (high - low) ** 2 / width, 0.25 * tolerance)
        point = jnp.where(shift <= jnp.abs(middle - secant), secant + towards * shift, middle)
        room = 0.5 * (tolerance * 2.0 ** (halvings + SLACK_TRIPS - trips) - (high - low))
        point = jnp.where(jnp.abs(point - middle) <= room, point, middle - towards * jnp.maximum(room, 0.0))

        value = function(point)
        below = value <= 0
        return Bracket(
            low=jnp.where(below, point, low),
            high=jnp.where(below, high, point),
            at_low=jnp.where(below, value, at_low),
            at_high=jnp.where(below, at_high, value),
            trips=trips + 1,
        )

    inside = (at_low <= 0) & (at_high > 0)
    end = jnp.where(at_low <= 0, high, low)
    count = 0 * halvings.astype(jnp.int32)
    start = Bracket(jnp.where(inside, low, end), jnp.where(inside, high, end), at_low, at_high, count)
    return lax.while_loop(unfinished, trip, start)
