"""The KL-regularised weighted maximum-likelihood fit: Klink et al. (2021), appendix "Regularized Policy Updates".

For a multiplier eta of the constraint KL(old || new) <= epsilon, averaged over the buffered contexts, the new policy is

    (A)      A' = [sum_i (w_i + eta / N) phi_i phi_i' + 1e-10 I]^-1 [sum_i phi_i (w_i y_i + eta / N A_old phi_i)']
    (Sigma)  Sigma = (sum_i w_i d_i d_i' + eta (Sigma_old + mean_i D_i D_i')) / (1 + eta)
             with d_i = y_i - A phi_i,  D_i = (A - A_old) phi_i
    (KL)     KL = 1/2 (tr(Sigma^-1 Sigma_old) - D + mean_i D_i' Sigma^-1 D_i + log det Sigma - log det Sigma_old)

and a Gaussian over contexts is the case phi = 1. One eta is shared by all parts; the divergence falls monotonically with it.
The appendix numbers none of them: the names in brackets are ours.

Everything is done in whitened coordinates, L_old^-1 (y - A_old phi): there the old policy is N(0, I), the samples enter by a few
sufficient statistics, and one evaluation of the divergence costs the elimination of a D x D matrix, whatever N is.

The released search for eta stops within 2 % of the bound, on either side, and at eta = 100 (ball-in-a-cup 10) accepts whatever
divergence is left. Here the bound is kept always: the search goes on beyond, and ends at most 0.1 % below the bound. The released
code also adds 1e-10 to the diagonal of the new covariance, which matters only where it is singular; with eta > 0 it is not.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.episodic.policy import LinearGaussian
from spjax.contexts import Gaussian
from spjax.solvers.linalg import cholesky, solve_lower, solve_positive

JITTER = 1e-10
SLACK = 1e-3  # of the bound, that may stay unused
MAX_STEPS = 40


@struct.dataclass
class Fit:
    """What a fit did."""

    kl: Float[Array, ""]  # KL(old || new), nats, of all parts together
    eta: Float[Array, ""]
    moved: Bool[
        Array, ""
    ]  # False where nothing could be fitted: the old distributions are returned
    parts: Float[Array, " part"]  # KL(old || new) of each part, nats


class _Bracket(NamedTuple):
    low: Float[Array, ""]  # largest eta known to violate the bound
    high: Float[Array, ""]  # smallest eta known to satisfy it
    kl_low: Float[Array, ""]
    kl_high: Float[Array, ""]  # infinite while no such eta is known
    steps: Int[Array, ""]


class _Statistics(NamedTuple):
    """Of the samples, in the coordinates in which the old policy is N(0, I)."""

    weighted: Float[Array, "F F"]  # sum_i w_i phi_i phi_i'
    uniform: Float[Array, "F F"]  # mean_i phi_i phi_i'
    cross: Float[Array, "F D"]  # sum_i w_i phi_i z_i'
    second: Float[Array, "D D"]  # sum_i w_i z_i z_i'
    pull: Float[Array, "F D"]  # of the jitter, towards A = 0


class Part(NamedTuple):
    """One of the distributions to fit."""

    old: LinearGaussian
    features: Float[Array, "N F"]
    samples: Float[Array, "N D"]
    weights: Float[Array, " N"]  # >= 0, sum 1


def fit(parts: Sequence[Part], max_kl: ArrayLike) -> tuple[list[LinearGaussian], Fit]:
    """Returns new distributions with KL(old || new) <= max_kl in sum over the parts.

    Args:
        parts: the old distributions, with their samples.
        max_kl: epsilon, nats; 0 keeps the old ones.
    """
    statistics = [_statistics(part) for part in parts]
    olds = [part.old for part in parts]

    def divergence(eta: Float[Array, ""]) -> Float[Array, ""]:
        return sum(
            (_solution(one, eta)[2] for one in statistics), start=jnp.zeros_like(eta)
        )

    max_kl = jnp.asarray(max_kl, olds[0].chol.dtype)
    eta, kl = _smallest_multiplier(divergence, max_kl)
    moved = (kl <= max_kl) & (
        max_kl > 0
    )  # False for NaN, which data that are not finite lead to

    # back from the coordinates in which the old policy is N(0, I)
    news, kls = [], []
    for old, one in zip(olds, statistics, strict=True):
        shift, factor, part_kl = _solution(one, eta)
        news.append(
            LinearGaussian(gain=old.gain + old.chol @ shift.T, chol=old.chol @ factor)
        )
        kls.append(part_kl)

    news = [
        jax.tree.map(lambda a, b: jnp.where(moved, a, b), new, old)
        for new, old in zip(news, olds, strict=True)
    ]
    return news, Fit(
        kl=jnp.where(moved, kl, 0.0),
        eta=jnp.where(moved, eta, jnp.inf),
        moved=moved,
        parts=jnp.where(moved, jnp.stack(kls), 0.0),
    )


def raise_floor(context: Gaussian, std_floor: Float[Array, " dim"]) -> Gaussian:
    """Returns the distribution with its marginal standard deviations raised to the floor, correlations left to shrink.

    What is added to the covariance is a diagonal that is nowhere negative, so it stays positive definite; the covariances
    themselves are kept.
    """
    covariance = context.covariance
    missing = jnp.maximum(0.0, std_floor**2 - jnp.diagonal(covariance))
    factor, positive = cholesky(covariance + jnp.diag(missing))
    raised = positive & (missing > 0).any()
    return dataclasses.replace(context, chol=jnp.where(raised, factor, context.chol))


def _statistics(part: Part) -> _Statistics:
    old, features = part.old, part.features
    whitener = solve_lower(old.chol, jnp.eye(old.chol.shape[0], dtype=old.chol.dtype))

    # z_i = L_old^-1 (y_i - A_old phi_i)
    residuals = (part.samples - old.mean(features)) @ whitener.T
    weighted = part.weights[:, None] * features
    return _Statistics(
        weighted=weighted.T @ features,
        uniform=features.T @ features / features.shape[0],
        cross=weighted.T @ residuals,
        second=(part.weights[:, None] * residuals).T @ residuals,
        pull=JITTER * (whitener @ old.gain).T,
    )


def _solution(
    statistics: _Statistics, eta: Float[Array, ""]
) -> tuple[Float[Array, "F D"], Float[Array, "D D"], Float[Array, ""]]:
    """Returns the change of A', a factor of the covariance and KL(old || new), infinite or NaN where that is singular."""
    # (A), as the change from A_old
    normal = statistics.weighted + eta * statistics.uniform
    identity = jnp.eye(normal.shape[0], dtype=normal.dtype)
    shift = solve_positive(
        normal + JITTER * identity, statistics.cross - statistics.pull
    )

    # mean_i D_i D_i' and sum_i w_i d_i d_i'
    moved = shift.T @ statistics.uniform @ shift
    explained = shift.T @ statistics.cross
    scatter = (
        statistics.second
        - explained
        - explained.T
        + shift.T @ statistics.weighted @ shift
    )

    # (Sigma), with Sigma_old = I
    unit = jnp.eye(scatter.shape[0], dtype=scatter.dtype)
    covariance = (scatter + eta * (unit + moved)) / (1 + eta)
    factor, positive = cholesky(covariance)

    # (KL), with L^-1 for Sigma^-1 = L^-T L^-1
    inverse = solve_lower(factor, unit)
    trace = (inverse**2).sum() + ((inverse @ moved) * inverse).sum()
    kl = 0.5 * (trace - unit.shape[0]) + jnp.log(jnp.diagonal(factor)).sum()
    return shift, factor, jnp.where(positive, kl, jnp.inf)


def _smallest_multiplier(
    divergence: Callable[[Float[Array, ""]], Float[Array, ""]], max_kl: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns an eta that satisfies the bound, the smallest but for the slack, and its divergence.

    Tries 0, then 1, 10, 100, ... until the bound holds, then narrows the bracket.
    """
    aim = (
        1 - 0.5 * SLACK
    ) * max_kl  # a little inside, so that the upper end of the bracket moves too

    def unfinished(bracket: _Bracket) -> Bool[Array, ""]:
        tight = (bracket.kl_high >= (1 - SLACK) * max_kl) | (bracket.high == 0)
        return ~(tight & (bracket.kl_high <= max_kl)) & (bracket.steps < MAX_STEPS)

    def narrow(bracket: _Bracket) -> _Bracket:
        # log KL is almost linear in log(1 + eta); every third step halves the bracket whatever happens
        share = jnp.log(bracket.kl_low / aim) / jnp.log(
            bracket.kl_low / bracket.kl_high
        )
        trusted = (
            (share > 0.01) & (share < 0.99) & (bracket.steps % 3 != 2)
        )  # False for NaN
        low, high = jnp.log1p(bracket.low), jnp.log1p(bracket.high)
        inside = jnp.expm1(low + jnp.where(trusted, share, 0.5) * (high - low))

        # while no eta is known to satisfy the bound: 0, 1, 10, 100, ...
        beyond = jnp.where(bracket.steps == 0, 0.0, jnp.maximum(1.0, 10 * bracket.low))
        eta = jnp.where(bracket.kl_high <= max_kl, inside, beyond)

        kl = divergence(eta)
        enough = kl <= max_kl  # False for NaN
        return _Bracket(
            low=jnp.where(enough, bracket.low, eta),
            high=jnp.where(enough, eta, bracket.high),
            kl_low=jnp.where(enough, bracket.kl_low, kl),
            kl_high=jnp.where(enough, kl, bracket.kl_high),
            steps=bracket.steps + 1,
        )

    # "like" the bound, so that under shard_map they vary over devices as it does
    zero, infinite = jnp.zeros_like(max_kl), jnp.full_like(max_kl, jnp.inf)
    blank = _Bracket(zero, zero, infinite, infinite, jnp.zeros_like(max_kl, jnp.int32))
    bracket = lax.while_loop(unfinished, narrow, blank)
    return bracket.high, bracket.kl_high
