"""Minimises the duals of C-REPS and SPRL: one convex problem in the value function's weights and one or two temperatures.

    minimise over chi and temperatures t_k >= floor_k
        sum_k t_k (epsilon + log mean_i exp(E_ki / t_k))  +  linear . chi  +  ridge |chi|^2

with E_k = offset_k + sign_k V and V_i = chi . phi(c_i). The temperatures are minimised out exactly at every point
(`spjax.agents.episodic.temperature`; it needs no features), and the remaining function of chi, convex too, by Newton's
method with its exact Hessian. A trip passes over the feature matrix twice: once for gradient and Hessian together, once for
the change of V along the step. The line search works on the N values of V alone and goes by slopes, which convexity allows
and rounding disturbs less than values. Temperatures change at most `MAX_RATIO`-fold a trip; this leads problems with a
temperature at its floor there along a smooth path.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.episodic.temperature import optimal_temperature
from spjax.solvers.linalg import solve_positive

MAX_TRIPS = 100
MAX_RATIO = 10.0
MAX_SHORTENINGS = 30  # of one step


class Problem(NamedTuple):
    """See the module."""

    offsets: Float[Array, "K N"]
    signs: Float[Array, " K"]
    floors: Float[Array, " K"]
    features: Float[
        Array, "F N"
    ]  # a row for each feature: the sums over samples run along memory
    linear: Float[Array, " F"]
    max_kl: Float[Array, ""]
    ridge: Float[Array, ""]


class Rows(NamedTuple):
    """The temperatures and weights that are optimal for one V."""

    temperatures: Float[Array, " K"]
    weights: Float[Array, "K N"]
    value: Float[Array, ""]  # of the dual without its terms in chi alone
    kl: Float[Array, " K"]
    mean: Float[Array, " K"]  # of the exponents under the weights
    variance: Float[Array, " K"]
    interior: Bool[Array, " K"]  # the temperature is not at an end of its range
    settled: Bool[Array, " K"]  # nor at one that the next trip will move


class Minimum(NamedTuple):
    """What a minimisation returns."""

    chi: Float[Array, " F"]
    rows: Rows
    value: Float[Array, ""]
    trips: Int[Array, ""]
    converged: Bool[Array, ""]


class _State(NamedTuple):
    chi: Float[Array, " F"]
    values: Float[Array, " N"]
    rows: Rows
    trips: Int[Array, ""]
    error: Float[
        Array, ""
    ]  # root mean square of the relative change that the last step made to the weights
    stalled: Bool[Array, ""]


def minimise(
    problem: Problem, chi: Float[Array, " F"], temperatures: Float[Array, " K"]
) -> Minimum:
    """Returns the minimum, from a start that it does not depend on. Scale rewards so that they vary by about 1."""
    # Newton's method squares the error: after a step of this size it is far below
    tolerance = max(1e-5, 1e3 * float(jnp.finfo(chi.dtype).eps))

    def converged(state: _State) -> Bool[Array, ""]:
        return (state.error <= tolerance) & state.rows.settled.all()

    def unfinished(state: _State) -> Bool[Array, ""]:
        return ~converged(state) & ~state.stalled & (state.trips < MAX_TRIPS)

    def newton_step(state: _State) -> _State:
        gradient, hessian = _derivatives(problem, state)
        step = -solve_positive(hessian, gradient)
        moved, stalled = _line_search(problem, state, step, gradient @ step)
        state = jax.tree.map(
            lambda new, old: jnp.where(stalled, old, new), moved, state
        )
        error = jnp.sqrt(
            jnp.maximum(0.0, -gradient @ step) / state.rows.temperatures.min()
        )
        return state._replace(trips=state.trips + 1, error=error, stalled=stalled)

    values = chi @ problem.features
    high = 1e12 * jnp.maximum(problem.floors, 1.0)
    rows = _optimal_rows(problem, values, problem.floors, high, temperatures)

    # "like" the value, so that under shard_map they vary over devices as it does
    trips, stalled = (
        jnp.zeros_like(rows.value, jnp.int32),
        jnp.zeros_like(rows.value, bool),
    )
    state = _State(
        chi, values, rows, trips, jnp.full_like(rows.value, jnp.inf), stalled
    )
    state = lax.while_loop(unfinished, newton_step, state)
    return Minimum(
        state.chi,
        state.rows,
        _objective(problem, state.chi, state.rows),
        state.trips,
        converged(state),
    )


def _derivatives(
    problem: Problem, state: _State
) -> tuple[Float[Array, " F"], Float[Array, "F F"]]:
    """Returns gradient and Hessian, in chi, of the dual with the temperatures minimised out."""
    rows, features = state.rows, problem.features
    size = features.shape[0]
    exponents = problem.offsets + problem.signs[:, None] * state.values[None]
    centred = rows.weights * (exponents - rows.mean[:, None])
    curvature = (rows.weights / rows.temperatures[:, None]).sum(axis=0)
    gram = (
        features
        @ jnp.concatenate([curvature[None] * features, rows.weights, centred]).T
    )
    means, covariances = jnp.split(
        gram[:, size:], 2, axis=1
    )  # of the features, and of them with the exponents
    varies = rows.interior & (rows.variance > 0)
    along = jnp.where(varies, 1.0 / jnp.where(varies, rows.variance, 1.0), 0.0)
    gradient = problem.linear + means @ problem.signs + 2 * problem.ridge * state.chi
    hessian = gram[:, :size] - (means / rows.temperatures[None]) @ means.T
    hessian -= ((along / rows.temperatures)[None] * covariances) @ covariances.T
    return gradient, hessian + 2 * problem.ridge * jnp.eye(size, dtype=gradient.dtype)


def _line_search(
    problem: Problem, state: _State, step: Float[Array, " F"], slope: Float[Array, ""]
) -> tuple[_State, Bool[Array, ""]]:
    """Shortens the step until it slopes down there, or up less than half and to no higher value; says whether that failed."""
    change = step @ problem.features
    low = jnp.maximum(problem.floors, state.rows.temperatures / MAX_RATIO)
    high = jnp.maximum(problem.floors, state.rows.temperatures * MAX_RATIO)
    before = _objective(problem, state.chi, state.rows)
    noise = 8 * jnp.finfo(before.dtype).eps * (1 + jnp.abs(before))

    def too_long(search: tuple[Array, Array, _State, Array]) -> Bool[Array, ""]:
        count, _, _, good = search
        return ~good & (count < MAX_SHORTENINGS)

    def attempt(
        search: tuple[Array, Array, _State, Array],
    ) -> tuple[Array, Array, _State, Array]:
        count, fraction, _, _ = search
        chi, values = state.chi + fraction * step, state.values + fraction * change
        rows = _optimal_rows(problem, values, low, high, state.rows.temperatures)
        new_slope = (problem.signs @ rows.weights) @ change + (
            problem.linear + 2 * problem.ridge * chi
        ) @ step
        no_higher = _objective(problem, chi, rows) <= before + noise
        good = (new_slope <= 0) | ((new_slope <= 0.5 * jnp.abs(slope)) & no_higher)
        secant = jnp.abs(slope) / (jnp.abs(slope) + jnp.abs(new_slope))
        shorter = fraction * jnp.where(
            secant >= 0.1, jnp.minimum(secant, 0.6), 0.1
        )  # 0.1 for NaN
        return (
            count + 1,
            shorter,
            state._replace(chi=chi, values=values, rows=rows),
            good,
        )

    start = (jnp.zeros_like(state.trips), jnp.ones_like(slope), state, state.stalled)
    _, _, moved, good = lax.while_loop(too_long, attempt, start)
    return moved, ~good


def _objective(
    problem: Problem, chi: Float[Array, " F"], rows: Rows
) -> Float[Array, ""]:
    return rows.value + problem.linear @ chi + problem.ridge * (chi @ chi)


def _optimal_rows(
    problem: Problem,
    values: Float[Array, " N"],
    low: Float[Array, " K"],
    high: Float[Array, " K"],
    start: Float[Array, " K"],
) -> Rows:
    exponents = problem.offsets + problem.signs[:, None] * values[None]
    top = exponents.max(axis=1)
    relative = exponents - top[:, None]
    found = jax.vmap(optimal_temperature, in_axes=(0, 0, 0, 0, None))(
        relative, low, high, start, problem.max_kl
    )
    factors = jnp.exp(relative / found.temperature[:, None])
    interior = (found.temperature > low) & (found.temperature < high)
    return Rows(
        temperatures=found.temperature,
        weights=factors / factors.sum(axis=1, keepdims=True),
        value=(found.temperature * (problem.max_kl + found.log_mean) + top).sum(),
        kl=found.kl,
        mean=found.mean + top,
        variance=found.variance,
        interior=interior,
        settled=interior | (found.temperature <= problem.floors),
    )
