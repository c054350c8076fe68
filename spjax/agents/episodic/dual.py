"""The duals of C-REPS and SPRL, minimised inside the compiled program: Klink et al. (2021), Eq. (18), sprl_dual.

Both are instances of one convex problem. With the value function V_i = chi . phi(c_i) at the N samples,

    minimise over chi and temperatures t_k >= floor_k
        sum_k t_k (epsilon + log mean_i exp(E_ki / t_k))  +  linear . chi  +  ridge |chi|^2,    E_k = offset_k + sign_k V

* C-REPS has one row: E = r - V, t = eta, and ``linear`` is the mean feature of the target contexts;
* SPRL has two: E = r - V, t = eta for the policy weights, and E = V + alpha log(mu / p), t = alpha + eta~ for the contexts.

At alpha = 0 the constraint on the contexts is not active (the policy's implies it) and eta~ ends at its floor: the context
weights are then those closest to uniform that have the policy weights' mean features. The released code bounds eta and eta~ by
1e-10 and hands the dual to L-BFGS-B, which stops on the way there. Here the floor is 1e-6 of the rewards' spread (in single
precision the square root of its epsilon), so the minimiser is equivariant to shift and scale of the rewards, given that alpha
and 1 / ridge scale along. Not differentiable; differentiate the fit with the weights held fixed.
"""

import dataclasses

import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from spjax.agents.episodic.dual_solver import Problem, minimise
from spjax.solvers.augmented_lagrangian import Result

LOWEST = 1e12  # offsets are clipped to +- this many spreads


@struct.dataclass
class Minimiser:
    """Where a dual is smallest; the start of the next, similar problem."""

    chi: Float[Array, " F"]  # reward units
    temperatures: Float[Array, " K"]  # eta [and alpha + eta~], reward units


@struct.dataclass
class Weights:
    """The minimum of a dual; weights are >= 0 with sum 1, and uniform where an input is not finite."""

    policy: Float[Array, " N"]
    context: Float[Array, " N"]  # of C-REPS uniform
    minimiser: Minimiser
    value: Float[Array, ""]  # of the dual, reward units
    kl: Float[
        Array, " K"
    ]  # nats, of each row's weights from uniform ones; at most epsilon
    trips: Int[Array, ""]
    result: Int[Array, ""]  # a `Result`


def creps_weights(
    rewards: Float[Array, " N"],
    features: Float[Array, "N F"],
    mean_features: Float[Array, " F"],
    *,
    max_kl: ArrayLike,
    ridge: ArrayLike = 1e-5,
    start: Minimiser | None = None,
) -> Weights:
    """Returns the weights of C-REPS.

    Args:
        rewards: of the samples.
        features: value features of the samples' contexts.
        mean_features: value features averaged over the target contexts.
        max_kl: epsilon > 0, nats.
        ridge: of |chi|^2, 1 / reward unit.
        start: minimiser of a similar problem; the result does not depend on it.
    """
    offsets = rewards[None]  # r - V: Eq. (16), episodic-pol-update
    signs, bases = -jnp.ones(1, rewards.dtype), jnp.zeros(1, rewards.dtype)
    rows = (offsets, signs, bases)
    return _minimum(rows, features, mean_features, max_kl, ridge, start)


def sprl_weights(
    rewards: Float[Array, " N"],
    features: Float[Array, "N F"],
    log_ratios: Float[Array, " N"],
    *,
    alpha: ArrayLike,
    max_kl: ArrayLike,
    ridge: ArrayLike = 1e-5,
    start: Minimiser | None = None,
) -> Weights:
    """Returns the weights of SPRL.

    Args:
        rewards: of the samples.
        features: value features of the samples' contexts.
        log_ratios: log mu(c_i) - log p(c_i | nu), of target and current context density.
        alpha: weight of the KL divergence to the target, >= 0, reward units.
        max_kl: epsilon > 0, nats.
        ridge: of |chi|^2, 1 / reward unit.
        start: minimiser of a similar problem; the result does not depend on it.
    """
    alpha = jnp.asarray(alpha, rewards.dtype)

    # r - V, with eta >= 0: Eq. (16), episodic-pol-update
    # V + alpha log(mu / p), with alpha + eta~ >= alpha: Eq. (17), episodic-con-update
    offsets = jnp.stack([rewards, alpha * log_ratios])
    signs = jnp.array([-1.0, 1.0], rewards.dtype)
    bases = jnp.stack([jnp.zeros_like(alpha), alpha])

    rows = (offsets, signs, bases)
    weights = _minimum(
        rows, features, jnp.zeros_like(features[0]), max_kl, ridge, start
    )

    # Eq. (18) has eta~ epsilon, the solver (alpha + eta~) epsilon
    return dataclasses.replace(weights, value=weights.value - alpha * max_kl)


def reward_spread(rewards: Float[Array, " N"]) -> Float[Array, ""]:
    """Returns a scale of the rewards that a tenth of them, however low, cannot dominate; 1 where all are equal."""
    top = rewards.max()
    spread = top - jnp.quantile(rewards, 0.1)
    spread = jnp.where(spread > 0, spread, top - rewards.min())
    return jnp.where(spread > 0, spread, 1.0)


def _minimum(
    rows: tuple[
        Array, Array, Array
    ],  # offsets, signs, least temperatures; the first row is r - V
    features: Float[Array, "N F"],
    linear: Float[Array, " F"],
    max_kl: ArrayLike,
    ridge: ArrayLike,
    start: Minimiser | None,
) -> Weights:
    """Minimises in units of the spread and relative to the best reward, where rounding does least."""
    offsets, signs, bases = rows
    best, spread = offsets[0].max(), reward_spread(offsets[0])

    # rewards alone are shifted; V takes up the rest
    shifts = jnp.zeros_like(bases).at[0].set(best)
    shifted = (offsets - shifts[:, None]) / spread
    least = max(
        1e-6, float(jnp.finfo(offsets.dtype).eps) ** 0.5
    )  # a temperature of 0 is none
    problem = Problem(
        offsets=shifted,
        signs=signs,
        floors=bases / spread + least,
        features=features.T,
        linear=linear,
        max_kl=jnp.asarray(max_kl, offsets.dtype),
        ridge=jnp.asarray(ridge, offsets.dtype) * spread,
    )
    finite = jnp.stack([jnp.isfinite(part).all() for part in problem]).all()
    problem = problem._replace(offsets=jnp.clip(problem.offsets, -LOWEST, LOWEST))

    minimum = minimise(problem, *_start(problem, spread, start))

    weights = jnp.where(finite, minimum.rows.weights, 1.0 / offsets.shape[1])
    result = jnp.where(minimum.converged, Result.CONVERGED, Result.ITERATION_LIMIT)
    return Weights(
        policy=weights[0],
        context=weights[1]
        if len(weights) > 1
        else jnp.full_like(weights[0], 1.0 / weights.shape[1]),
        minimiser=Minimiser(
            chi=jnp.where(finite, spread * minimum.chi, 0.0),
            temperatures=jnp.where(finite, spread * minimum.rows.temperatures, 1.0),
        ),
        value=jnp.where(finite, best + spread * minimum.value, 0.0),
        kl=jnp.where(finite, minimum.rows.kl, 0.0),
        trips=minimum.trips,
        result=jnp.where(finite, result, Result.NOT_FINITE).astype(jnp.int32),
    )


def _start(
    problem: Problem, spread: Float[Array, ""], start: Minimiser | None
) -> tuple[Array, Array]:
    """Returns chi and temperatures to begin with, in units of the spread."""
    chi, temperatures = jnp.zeros_like(problem.linear), jnp.ones_like(problem.signs)
    if start is None:
        return chi, temperatures

    given_chi, given_temperatures = start.chi / spread, start.temperatures / spread
    finite = jnp.isfinite(given_chi).all() & jnp.isfinite(given_temperatures).all()
    usable = finite & (given_temperatures > 0).all()
    return jnp.where(usable, given_chi, chi), jnp.where(
        usable, given_temperatures, temperatures
    )
