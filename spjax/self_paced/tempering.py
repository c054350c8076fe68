"""Self-paced learning as tempering: the paths of distributions of Klink et al. (2021), Section 9.3, without a Gaussian family.

Between what the agent can do and the target mu lie two paths, both indexed by alpha:

    mu(c) exp(J(c))^(1 / alpha),                                 Eq. (29), sprl-path-2: what SPL with f_KL samples from;
    p(c | O)^(1 / (1 + alpha)) mu(c)^(alpha / (1 + alpha)),      Eq. (28), sprl-path: the E-step with a penalty alpha KL(. || mu).

The curricula that train keep Gaussians and bound their steps instead; here are the exact distributions, to compare with: on a
grid or on samples from any proposal, and projected onto Gaussians as the M-step does (the maximum-likelihood fit). Everything
is in log densities, finite wherever the arguments are, and differentiable.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from spjax.contexts import Gaussian
from spjax.solvers.linalg import cholesky


def tempered_log_density(
    alpha: ArrayLike, log_target: Float[Array, "*n"], values: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """Returns log mu + J / alpha, nats, not normalised: the log of `kl_weight` with the loss -J.

    Args:
        alpha: > 0, in the unit of the return; the path starts at the best contexts (0) and ends at the target (infinity).
        log_target: log mu(c), nats.
        values: J(omega, c), the expected return in each context.
    """
    return log_target + values / alpha  # Eq. (29), sprl-path-2


def e_step_log_density(
    alpha: ArrayLike, log_target: Float[Array, "*n"], log_posterior: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """Returns the log density, nats, not normalised, that minimises KL(q || posterior) + alpha KL(q || mu).

    Args:
        alpha: >= 0, dimensionless; the path starts at the posterior (0) and ends at the target (infinity).
        log_target: log mu(c), nats.
        log_posterior: log p(c | O, omega, nu) up to a constant, nats, for example log p(c | nu) + J(omega, c).
    """
    return log_posterior / (1 + alpha) + log_target * (
        alpha / (1 + alpha)
    )  # Eq. (28), sprl-path


def normalize_on_grid(
    log_density: Float[Array, " N"], cell: ArrayLike
) -> Float[Array, " N"]:
    """Returns the log density that integrates to 1 over grid points of ``cell`` volume each (context units^dim)."""
    return jax.nn.log_softmax(log_density) - jnp.log(cell)


def self_normalized_weights(
    log_density: Float[Array, " N"], log_proposal: Float[Array, " N"]
) -> Float[Array, " N"]:
    """Returns importance weights, summing to 1, of samples from a proposal; neither density need be normalised."""
    return jax.nn.softmax(log_density - log_proposal)


def project_gaussian(
    contexts: Float[Array, "N dim"], weights: Float[Array, " N"]
) -> tuple[Gaussian, Bool[Array, ""]]:
    """Returns the Gaussian nearest to weighted points in KL(points || Gaussian): their mean and covariance.

    Args:
        contexts: grid points or samples, context units.
        weights: >= 0, sum to 1.

    Returns:
        The M-projection, and whether the covariance is positive definite, up to rounding; where it is not, the factor
        is meaningless.
    """
    mean = weights @ contexts
    shifted = contexts - mean[None]
    chol, positive = cholesky((weights[:, None] * shifted).T @ shifted)
    return Gaussian(mean=mean, chol=chol), positive
