"""Constrained minimisation by the augmented Lagrangian method with an optax inner optimiser.

    minimise f(z, params)  subject to  g_i(z, params) <= 0.

One flat ``while_loop``: a trip is one step of the inner optimiser on

    A(z) = f(z) + sum_i (max(0, l_i + r g_i(z))^2 - l_i^2) / (2 r),

and before the step, where A is minimised well enough, the multipliers move to ``max(0, l + r g)``. Nested loops would cost
the product of the worst lanes under ``vmap``; this one costs the slowest lane. The iterates may leave the feasible set, so
at the end the solution is drawn back along the ray to the feasible start. Derivatives with respect to ``params`` come from
`spjax.solvers.implicit`.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.solvers.implicit import (
    Constraints,
    Derivatives,
    Model,
    Objective,
    attach_derivatives,
    automatic_derivatives,
)
from spjax.solvers.newton import damped_newton


class Result(enum.IntEnum):
    """How a solve ended."""

    CONVERGED = 0
    ITERATION_LIMIT = 1  # the best feasible point found is returned
    NOT_FINITE = (
        2  # value or derivatives are not finite at the start, which is returned
    )
    INFEASIBLE_START = 3  # the start, which is returned, violates a constraint
    NO_DATA = 4  # there was nothing to optimise over; set by callers


@dataclasses.dataclass(frozen=True)
class SolverConfig:
    """Static settings. Scale a problem so that its unknowns, gradients and constraints are of order one."""

    max_iterations: int = 200
    tolerance: float = 1e-8  # on the Lagrangian's gradient and the constraints; 256 machine epsilons if that is more
    initial_penalty: float = 15.0
    penalty_growth: float = (
        5.0  # when a multiplier update reduced the violation less than fourfold
    )
    max_penalty: float = 1e5
    inner_iterations: int = (
        10  # steps after which the multipliers are updated in any case
    )
    max_violation: float = (
        0.5  # steps to points where a constraint exceeds it are rejected
    )
    inner: optax.GradientTransformationExtraArgs = dataclasses.field(
        default_factory=damped_newton
    )


PREDICTION_PROGRESS = 0.5
DEFAULT_CONFIG = SolverConfig()


@struct.dataclass
class Solution:
    """What a solve returns; differentiable in ``params``: z, value, multipliers."""

    z: Float[Array, " n"]  # feasible, if the start is
    value: Float[Array, ""]  # objective at z
    multipliers: Float[Array, " m"]  # >= 0
    violation: Float[
        Array, ""
    ]  # max(0, g(z)), of the iterate before it was drawn back to the feasible set
    kkt: Float[Array, ""]  # largest entry of the gradient of the Lagrangian
    iterations: Int[Array, ""]
    result: Int[Array, ""]  # a `Result`


class _State(NamedTuple):
    start: Int[Array, ""]  # a `Result`: what is wrong with the start, if anything is
    z: Float[Array, " n"]
    multipliers: Float[Array, " m"]
    predicted: Float[
        Array, " m"
    ]  # multipliers that fit the last step, by the linearised constraints
    error: Float[
        Array, ""
    ]  # smallest error of the optimality conditions at which a prediction was taken
    penalty: Float[Array, ""]
    residual: Float[Array, ""]  # at the last multiplier update
    inner: PyTree
    inner_iterations: Int[Array, ""]
    iterations: Int[Array, ""]
    best_z: Float[Array, " n"]
    best_value: Float[Array, ""]
    kkt: Float[Array, ""]
    violation: Float[Array, ""]
    converged: Bool[Array, ""]


def solve(
    objective: Objective,
    constraints: Constraints,
    z0: Float[Array, " n"],
    params: PyTree,
    *,
    config: SolverConfig = DEFAULT_CONFIG,
    derivatives: Derivatives | None = None,
) -> Solution:
    """Minimises ``objective(z, params)`` subject to ``constraints(z, params) <= 0``, from the feasible ``z0``.

    Args:
        objective: scalar function, twice differentiable.
        constraints: vector function, twice differentiable; feasible where all entries are <= 0.
        z0: a feasible start. The result is feasible and never worse than it.
        params: any pytree that both functions take; the solution is differentiable in it (reverse mode).
        config: static settings.
        derivatives: hand-written derivatives in z, where automatic ones are too slow.

    Returns:
        The solution with its result code; its derivatives are zero where the result is not ``CONVERGED``.
    """
    derivatives = derivatives or automatic_derivatives(objective, constraints)
    fixed = lax.stop_gradient((z0, params))
    solution = _minimise(objective, constraints, *fixed, config, derivatives)
    converged = solution.result == Result.CONVERGED
    z, multipliers = attach_derivatives(
        objective,
        constraints,
        derivatives,
        solution.z,
        solution.multipliers,
        converged,
        params,
    )
    return dataclasses.replace(
        solution, z=z, multipliers=multipliers, value=objective(z, params)
    )


def _minimise(
    objective: Objective,
    constraints: Constraints,
    z0: Float[Array, " n"],
    params: PyTree,
    config: SolverConfig,
    derivatives: Derivatives,
) -> Solution:
    tolerance = max(config.tolerance, 256 * float(jnp.finfo(z0.dtype).eps))
    margin = (
        2 * tolerance
    )  # constraints are tightened by it, so that a converged iterate is feasible as it is

    def unfinished(state: _State) -> Bool[Array, ""]:
        return (
            (state.start == Result.CONVERGED)
            & ~state.converged
            & (state.iterations < config.max_iterations)
        )

    def trip(state: _State) -> _State:
        model = derivatives.model(state.z, params)
        first = state.iterations == 0
        state = state._replace(start=jnp.where(first, _judge(model), state.start))
        state = _keep_best(state, model)
        model = model._replace(constraints=model.constraints + margin)
        state = _update_multipliers(state, model, tolerance, config)
        return _inner_step(
            state, model, objective, constraints, params, margin, config, derivatives
        )

    shapes = jax.eval_shape(derivatives.model, z0, params)
    zero = varying_zero((z0, params), z0.dtype)
    count = zero.astype(jnp.int32)
    no_multipliers = jnp.zeros(shapes.constraints.shape, z0.dtype) + zero
    initial = _State(
        start=count + Result.CONVERGED,
        z=z0 + zero,
        multipliers=no_multipliers,
        predicted=no_multipliers,
        error=zero + jnp.inf,
        penalty=zero + config.initial_penalty,
        residual=zero + jnp.inf,
        inner=jax.tree.map(
            lambda leaf: leaf + zero.astype(leaf.dtype), config.inner.init(z0)
        ),
        inner_iterations=count,
        iterations=count,
        best_z=z0 + zero,
        best_value=zero + jnp.inf,
        kkt=zero + jnp.inf,
        violation=zero,
        converged=count > 0,
    )
    final = lax.while_loop(unfinished, trip, initial)
    usable = final.start == Result.CONVERGED
    result = jnp.where(final.converged, Result.CONVERGED, Result.ITERATION_LIMIT)
    result = jnp.where(usable, result, final.start)
    final = jax.tree.map(lambda a, b: jnp.where(usable, a, b), final, initial)
    step = final.z - z0
    z = z0 + step * draw_back(
        lambda fraction: constraints(z0 + fraction * step, params).max(), zero
    )
    better = objective(z, params) < final.best_value  # False where not finite
    z = jnp.where(usable & better, z, final.best_z)
    return Solution(
        z=z,
        value=final.best_value,
        multipliers=final.multipliers,
        violation=final.violation,
        kkt=final.kkt,
        iterations=final.iterations,
        result=result.astype(jnp.int32),
    )


def _judge(start: Model) -> Int[Array, ""]:
    """Returns what is wrong with a start, `Result.CONVERGED` where nothing is."""
    finite = jnp.array(True)
    for part in start:
        finite &= jnp.all(jnp.isfinite(part))
    feasible = jnp.all(start.constraints <= 0)
    fine = jnp.where(feasible, Result.CONVERGED, Result.INFEASIBLE_START)
    return jnp.where(finite, fine, Result.NOT_FINITE).astype(jnp.int32)


def _keep_best(state: _State, model: PyTree) -> _State:
    better = jnp.all(model.constraints <= 0) & (model.value < state.best_value)
    return state._replace(
        best_z=jnp.where(better, state.z, state.best_z),
        best_value=jnp.where(better, model.value, state.best_value),
    )


def _update_multipliers(
    state: _State, model: PyTree, tolerance: float, config: SolverConfig
) -> _State:
    """Moves the multipliers where the inner problem is solved well enough, and says whether all is done."""

    def errors(
        multipliers: Float[Array, " m"],
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        slope = jnp.abs(model.gradient + model.jacobian.T @ multipliers).max()
        return slope, jnp.abs(
            jnp.maximum(model.constraints, -multipliers / state.penalty)
        ).max()

    predicted_kkt, predicted_residual = errors(state.predicted)
    predicted_error = jnp.maximum(predicted_kkt, predicted_residual)
    take = predicted_error <= PREDICTION_PROGRESS * state.error

    shifted = jnp.maximum(0.0, state.multipliers + state.penalty * model.constraints)
    kkt, _ = errors(shifted)
    residual = jnp.abs(
        jnp.maximum(model.constraints, -state.multipliers / state.penalty)
    ).max()
    update = (kkt <= jnp.maximum(tolerance, 0.1 * residual)) | (
        state.inner_iterations >= config.inner_iterations
    )
    slow = update & (residual > 0.25 * state.residual)
    penalty = jnp.minimum(
        config.max_penalty,
        state.penalty * jnp.where(slow & ~take, config.penalty_growth, 1.0),
    )
    return state._replace(
        multipliers=jnp.where(
            take, state.predicted, jnp.where(update, shifted, state.multipliers)
        ),
        error=jnp.where(take, predicted_error, state.error),
        penalty=penalty,
        residual=jnp.where(update & ~take, residual, state.residual),
        inner_iterations=jnp.where(update | take, 0, state.inner_iterations),
        kkt=jnp.where(take, predicted_kkt, kkt),
        violation=jnp.maximum(0.0, model.constraints.max()),
        converged=((kkt <= tolerance) & (residual <= tolerance))
        | (take & (predicted_error <= tolerance)),
    )


def _inner_step(
    state: _State,
    model: PyTree,
    objective: Objective,
    constraints: Constraints,
    params: PyTree,
    margin: float,
    config: SolverConfig,
    derivatives: Derivatives,
) -> _State:
    """One step of the inner optimiser on the augmented Lagrangian; none where the solve has converged."""
    multipliers, penalty = state.multipliers, state.penalty

    def augmented(
        value: Float[Array, ""], constraints: Float[Array, " m"]
    ) -> Float[Array, ""]:
        shifted = jnp.maximum(0.0, multipliers + penalty * constraints)
        return value + (shifted**2 - multipliers**2).sum() / (2 * penalty)

    def guarded(z: Float[Array, " n"], hessian: PyTree = None) -> Float[Array, ""]:
        del hessian  # optax's line searches hand it on
        violations = constraints(z, params) + margin
        value = augmented(objective(z, params), violations)
        allowed = jnp.all(violations <= config.max_violation) & jnp.isfinite(value)
        return jnp.where(allowed, value, jnp.inf)

    weights = jnp.maximum(0.0, multipliers + penalty * model.constraints)
    active = jnp.where((weights > 0)[:, None], model.jacobian, 0.0)
    hessian = derivatives.hessian(state.z, params, weights) + penalty * (
        active.T @ active
    )
    updates, inner = config.inner.update(
        model.gradient + model.jacobian.T @ weights,
        state.inner,
        state.z,
        value=augmented(model.value, model.constraints),
        grad=model.gradient + model.jacobian.T @ weights,
        value_fn=guarded,
        hessian=hessian,
    )
    return state._replace(
        z=jnp.where(state.converged, state.z, state.z + updates),
        predicted=jnp.maximum(
            0.0, multipliers + penalty * (model.constraints + model.jacobian @ updates)
        ),
        inner=inner,
        inner_iterations=state.inner_iterations + 1,
        iterations=state.iterations + 1,
    )


def draw_back(
    excess: Callable[[Float[Array, ""]], Float[Array, ""]], zero: Float[Array, ""]
) -> Float[Array, ""]:
    """Returns a fraction of a step, as close to 1 as need be, at which ``excess`` (about quadratic in it) is <= 0; or 0.

    Args:
        excess: of a fraction.
        zero: where the search starts, of `varying_zero`.
    """

    def unfinished(state: tuple[Float[Array, ""], Bool[Array, ""]]) -> Bool[Array, ""]:
        return ~state[1]

    def further(
        state: tuple[Float[Array, ""], Bool[Array, ""]],
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        back, _ = state
        over = excess(1 - jnp.minimum(back, 1.0))
        ended = (over <= 0) | (back >= 1)
        more = jnp.fmax(
            1.5 * back + 2.0**-34, back + 0.55 * over
        )  # fmax: an excess that is NaN counts as zero
        return jnp.where(ended, back, more), ended

    back, _ = lax.while_loop(unfinished, further, (zero, zero > 0))
    return 1 - jnp.minimum(back, 1.0)


def varying_zero(data: PyTree, dtype: jnp.dtype) -> Float[Array, ""]:
    """Returns a zero that, under shard_map, varies over devices as any of the data does: where the carry of a loop starts."""
    zero = jnp.zeros((), dtype)
    for leaf in jax.tree.leaves(data):
        zero += jnp.zeros_like(leaf, dtype).sum()
    return zero
