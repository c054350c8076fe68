"""Reinforcement learning as inference: the latent-variable model of Klink et al. (2021), Section 9, and its E- and M-step.

An event O is the more probable the higher the return, p(O | tau, c) = exp(R(tau, c)) up to a constant (Eq. 21); trajectories and
contexts are latent. Here both are finite in number, so every step is exact: something to compare with what trains.

With a temperature eta, the unit of the return, an E-step with a penalty maximises over q(tau, c)

    E_q[R] - alpha KL(q(c) || mu(c)) - eta KL(q(tau, c) || p(tau, c | omega, nu)).

At alpha = 0 and eta = 1 that is the E-step proper (Eq. 25), at eta = 1 the modified one (Eq. 27, 28), and as eta goes to 0 what
self-paced learning samples from (Eq. 29). Where the last divergence is bounded by epsilon instead, eta is the multiplier of
the bound, and the step is what the curricula do:

* SPRL's weights (Eq. 16, 17) are this E-step over controllers and contexts, its fit is the M-step;
* a step of SPDL with KL(new || old) <= epsilon (Eq. 19) is it over contexts alone, the policy kept (`fixed_policy`). It has
  no M-step; the published direction KL(old || new) gives another distribution, which differs by less the smaller epsilon is.

`spjax.self_paced.tempering` has the same paths of contexts alone, as densities.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from spjax.solvers.root import bracket_root

EXTREME = (
    27.0  # |log eta| less that of the return's extent, where a search for eta ends
)
TOLERANCE = 1e-13  # of log eta


@struct.dataclass
class LatentVariableModel:
    """p(O, tau, c | omega, nu) over C contexts and T trajectories of each; log probabilities are finite."""

    log_contexts: Float[Array, " C"]  # log p(c | nu), nats
    log_trajectories: Float[Array, "C T"]  # log p(tau | c, omega), nats
    returns: Float[Array, "C T"]  # R(tau, c)

    @property
    def log_joint(self) -> Float[Array, "C T"]:
        """Log p(tau, c | omega, nu), nats."""
        return self.log_contexts[:, None] + self.log_trajectories

    @property
    def expected_returns(self) -> Float[Array, " C"]:
        """J(omega, c)."""
        return (jnp.exp(self.log_trajectories) * self.returns).sum(axis=1)

    @property
    def fixed_policy(self) -> "LatentVariableModel":
        """The same with trajectories that are not to be chosen: one a context, with the expected return."""
        values = self.expected_returns[:, None]
        return LatentVariableModel(self.log_contexts, jnp.zeros_like(values), values)

    def log_likelihoods(self, temperature: ArrayLike = 1.0) -> Float[Array, " C"]:
        """Returns log p(O | c, omega) with returns in units of the temperature, nats; never below the expected return in it."""
        exponents = self.log_trajectories + self.returns / temperature
        return jax.nn.logsumexp(exponents, axis=1)  # Eq. (23)

    def log_evidence(self) -> Float[Array, ""]:
        """Returns log p(O | omega, nu), nats."""
        return jax.nn.logsumexp(self.log_contexts + self.log_likelihoods())  # Eq. (24)


def e_step(
    model: LatentVariableModel,
    log_target: Float[Array, " C"] | None = None,
    *,
    alpha: ArrayLike = 0.0,
    temperature: ArrayLike = 1.0,
) -> Float[Array, "C T"]:
    """Returns log q(tau, c), nats, that maximises `objective`; the posterior p(tau, c | O) where nothing else is said.

    Args:
        model: current contexts and trajectories, and the returns.
        log_target: log mu(c), nats; not needed where alpha is 0.
        alpha: weight of KL(q(c) || mu), >= 0, unit of the return.
        temperature: eta > 0, unit of the return.
    """
    likelihoods = model.log_likelihoods(temperature)
    trajectories = model.log_trajectories + model.returns / temperature
    posterior = model.log_contexts + likelihoods  # of contexts, up to a constant
    pull = 0.0 if log_target is None else alpha * log_target
    contexts = (temperature * posterior + pull) / (alpha + temperature)  # Eq. (28)
    log_contexts = jax.nn.log_softmax(contexts)
    return log_contexts[:, None] + trajectories - likelihoods[:, None]


def m_step(
    model: LatentVariableModel, log_q: Float[Array, "C T"]
) -> LatentVariableModel:
    """Returns the model whose p(tau, c) is q, as tables can be; Gaussians take `tempering.project_gaussian` of q(c)."""
    log_contexts = jax.nn.logsumexp(log_q, axis=1)
    log_trajectories = log_q - log_contexts[:, None]
    # Eq. (26): no table has less KL(q || p) than q itself
    return LatentVariableModel(log_contexts, log_trajectories, model.returns)


def objective(
    model: LatentVariableModel,
    log_q: Float[Array, "C T"],
    log_target: Float[Array, " C"] | None = None,
    *,
    alpha: ArrayLike = 0.0,
    temperature: ArrayLike = 1.0,
) -> Float[Array, ""]:
    """Returns E_q[R] - alpha KL(q(c) || mu) - eta KL(q || p), unit of the return; arguments as of `e_step`.

    At alpha = 0 and eta = 1 it is log p(O) - KL(q || p(tau, c | O)), the bound that expectation-maximization raises.
    """
    expected = (jnp.exp(log_q) * model.returns).sum()
    gained = expected - temperature * divergence(log_q, model.log_joint)
    if log_target is None:
        return gained
    return gained - alpha * divergence(jax.nn.logsumexp(log_q, axis=1), log_target)


def trust_region_e_step(
    model: LatentVariableModel,
    log_target: Float[Array, " C"],
    *,
    alpha: ArrayLike,
    max_kl: ArrayLike,
) -> tuple[Float[Array, "C T"], Float[Array, ""]]:
    """Returns log q(tau, c) that maximises E_q[R] - alpha KL(q(c) || mu) within KL(q || p) <= epsilon, and its temperature.

    The temperature is the bound's multiplier, all but 0 where the bound holds nothing back; to eight digits in float64, and
    without derivatives.

    Args:
        model: current contexts and trajectories, and the returns.
        log_target: log mu(c), nats.
        alpha: >= 0, unit of the return.
        max_kl: epsilon > 0, nats.
    """
    extent = model.returns.max() - model.returns.min()
    scale = jnp.log(jnp.maximum(extent + alpha, jnp.finfo(extent.dtype).tiny))

    def room(log_temperature: Float[Array, ""]) -> Float[Array, ""]:
        log_q = e_step(
            model, log_target, alpha=alpha, temperature=jnp.exp(log_temperature)
        )
        return jnp.asarray(max_kl) - divergence(log_q, model.log_joint)

    found = bracket_root(room, scale - EXTREME, scale + EXTREME, TOLERANCE)
    temperature = jnp.exp(found.high)
    return e_step(model, log_target, alpha=alpha, temperature=temperature), temperature


def divergence(
    log_q: Float[Array, "*n"], log_p: Float[Array, "*n"]
) -> Float[Array, ""]:
    """Returns KL(q || p), nats, of log probabilities."""
    return (jnp.exp(log_q) * (log_q - log_p)).sum()
