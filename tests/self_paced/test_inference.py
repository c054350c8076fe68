"""The E- and M-step against Bayes' rule and their definitions, and what trains against them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from spjax.agents.episodic.dual import sprl_weights
from spjax.agents.episodic.fit import Part, fit
from spjax.agents.episodic.policy import LinearGaussian
from spjax.contexts import Discrete, Gaussian
from spjax.self_paced import update_context
from spjax.self_paced.inference import (
    LatentVariableModel,
    divergence,
    e_step,
    m_step,
    objective,
    trust_region_e_step,
)
from spjax.self_paced.tempering import (
    e_step_log_density,
    project_gaussian,
    tempered_log_density,
)

COUNTS = np.array([1, 3, 2, 4, 2])  # of draws of each context: shares of twelve


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def log_shares(rng, *shape):
    return jnp.asarray(np.log(rng.dirichlet(np.ones(shape[-1]), shape[:-1])))


def model_of(seed=0, contexts=5, trajectories=4):
    """Returns a random model and the log density of a target."""
    rng = np.random.default_rng(seed)
    returns = jnp.asarray(3.0 + 2.0 * rng.normal(size=(contexts, trajectories)))
    log_contexts, log_target = log_shares(rng, contexts), log_shares(rng, contexts)
    trajectories = log_shares(rng, contexts, trajectories)
    return LatentVariableModel(log_contexts, trajectories, returns), log_target


def parts(log_q):
    """Returns q(c) and q(tau | c)."""
    contexts = np.exp(log_q).sum(axis=1)
    return contexts, np.exp(log_q) / contexts[:, None]


def test_the_e_step_is_bayes_rule_and_the_objective_the_evidence_less_a_divergence():
    model, _ = model_of()
    joint = np.exp(np.asarray(model.log_joint) + np.asarray(model.returns))
    posterior = joint / joint.sum()
    np.testing.assert_allclose(np.exp(e_step(model)), posterior, rtol=1e-12)
    np.testing.assert_allclose(model.log_evidence(), np.log(joint.sum()), rtol=1e-12)

    other = log_shares(np.random.default_rng(1), 20).reshape(5, 4)
    lost = divergence(other, jnp.log(posterior))
    np.testing.assert_allclose(
        objective(model, other), model.log_evidence() - lost, rtol=1e-12
    )


def test_what_another_distribution_loses_are_two_divergences_from_the_e_step():
    model, log_target = model_of()
    weights = {"alpha": 0.7, "temperature": 1.9}
    best = e_step(model, log_target, **weights)
    other = log_shares(np.random.default_rng(2), 20).reshape(5, 4)
    lost = objective(model, best, log_target, **weights) - objective(
        model, other, log_target, **weights
    )
    (of_best, given_best), (of_other, given_other) = parts(best), parts(other)
    of_contexts = (of_other * np.log(of_other / of_best)).sum()
    of_trajectories = (np.exp(other) * np.log(given_other / given_best)).sum()
    np.testing.assert_allclose(
        lost, (0.7 + 1.9) * of_contexts + 1.9 * of_trajectories, rtol=1e-10
    )


def test_with_the_policy_kept_the_e_step_is_the_tempered_posterior():
    model, log_target = model_of()
    kept = model.fixed_policy
    posterior = model.log_contexts + model.expected_returns
    for alpha in (0.0, 0.6, 30.0):
        path = jax.nn.softmax(e_step_log_density(alpha, log_target, posterior))
        found = np.exp(e_step(kept, log_target, alpha=alpha))[:, 0]
        np.testing.assert_allclose(found, path, rtol=1e-12)
    cold = np.exp(e_step(kept, log_target, alpha=0.6, temperature=1e-9))[:, 0]
    sampled = tempered_log_density(0.6, log_target, model.expected_returns)
    np.testing.assert_allclose(cold, jax.nn.softmax(sampled), rtol=1e-6)
    assert (model.log_likelihoods() > model.expected_returns).all()  # Jensen


def test_expectation_maximization_never_lowers_the_evidence():
    model, _ = model_of()
    evidences = [float(model.log_evidence())]
    for _ in range(8):
        log_q = e_step(model)
        model = m_step(model, log_q)
        np.testing.assert_allclose(model.log_joint, log_q, atol=1e-12)
        evidences.append(float(model.log_evidence()))
    assert (np.diff(evidences) > 0).all()
    assert evidences[-1] == pytest.approx(float(model.returns.max()), abs=0.1)


def reference(log_old, log_target, values, alpha, max_kl):
    """Returns the constrained step over contexts and its multiplier, by SciPy."""

    def at(eta):
        logits = (values + alpha * log_target + eta * log_old) / (alpha + eta)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    def excess(log_eta):
        q = at(np.exp(log_eta))
        return (q * (np.log(q) - log_old)).sum() - max_kl

    eta = np.exp(optimize.brentq(excess, -5.0, 10.0, xtol=1e-14))
    return at(eta), eta


def spdl_problem():
    rng = np.random.default_rng(3)
    table = np.arange(5.0)[:, None]
    values = rng.normal(size=5)
    return table, values, rng.dirichlet(np.ones(5))


def spdl_step(alpha, max_kl, kl_direction="new-old"):
    """Returns the weights after an update with draws in the very shares of the old distribution, and its record."""
    table, values, target = spdl_problem()
    rows = np.repeat(np.arange(5), COUNTS)
    new, record = update_context(
        Discrete.from_weights(table, COUNTS),
        Discrete.from_weights(table, target),
        jnp.asarray(table[rows]),
        jnp.asarray(values[rows]),
        jnp.ones(len(rows), bool),
        alpha=alpha,
        max_kl=max_kl,
        kl_direction=kl_direction,
    )
    return np.asarray(new.probs), record


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "max_kl"), [(0.0, 0.02), (0.4, 0.05), (3.0, 0.01)])
def test_a_step_of_spdl_is_the_e_step_whose_temperature_is_the_price_of_epsilon(
    alpha, max_kl
):
    _, values, target = spdl_problem()
    log_old, log_target = np.log(COUNTS / COUNTS.sum()), np.log(target)
    expected, eta = reference(log_old, log_target, values, alpha, max_kl)

    model = LatentVariableModel(
        jnp.asarray(log_old), jnp.zeros((5, 1)), jnp.asarray(values)[:, None]
    )
    log_q, temperature = trust_region_e_step(
        model, jnp.asarray(log_target), alpha=alpha, max_kl=max_kl
    )
    np.testing.assert_allclose(np.exp(log_q)[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(temperature, eta, rtol=1e-8)

    weights, record = spdl_step(alpha, max_kl)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(record.kl_price, eta, rtol=1e-4)


@pytest.mark.slow
def test_a_step_of_spdl_that_epsilon_does_not_hold_is_the_tempered_target():
    _, values, target = spdl_problem()
    path = tempered_log_density(2.0, jnp.log(target), jnp.asarray(values))
    weights, record = spdl_step(2.0, 50.0)
    np.testing.assert_allclose(weights, jax.nn.softmax(path), atol=1e-6)
    np.testing.assert_allclose(record.kl_price, 0.0, atol=1e-6)


@pytest.mark.slow
def test_the_published_direction_is_another_step_that_differs_by_less_the_smaller_it_is():
    _, values, target = spdl_problem()
    log_old, log_target = np.log(COUNTS / COUNTS.sum()), np.log(target)
    shares = []
    for max_kl in (0.04, 0.0004):
        weights, _ = spdl_step(0.4, max_kl, "old-new")
        expected, _ = reference(log_old, log_target, values, 0.4, max_kl)
        step = np.abs(expected - np.exp(log_old)).max()
        shares.append(np.abs(weights - expected).max() / step)
    assert shares[0] > 1e-3  # not the same
    assert shares[1] == pytest.approx(shares[0] / 10, rel=0.3)  # as the root of epsilon


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 4.0])
def test_the_weights_of_sprl_are_the_e_step_over_controllers_and_contexts(alpha):
    model, log_target = model_of(seed=4)
    uniform = LatentVariableModel(  # every pair drawn once
        jnp.full(5, -np.log(5.0)), jnp.full((5, 4), -np.log(4.0)), model.returns
    )
    log_q, temperature = trust_region_e_step(
        uniform, log_target, alpha=alpha, max_kl=0.3
    )
    np.testing.assert_allclose(divergence(log_q, uniform.log_joint), 0.3, rtol=1e-9)

    weights = jax.jit(
        lambda rewards, features, ratios: sprl_weights(
            rewards, features, ratios, alpha=alpha, max_kl=0.3, ridge=1e-12
        )
    )(
        uniform.returns.ravel(),
        jnp.repeat(jnp.eye(5), 4, axis=0),
        jnp.repeat(log_target - uniform.log_contexts, 4),
    )
    of_contexts = np.asarray(weights.context).reshape(5, 4).sum(axis=1)
    np.testing.assert_allclose(weights.policy, np.exp(log_q).ravel(), atol=1e-6)
    np.testing.assert_allclose(of_contexts, parts(log_q)[0], atol=1e-6)
    np.testing.assert_allclose(
        weights.minimiser.temperatures, [temperature, alpha], rtol=1e-4
    )

    # and with returns in units of that temperature it is the modified E-step
    scaled = uniform.replace(returns=uniform.returns / temperature)
    same = e_step(scaled, log_target, alpha=alpha / temperature)
    np.testing.assert_allclose(same, log_q, atol=1e-9)


@pytest.mark.slow
def test_the_fit_of_sprl_that_epsilon_does_not_hold_is_the_m_step():
    rng = np.random.default_rng(5)
    contexts = jnp.asarray(rng.normal(size=(6, 2)))
    weights = jnp.asarray(rng.dirichlet(np.ones(6)))
    old = Gaussian.from_std([0.0, 0.0], [1.0, 2.0])
    part = Part(LinearGaussian.from_gaussian(old), jnp.ones((6, 1)), contexts, weights)
    (fitted,), _ = jax.jit(lambda part: fit([part], 1e6))(part)
    expected, positive = project_gaussian(contexts, weights)
    assert positive
    np.testing.assert_allclose(fitted.gain[:, 0], expected.mean, atol=1e-6)
    np.testing.assert_allclose(
        fitted.chol @ fitted.chol.T, expected.covariance, atol=1e-6
    )
