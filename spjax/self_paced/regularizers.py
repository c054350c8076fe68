"""Self-paced regularizers and what they make of a loss: Klink et al. (2021), Sections 3.1 and 4 with Theorem 1.

A regularizer f(alpha, nu) gives a sample of loss l the weight nu*(alpha, l) = argmin_nu nu l + f(alpha, nu), and choosing
weights and model in turn lowers the concave F_alpha(l), the integral of nu* from 0 to l, summed over the samples:

    F'(l) = nu*(l),    min_nu nu l + f(nu) = F(l) + f(nu*(0)),    F(l') <= F(l) + nu*(l) (l' - l).

===========  ==================================  =============================  ===============================
regularizer  penalty f(alpha, nu)                weight nu*(alpha, l)           loss F_alpha(l)
===========  ==================================  =============================  ===============================
binary       -alpha nu                           1 where l < alpha, else 0      min(l, alpha)
KL           alpha nu (log nu - log mu - 1)      mu exp(-l / alpha)             mu alpha (1 - exp(-l / alpha))
===========  ==================================  =============================  ===============================

In reinforcement learning the samples are contexts, l = -J, and mu is the target distribution. With weights that sum to 1,
the KL regularizer is the divergence from the target (Eq. 9); the least value of that objective over the weights is the free
energy G = -alpha log E_mu[exp(-l / alpha)], and the regularised one is alpha (1 - exp(-G / alpha)), which rises with G: so
one scheme lowers both, which is Theorem 1.

Where print is off: Eq. (11) has 1/a for 1/alpha; axiom 3 of the appendix says that weights decrease in alpha, its limits and
both regularizers say that they increase (of losses >= 0); nu <= 1 is asked for, but nu*_KL > 1 where l < alpha log mu.

All functions are differentiable. A weight overflows to infinity where log mu - l / alpha > 88 in float32 (709 in float64), F_KL
to minus infinity, never to NaN; the probabilities and the free energy do not overflow.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

Pointwise = Callable[[ArrayLike, Array], Array]

SERIES_BELOW = 0.3  # |l / alpha|; the next term is 1e-11 of the sum
SERIES = tuple(
    (n - 1) / math.factorial(n) for n in range(10, 1, -1)
)  # of (x exp(x) - exp(x) + 1) / x^2


class Regularizer(NamedTuple):
    """A self-paced regularizer: three functions of alpha > 0 and one number a sample."""

    penalty: Pointwise  # f(alpha, nu)
    weight: Pointwise  # nu*(alpha, l)
    loss: Pointwise  # F_alpha(l)


def binary_penalty(alpha: ArrayLike, weight: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns f_Bin(alpha, nu), of Section 3.1; ``weight`` is in [0, 1]."""
    return -(weight * alpha)


def binary_weight(alpha: ArrayLike, loss: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns nu*_Bin(alpha, l) in {0, 1}; its derivative is 0."""
    return (loss < alpha).astype(loss.dtype)  # Eq. (2), nu-opt


def binary_loss(alpha: ArrayLike, loss: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Returns F_Bin(l), the capped loss; its derivative is `binary_weight`, at l = alpha too."""
    return jnp.where(loss < alpha, loss, alpha)  # Eq. (3), spl-int-form


def kl_penalty(
    alpha: ArrayLike,
    weight: Float[Array, "*n"],
    log_target: Float[Array, "*n"] | float = 0.0,
) -> Float[Array, "*n"]:
    """Returns f_KL(alpha, nu).

    Its derivative alpha (log nu - log mu) falls to minus infinity at nu = 0; there, -alpha is returned in its place.

    Args:
        alpha: > 0, in the unit of the loss.
        weight: nu >= 0.
        log_target: log mu(c = i); minus infinity forbids the sample, so that any weight on it costs infinity.
    """
    return (
        weight * (_log_ratio(weight, log_target) - 1.0) * alpha
    )  # Eq. (10), pspl-kl-regularizer


def kl_weight(
    alpha: ArrayLike,
    loss: Float[Array, "*n"],
    log_target: Float[Array, "*n"] | float = 0.0,
) -> Float[Array, "*n"]:
    """Returns nu*_KL(alpha, l) >= 0, not normalised; arguments as of `kl_penalty`."""
    return jnp.exp(log_target - loss / alpha)  # Eq. (30), sprl-weights


def kl_loss(
    alpha: ArrayLike,
    loss: Float[Array, "*n"],
    log_target: Float[Array, "*n"] | float = 0.0,
) -> Float[Array, "*n"]:
    """Returns F_KL(l) < mu alpha; its derivative is `kl_weight`. Arguments as of `kl_penalty`."""
    return _kl_loss(
        jnp.asarray(alpha, loss.dtype), loss, jnp.asarray(log_target, loss.dtype)
    )


BINARY = Regularizer(binary_penalty, binary_weight, binary_loss)


def kl_regularizer(log_target: Float[Array, "*n"] | float = 0.0) -> Regularizer:
    """Returns f_KL,i of every sample i, which knows log mu(c = i)."""
    functions = (kl_penalty, kl_weight, kl_loss)
    return Regularizer(
        *(functools.partial(function, log_target=log_target) for function in functions)
    )


def spl_objective(
    regularizer: Regularizer,
    alpha: ArrayLike,
    weights: Float[Array, " N"],
    losses: Float[Array, " N"],
) -> Float[Array, ""]:
    """Returns what self-paced learning minimises over weights and model, without the model's own regularisation r."""
    return (
        weights * losses + regularizer.penalty(alpha, weights)
    ).sum()  # Eq. (1), spl-objective


def regularized_objective(
    regularizer: Regularizer, alpha: ArrayLike, losses: Float[Array, " N"]
) -> Float[Array, ""]:
    """Returns what it thereby minimises over the model: sum F(l_i), for f_KL the second objective of Theorem 1."""
    return regularizer.loss(
        alpha, losses
    ).sum()  # Eq. (3), spl-int-form; Eq. (8), self-paced-rl


def majorizer(
    regularizer: Regularizer,
    alpha: ArrayLike,
    losses: Float[Array, " N"],
    current: Float[Array, " N"],
) -> Float[Array, ""]:
    """Returns the tangent at the current losses: nowhere below `regularized_objective`, equal to it there.

    As a function of the losses it is `spl_objective` at the current optimal weights, up to a constant.
    """
    slopes = regularizer.weight(alpha, current)
    return (regularizer.loss(alpha, current) + slopes * (losses - current)).sum()


def probabilistic_objective(
    alpha: ArrayLike,
    probs: Float[Array, " N"],
    losses: Float[Array, " N"],
    log_target: Float[Array, " N"],
) -> Float[Array, ""]:
    """Returns E_p[l] + alpha KL(p || mu), the first objective of Theorem 1.

    It is Eq. (9) with f_KL, plus alpha. ``probs`` and exp(log_target) sum to 1.
    """
    divergence = (probs * _log_ratio(probs, log_target)).sum()
    return (probs * losses).sum() + alpha * divergence  # Eq. (9), pspl-objective


def kl_probabilities(
    alpha: ArrayLike, losses: Float[Array, " N"], log_target: Float[Array, " N"]
) -> Float[Array, " N"]:
    """Returns the distribution that minimises `probabilistic_objective`: `kl_weight` divided by its sum.

    For alpha to 0 the least loss gets all, for alpha to infinity it is the target. Never overflows; ``log_target`` need not
    be normalised.
    """
    _, excess = _above_least(losses, log_target)
    return jax.nn.softmax(log_target - excess / alpha)


def binary_probabilities(losses: Float[Array, " N"]) -> Float[Array, " N"]:
    """Returns the distribution that minimises Eq. (9) with f_Bin: all on the least loss, evenly where several are least.

    Alpha does not matter, so this is not `binary_weight` divided by its sum.
    """
    least = (losses == losses.min()).astype(losses.dtype)
    return least / least.sum()


def free_energy(
    alpha: ArrayLike, losses: Float[Array, " N"], log_target: Float[Array, " N"]
) -> Float[Array, ""]:
    """Returns G = -alpha log E_mu[exp(-l / alpha)], the least value of `probabilistic_objective` over distributions.

    Its derivatives are `kl_probabilities` in the losses and KL(p || mu) of those in alpha. For alpha to 0 it is the least
    loss, for alpha to infinity the mean under the target. Exact for a huge alpha in float32 too, since exp(log_target) is
    taken to sum to 1.
    """
    least, excess = _above_least(losses, log_target)
    exponents = -excess / alpha
    gap = (jnp.exp(log_target) * jnp.expm1(exponents)).sum()  # E[exp(exponents)] - 1
    near = jnp.log1p(jnp.maximum(gap, -0.5))
    far = jax.nn.logsumexp(log_target + exponents)
    return least - alpha * jnp.where(gap > -0.5, near, far)


def _above_least(
    losses: Float[Array, " N"], log_target: Float[Array, " N"]
) -> tuple[Float[Array, ""], Float[Array, " N"]]:
    """Returns the least loss of the samples that the target allows, as a constant, and what theirs are above it."""
    allowed: Bool[Array, " N"] = log_target > -jnp.inf
    least = jax.lax.stop_gradient(jnp.where(allowed, losses, jnp.inf).min())
    return least, jnp.where(allowed, losses - least, 0.0)


def _log_ratio(
    weight: Float[Array, "*n"], log_target: Float[Array, "*n"] | float
) -> Float[Array, "*n"]:
    """Returns log nu - log mu, and 0 where nu = 0."""
    positive = weight > 0
    return jnp.log(jnp.where(positive, weight, 1.0)) - jnp.where(
        positive, log_target, 0.0
    )


@jax.custom_jvp
def _kl_loss(
    alpha: Float[Array, "..."], loss: Float[Array, "*n"], log_target: Array
) -> Float[Array, "*n"]:
    """Returns F_KL without cancellation at small losses; its derivatives below, since autodiff has inf - inf in alpha."""
    exponent, mass = -loss / alpha, jnp.exp(log_target)
    near = mass * jnp.expm1(jnp.minimum(exponent, 1.0))
    far = (
        jnp.exp(log_target + exponent) - mass
    )  # a mass of zero times an infinite exponential would be NaN
    return -alpha * jnp.where(exponent > 1.0, far, near)  # Eq. (11), kl-non-conv-reg


def _kl_loss_tangent(
    primals: tuple[Array, Array, Array], tangents: tuple[Array | SymbolicZero, ...]
) -> tuple[Array, Array]:
    value = _kl_loss(*primals)
    slopes = (_slope_in_alpha(*primals), kl_weight(*primals), value)
    parts = [
        s * t
        for s, t in zip(slopes, tangents, strict=True)
        if not isinstance(t, SymbolicZero)
    ]  # inf * 0 is NaN
    return value, functools.reduce(jnp.add, parts)


_kl_loss.defjvp(_kl_loss_tangent, symbolic_zeros=True)


def _slope_in_alpha(alpha: Array, loss: Array, log_target: Array) -> Array:
    """Returns dF_KL / dalpha = mu (1 + exp(x) (x - 1)) >= 0, x = -l / alpha."""
    exponent, mass = -loss / alpha, jnp.exp(log_target)
    small = jnp.abs(exponent) < SERIES_BELOW
    near = jnp.where(small, exponent, 0.0)
    series = mass * near**2 * jnp.polyval(jnp.asarray(SERIES, loss.dtype), near)
    return jnp.where(
        small, series, mass + kl_weight(alpha, loss, log_target) * (exponent - 1.0)
    )
