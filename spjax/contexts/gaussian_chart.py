"""The context update in the coordinates of the old distribution, with hand-written first and second derivatives.

With the old distribution N(m0, L0 L0') whiten contexts as u = L0^-1 (c - m0) and write the new one by the map that whitens
*its* samples: v = W u + w, W lower triangular with a positive diagonal, so m = m0 - L0 W^-1 w and L = L0 W^-1. The unknown is
Z = [W - I, w], n = k (k + 3) / 2 numbers. Z = 0 is the old distribution, and the 1e6 in condition between a wide old
distribution and a narrow target is gone. In these coordinates

    log p_new(c) - log p_old(c) = (|u|^2 - |v|^2) / 2 + sum log W_jj,
    KL(old || new) = [sum(W_jj^2 - 1 - 2 log W_jj) + sum off(W)^2 + |w|^2] / 2,
    KL(new || q)   = [|R X|^2 - k] / 2 + sum log W_jj + const,   X = [W w; 0 1]^-1,  R = Lq^-1 [L0, m0 - mq],

and with entries (i, j) of Z the second derivative of |R X|^2 / 2 is
S_ii' (X X')_jj' + X_ji' (X S)_j'i + X_j'i (X S)_ji', S = X' R' R X.
The unknown of the solver is y = Z / radius, radius = sqrt(2 max_kl): the trust region is then close to the unit ball.
"""

import functools
from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.solvers.implicit import Constraints, Derivatives, Model, Objective
from spjax.solvers.linalg import solve_lower

KlDirection = Literal["old-new", "new-old"]


@struct.dataclass
class LocalProblem:
    """Minimise -performance_weight P(y) + target_weight KL(y || target), constraints: KL, performance, floors."""

    features: Float[Array, "dim+1 M"]  # columns [u, 1]; zero where masked out
    weights: Float[Array, " M"]  # values / number of contexts; zero where masked out
    to_target: Float[Array, "dim dim+1"]  # R of the target
    performance_weight: Float[Array, ""]
    target_weight: Float[Array, ""]
    max_kl: Float[Array, ""]  # > 0
    radius: Float[Array, ""]  # sqrt(2 max_kl); 0 keeps everything at the old distribution
    slack: Float[Array, ""]  # P(old) - performance_bound
    slack_scale: Float[Array, ""]  # > 0; of order of the change of P over the trust region
    bounded: Bool[Array, ""]  # whether P >= performance_bound is a constraint
    floored: Bool[Array, " dim"]  # whether a dimension has a standard-deviation floor
    caps: Float[Array, " dim"]  # W_jj - 1 <= cap keeps the floor


def layout(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows and columns of Z that the unknowns fill, in order."""
    pairs = [(i, j) for i in range(dim) for j in [*range(i + 1), dim]]
    return np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])


def to_matrix(z: Float[Array, " n"], dim: int) -> Float[Array, "dim dim+1"]:
    """Returns Z = [W - I, w] from its free entries."""
    rows, columns = layout(dim)
    place = np.zeros((rows.size, dim, dim + 1))
    place[np.arange(rows.size), rows, columns] = 1
    return jnp.tensordot(z, jnp.asarray(place, z.dtype), 1)


def inverse(z: Float[Array, "dim dim+1"]) -> Float[Array, "dim+1 dim+1"]:
    """Returns X = [W w; 0 1]^-1 = [T d; 0 1]: the new distribution is m0 + L0 (T u + d), u standard normal."""
    dim = z.shape[0]
    last = jnp.zeros((1, dim + 1), z.dtype).at[0, dim].set(1.0)
    top = solve_lower(z[:, :dim] + jnp.eye(dim, dtype=z.dtype), jnp.eye(dim, dim + 1, dtype=z.dtype) - _last_column(z))
    return jnp.concatenate([top, last])


def performance_gain(problem: LocalProblem, z: Float[Array, "dim dim+1"]) -> Float[Array, ""]:
    """Returns P(new) - P(old), P the importance-weighted mean of the values."""
    return (problem.weights * jnp.expm1(log_ratios(problem, z))).sum()


def log_ratios(problem: LocalProblem, z: Float[Array, "dim dim+1"]) -> Float[Array, " M"]:
    """Returns log p_new(c) - log p_old(c) for every context."""
    dim = z.shape[0]
    shift = z @ problem.features  # v - u
    return jnp.log1p(_diagonal(z)).sum() - (shift * (problem.features[:dim] + 0.5 * shift)).sum(axis=0)


def kl_to_target_gain(problem: LocalProblem, z: Float[Array, "dim dim+1"]) -> Float[Array, ""]:
    """Returns KL(new || target) - KL(old || target)."""
    at_new = problem.to_target @ inverse(z)
    change = -at_new[:, :-1] @ z[:, :-1]  # R X - R, last column below
    change = jnp.concatenate([change, -(at_new[:, :-1] @ z[:, -1:])], axis=1)
    return 0.5 * (change * (2 * problem.to_target + change)).sum() + jnp.log1p(_diagonal(z)).sum()


def kl_from_old(z: Float[Array, "dim dim+1"], direction: KlDirection) -> Float[Array, ""]:
    """Returns KL(old || new) or KL(new || old); >= 0 in any precision."""
    if direction == "new-old":
        z = inverse(z)[:-1] - jnp.eye(z.shape[0], z.shape[1], dtype=z.dtype)
    diagonal = _diagonal(z)
    return 0.5 * (z**2).sum() + _minus_log1p(diagonal).sum()


@functools.cache
def local_functions(dim: int, direction: KlDirection) -> tuple[Objective, Constraints, Derivatives]:
    """Returns objective, constraints (KL, performance, floors) and derivatives of a `LocalProblem` in y."""

    def objective(y: Float[Array, " n"], problem: LocalProblem) -> Float[Array, ""]:
        z = to_matrix(problem.radius * y, dim)
        gain, kl_gain = performance_gain(problem, z), kl_to_target_gain(problem, z)
        return problem.target_weight * kl_gain - problem.performance_weight * gain

    def constraints(y: Float[Array, " n"], problem: LocalProblem) -> Float[Array, " m"]:
        z = to_matrix(problem.radius * y, dim)
        return _constraints(problem, z, performance_gain(problem, z), direction)

    def model(y: Float[Array, " n"], problem: LocalProblem) -> Model:
        return _model(problem, y, dim, direction)

    def hessian(y: Float[Array, " n"], problem: LocalProblem, weights: Float[Array, " m"]) -> Float[Array, "n n"]:
        return _hessian(problem, y, weights, dim, direction)

    return objective, constraints, Derivatives(model, hessian)


def _constraints(
    problem: LocalProblem, z: Float[Array, "dim dim+1"], gain: Float[Array, ""], direction: KlDirection
) -> Float[Array, " m"]:
    excess = kl_from_old(z, direction) / problem.max_kl - 1.0
    shortfall = jnp.where(problem.bounded, -(problem.slack + gain) / problem.slack_scale, -1.0)
    floors = jnp.where(problem.floored, (_diagonal(z) - problem.caps) / _positive(problem.radius), -1.0)
    return jnp.concatenate([excess[None], shortfall[None], floors])


def _model(problem: LocalProblem, y: Float[Array, " n"], dim: int, direction: KlDirection) -> Model:
    rows, columns = layout(dim)
    z = to_matrix(problem.radius * y, dim)
    x = inverse(z)
    logs = _log_gradient(z)

    weighted, scores = _scores(problem, z)
    gain_gradient = scores @ weighted
    at_target = problem.to_target @ x
    target_gradient = logs - (at_target.T @ at_target @ x.T)[rows, columns]
    if direction == "new-old":
        kl_gradient = logs - (x[:-1].T @ x[:-1] @ x.T)[rows, columns]
    else:
        kl_gradient = problem.radius * y + np.where(rows == columns, 1.0, 0.0) - logs

    gain, kl_gain = performance_gain(problem, z), kl_to_target_gain(problem, z)
    value = problem.target_weight * kl_gain - problem.performance_weight * gain
    gradient = problem.target_weight * target_gradient - problem.performance_weight * gain_gradient
    floor_rows = np.where((rows == columns) & (rows == np.arange(dim)[:, None]), 1.0, 0.0)
    jacobian = jnp.concatenate(
        [
            problem.radius * kl_gradient[None] / problem.max_kl,
            jnp.where(problem.bounded, -problem.radius * gain_gradient / problem.slack_scale, 0.0)[None],
            jnp.where(problem.floored[:, None], floor_rows, 0.0).astype(y.dtype),
        ]
    )
    return Model(value, _constraints(problem, z, gain, direction), problem.radius * gradient, jacobian)


def _hessian(
    problem: LocalProblem, y: Float[Array, " n"], weights: Float[Array, " m"], dim: int, direction: KlDirection
) -> Float[Array, "n n"]:
    """Returns the second derivative of objective + weights . constraints."""
    rows, columns = layout(dim)
    same_row = rows[:, None] == rows[None]
    z = to_matrix(problem.radius * y, dim)
    x = inverse(z)
    at_target = problem.to_target @ x
    kl_weight = weights[0] / problem.max_kl
    gain_weight = -problem.performance_weight - jnp.where(problem.bounded, weights[1] / problem.slack_scale, 0.0)

    weighted, scores = _scores(problem, z)
    moments = (problem.features * weighted) @ problem.features.T
    total = (scores * weighted) @ scores.T - jnp.where(same_row, moments[columns][:, columns], 0.0)
    total = gain_weight * total
    log_weight = gain_weight * weighted.sum() + problem.target_weight

    middle = problem.target_weight * (at_target.T @ at_target)
    if direction == "new-old":
        middle += kl_weight * (x[:-1].T @ x[:-1])
        log_weight += kl_weight
    else:
        total += kl_weight * jnp.eye(rows.size, dtype=y.dtype)
        log_weight -= kl_weight
    mixed = x[columns][:, rows] * (x @ middle)[columns][:, rows].T
    total += middle[rows][:, rows] * (x @ x.T)[columns][:, columns] + mixed + mixed.T
    return problem.radius**2 * (total - log_weight * jnp.diag(_log_gradient(z) ** 2))


def _scores(problem: LocalProblem, z: Float[Array, "dim dim+1"]) -> tuple[Float[Array, " M"], Float[Array, "n M"]]:
    """Returns weight times importance ratio, and the gradient of the log ratio, for every context."""
    weighted = problem.weights * jnp.exp(log_ratios(problem, z))
    whitened = problem.features[:-1] + z @ problem.features
    products = [whitened[i] * problem.features[j] for i, j in zip(*layout(z.shape[0]), strict=True)]
    return weighted, _log_gradient(z)[:, None] - jnp.stack(products)


def _log_gradient(z: Float[Array, "dim dim+1"]) -> Float[Array, " n"]:
    """Returns the gradient of sum log W_jj."""
    rows, columns = layout(z.shape[0])
    return jnp.where(rows == columns, 1.0 / (1.0 + z[rows, columns]), 0.0)


def _diagonal(z: Float[Array, "dim dim+1"]) -> Float[Array, " dim"]:
    return jnp.diagonal(z[:, :-1])


def _last_column(z: Float[Array, "dim dim+1"]) -> Float[Array, "dim dim+1"]:
    return jnp.where(jnp.arange(z.shape[1]) == z.shape[0], z, 0.0)


def _positive(x: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(x > 0, x, 1.0)


def _minus_log1p(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Returns x - log(1 + x) >= 0 without cancellation near zero (Taylor series where |x| is small)."""
    small = jnp.abs(x) < 0.01
    near = jnp.where(small, x, 0.0)
    series = near**2 * (1 / 2 - near * (1 / 3 - near * (1 / 4 - near * (1 / 5 - near * (1 / 6 - near / 7)))))
    return jnp.where(small, series, x - jnp.log1p(jnp.where(small, 0.0, x)))
