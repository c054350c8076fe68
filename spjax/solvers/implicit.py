"""Derivatives of a constrained minimum by the implicit function theorem on its Karush-Kuhn-Tucker system.

At a minimum z with multipliers l, the equations grad_z L(z, l, params) = 0, g_i(z, params) = 0 for active and l_i = 0
for inactive constraints define (z, l) as a function of ``params``. One linear solve of n + m equations differentiates it,
whatever the number of iterations was. Where a constraint is exactly on the verge of being active the function has a kink,
and the result is the derivative of the side that the active set names.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from spjax.solvers.linalg import solve_positive

Objective = Callable[[Float[Array, " n"], PyTree], Float[Array, ""]]
Constraints = Callable[[Float[Array, " n"], PyTree], Float[Array, " m"]]


class Model(NamedTuple):
    """Value, constraints and their first derivatives at one point."""

    value: Float[Array, ""]
    constraints: Float[Array, " m"]
    gradient: Float[Array, " n"]
    jacobian: Float[Array, "m n"]


class Derivatives(NamedTuple):
    """How to differentiate a problem in z; static, two functions."""

    model: Callable[[Float[Array, " n"], PyTree], Model]
    hessian: Callable[
        [Float[Array, " n"], PyTree, Float[Array, " m"]], Float[Array, "n n"]
    ]  # of f + weights . g


def automatic_derivatives(
    objective: Objective, constraints: Constraints
) -> Derivatives:
    """Returns the derivatives by automatic differentiation; fine where speed and compile time do not matter."""

    def model(z: Float[Array, " n"], params: PyTree) -> Model:
        value, gradient = jax.value_and_grad(objective)(z, params)
        return Model(
            value, constraints(z, params), gradient, jax.jacrev(constraints)(z, params)
        )

    def hessian(
        z: Float[Array, " n"], params: PyTree, weights: Float[Array, " m"]
    ) -> Float[Array, "n n"]:
        return jax.hessian(
            lambda z: objective(z, params) + weights @ constraints(z, params)
        )(z)

    return Derivatives(model, hessian)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def attach_derivatives(
    objective: Objective,
    constraints: Constraints,
    derivatives: Derivatives,
    z: Float[Array, " n"],
    multipliers: Float[Array, " m"],
    valid: Bool[Array, ""],
    params: PyTree,
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """Returns ``z`` and ``multipliers`` unchanged, as differentiable functions of ``params``.

    Where ``valid`` is False (no minimum was reached) the derivatives are zero.
    """
    return z, multipliers


def _forward(
    objective: Objective,
    constraints: Constraints,
    derivatives: Derivatives,
    z: Float[Array, " n"],
    multipliers: Float[Array, " m"],
    valid: Bool[Array, ""],
    params: PyTree,
) -> tuple[PyTree, PyTree]:
    return (z, multipliers), (z, multipliers, valid, params)


def _backward(
    objective: Objective,
    constraints: Constraints,
    derivatives: Derivatives,
    residuals: PyTree,
    cotangents: PyTree,
) -> tuple[None, None, None, PyTree]:
    z, multipliers, valid, params = residuals
    active = multipliers > jnp.sqrt(jnp.finfo(z.dtype).eps)
    jacobian = jnp.where(active[:, None], derivatives.model(z, params).jacobian, 0.0)
    hessian = derivatives.hessian(z, params, multipliers)
    along = _solve_kkt(hessian, jacobian, active, *cotangents)
    return (
        None,
        None,
        None,
        pull_back(objective, constraints, z, multipliers, active, along, valid, params),
    )


attach_derivatives.defvjp(_forward, _backward)


def pull_back(
    objective: Objective,
    constraints: Constraints,
    z: Float[Array, " n"],
    multipliers: Float[Array, " m"],
    active: Bool[Array, " m"],
    along: tuple[Float[Array, " n"], Float[Array, " m"]],
    valid: Bool[Array, ""],
    params: PyTree,
) -> PyTree:
    """Returns the derivatives by ``params``, given the solution ``along`` of the Karush-Kuhn-Tucker system.

    That is the solution of H x + J' y = z_bar, J x = multipliers_bar on the active rows.
    """
    direction, multiplier_direction = along

    def stationarity(params: PyTree) -> Float[Array, ""]:
        def lagrangian(z: Float[Array, " n"]) -> Float[Array, ""]:
            return objective(z, params) + multipliers @ constraints(z, params)

        along = jax.jvp(lagrangian, (z,), (direction,))[1]
        return -along - multiplier_direction @ jnp.where(
            active, constraints(z, params), 0.0
        )

    def zero_where_invalid(leaf: Array) -> Array:
        return leaf if leaf.dtype == jax.dtypes.float0 else jnp.where(valid, leaf, 0)

    (params_bar,) = jax.vjp(stationarity, params)[1](jnp.ones((), z.dtype))
    return jax.tree.map(zero_where_invalid, params_bar)


def _solve_kkt(
    hessian: Float[Array, "n n"],
    jacobian: Float[Array, "m n"],
    active: Bool[Array, " m"],
    z_bar: Float[Array, " n"],
    multipliers_bar: Float[Array, " m"],
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """Solves H x + J' y = z_bar, J x = multipliers_bar on the active rows; y = 0 on the others.

    A multiple of J'J is added to H, which changes no solution and makes it positive definite at a strict local minimum.
    """
    multipliers_bar = jnp.where(active, multipliers_bar, 0.0)
    row_norms = jnp.where(active, (jacobian**2).sum(axis=1), 1.0)
    penalty = 10.0 * jnp.abs(jnp.diagonal(hessian)).max() / row_norms
    penalised = hessian + (jacobian.T * penalty[None]) @ jacobian
    rhs = z_bar + jacobian.T @ (penalty * multipliers_bar)
    columns = solve_positive(
        penalised, jnp.concatenate([rhs[:, None], jacobian.T], axis=1)
    )
    schur = jacobian @ columns[:, 1:] + jnp.diag(jnp.where(active, 0.0, 1.0))
    multiplier_direction = solve_positive(
        schur, jacobian @ columns[:, 0] - multipliers_bar
    )
    return columns[:, 0] - columns[:, 1:] @ multiplier_direction, multiplier_direction
