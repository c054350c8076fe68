"""The root of an increasing function between two ends, by interpolation where that is safe and bisection elsewhere.

The method of Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function without using
derivatives" (Advances in Engineering Software, 1997): the inverse quadratic through the last three points is trusted
where it is monotone between them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

MAX_TRIPS = 100


class Bracket(NamedTuple):
    """Two points with the root between them."""

    low: Float[Array, ""]  # function <= 0 here, or it is the lower end
    high: Float[Array, ""]  # function > 0 here, or it is the upper end
    trips: Int[Array, ""]


class _Point(NamedTuple):
    at: Float[Array, ""]
    value: Float[Array, ""]


class _State(NamedTuple):
    newest: _Point
    opposite: _Point  # the root lies between it and the newest
    previous: _Point
    step: Float[
        Array, ""
    ]  # where to look next, a share of the way from the newest to the opposite one
    trips: Int[Array, ""]


def bracket_root(
    function: Callable[[Float[Array, ""]], Float[Array, ""]],
    low: Float[Array, ""],
    high: Float[Array, ""],
    tolerance: float,
) -> Bracket:
    """Returns a bracket of at most twice the ``tolerance`` around the root of an increasing function.

    Where the function is positive at the lower end both points are that end; where it is not at the upper end, the upper one.
    A value that is NaN counts as positive. The points carry no derivatives.
    """
    low, high = lax.stop_gradient((low, high))
    at_low, at_high = function(low), function(high)
    inside = (at_low <= 0) & (at_high > 0)
    end = jnp.where(at_low <= 0, high, low)

    def width(state: _State) -> Float[Array, ""]:
        return jnp.abs(state.opposite.at - state.newest.at)

    def unfinished(state: _State) -> Bool[Array, ""]:
        return inside & (width(state) > 2 * tolerance) & (state.trips < MAX_TRIPS)

    def trip(state: _State) -> _State:
        at = state.newest.at + state.step * (state.opposite.at - state.newest.at)
        point = _Point(at, function(at))
        same_side = (point.value <= 0) == (state.newest.value <= 0)
        opposite = _select(same_side, state.opposite, state.newest)
        previous = _select(same_side, state.newest, state.opposite)
        state = _State(point, opposite, previous, state.step, state.trips + 1)
        least = jnp.minimum(tolerance / width(state), 0.5)
        return state._replace(
            step=jnp.clip(_interpolate(point, opposite, previous), least, 1.0 - least)
        )

    count = 0 * inside.astype(jnp.int32)
    lower, upper = _Point(low, at_low), _Point(high, at_high)
    state = lax.while_loop(
        unfinished, trip, _State(lower, upper, upper, 0.5 + 0 * low, count)
    )
    below = state.newest.value <= 0
    left = jnp.where(below, state.newest.at, state.opposite.at)
    right = jnp.where(below, state.opposite.at, state.newest.at)
    return Bracket(
        jnp.where(inside, left, end), jnp.where(inside, right, end), state.trips
    )


def _interpolate(
    newest: _Point, opposite: _Point, previous: _Point
) -> Float[Array, ""]:
    """Returns the next step by the inverse quadratic through three points; a half where that cannot be trusted."""
    x1, f1 = newest
    x2, f2 = opposite
    x3, f3 = previous
    xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
    trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)  # False where NaN
    quadratic = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (
        f3 - f1
    ) * f2 / (f3 - f2)
    return jnp.where(trusted & jnp.isfinite(quadratic), quadratic, 0.5)


def _select(condition: Bool[Array, ""], a: _Point, b: _Point) -> _Point:
    return _Point(
        jnp.where(condition, a.at, b.at), jnp.where(condition, a.value, b.value)
    )
