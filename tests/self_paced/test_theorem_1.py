"""Theorem 1: choosing weights and model in turn is a majorise-minimise scheme on the regularised objective."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.self_paced.regularizers import (
    BINARY,
    free_energy,
    kl_loss,
    kl_probabilities,
    kl_regularizer,
    kl_weight,
    majorizer,
    probabilistic_objective,
    regularized_objective,
    spl_objective,
)

COUNT = 40
INPUTS = np.linspace(-1.0, 1.0, COUNT)
OUTPUTS = np.where(
    np.arange(COUNT) % 4 == 0, 4.0 - 6.0 * INPUTS, 0.5 + 2.0 * INPUTS
)  # a quarter follows another line
TARGET = np.exp(-np.abs(INPUTS)) / np.exp(-np.abs(INPUTS)).sum()
LOG_TARGET = np.log(TARGET)
ALPHA = 0.8
START = np.array([1.5, 0.0])


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def losses(model):
    """Squared errors of the line model[0] + model[1] x, minus 0.3: losses may be negative, as -J is."""
    return (jnp.asarray(OUTPUTS) - model[0] - model[1] * jnp.asarray(INPUTS)) ** 2 - 0.3


def fit(weights):
    """The line that minimises the weighted losses."""
    root = np.sqrt(np.asarray(weights))
    design = np.stack([np.ones(COUNT), INPUTS], axis=1)
    return np.linalg.lstsq(design * root[:, None], OUTPUTS * root, rcond=None)[0]


def alternate(weigh, steps=60):
    """The models of the scheme: weights for the current losses, then the best line for these weights."""
    models = [START]
    for _ in range(steps):
        models.append(fit(weigh(losses(models[-1]))))
    return models


def kl():
    return kl_regularizer(jnp.asarray(LOG_TARGET))


@pytest.mark.parametrize("regularizer", [lambda: BINARY, kl])
def test_the_scheme_never_increases_the_regularised_objective(regularizer):
    regularizer = regularizer()
    models = alternate(lambda now: regularizer.weight(ALPHA, now))
    values = np.array(
        [regularized_objective(regularizer, ALPHA, losses(model)) for model in models]
    )
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < values[0] - 0.1


def test_it_ends_at_a_stationary_point_that_ignores_the_outliers():
    end = alternate(
        lambda now: kl_weight(ALPHA, now, jnp.asarray(LOG_TARGET)), steps=300
    )[-1]
    slope = jax.grad(lambda model: regularized_objective(kl(), ALPHA, losses(model)))(
        jnp.asarray(end)
    )
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)
    least_squares = fit(TARGET)
    assert (
        np.abs(end - [0.5, 2.0]).max() < 0.15 < np.abs(least_squares - [0.5, 2.0]).max()
    )


@pytest.mark.parametrize("regularizer", [lambda: BINARY, kl])
def test_the_tangent_majorises_the_regularised_objective_and_touches_it(regularizer):
    regularizer = regularizer()
    rng = np.random.default_rng(0)
    for current, other in rng.normal([0.5, 1.0], 3.0, (50, 2, 2)):
        here, there = losses(current), losses(other)
        value = regularized_objective(regularizer, ALPHA, there)
        assert majorizer(regularizer, ALPHA, there, here) >= value - 1e-12 * abs(value)
        touching = majorizer(regularizer, ALPHA, here, here)
        np.testing.assert_allclose(
            touching, regularized_objective(regularizer, ALPHA, here), rtol=1e-13
        )


def test_the_tangent_has_the_slope_of_the_objective_where_it_touches():
    start = jnp.asarray(START)
    slope = jax.grad(
        lambda model: majorizer(kl(), ALPHA, losses(model), losses(start))
    )(start)
    exact = jax.grad(lambda model: regularized_objective(kl(), ALPHA, losses(model)))(
        start
    )
    np.testing.assert_allclose(slope, exact, rtol=1e-12)


@pytest.mark.parametrize("regularizer", [lambda: BINARY, kl])
def test_the_tangent_is_the_self_paced_objective_up_to_a_constant(regularizer):
    regularizer = regularizer()
    here = losses(START)
    weights = regularizer.weight(ALPHA, here)
    constant = regularizer.penalty(
        ALPHA, regularizer.weight(ALPHA, jnp.zeros(COUNT))
    ).sum()
    for model in np.random.default_rng(1).normal(size=(5, 2)):
        tangent = majorizer(regularizer, ALPHA, losses(model), here)
        objective = spl_objective(regularizer, ALPHA, weights, losses(model))
        np.testing.assert_allclose(tangent, objective - constant, rtol=1e-11)


def test_normalised_weights_lead_to_the_same_models():
    log_target = jnp.asarray(LOG_TARGET)
    alone = alternate(lambda now: kl_weight(ALPHA, now, log_target))
    coupled = alternate(lambda now: kl_probabilities(ALPHA, now, log_target))
    np.testing.assert_allclose(coupled, alone, rtol=1e-9, atol=1e-9)


def test_the_probabilistic_objective_falls_with_every_half_step():
    log_target, model = jnp.asarray(LOG_TARGET), START
    probs, values = jnp.asarray(TARGET), []
    for _ in range(20):
        values.append(probabilistic_objective(ALPHA, probs, losses(model), log_target))
        probs = kl_probabilities(ALPHA, losses(model), log_target)
        values.append(probabilistic_objective(ALPHA, probs, losses(model), log_target))
        model = fit(probs)
    assert (np.diff(values) <= 1e-13).all()
    assert values[1] < values[0] - 0.1
    assert values[2] < values[1] - 0.1


def test_it_majorises_the_free_energy_of_which_the_regularised_objective_is_a_rising_function():
    log_target = jnp.asarray(LOG_TARGET)
    probs = kl_probabilities(ALPHA, losses(START), log_target)
    at_start = free_energy(ALPHA, losses(START), log_target)
    np.testing.assert_allclose(
        probabilistic_objective(ALPHA, probs, losses(START), log_target),
        at_start,
        rtol=1e-12,
    )
    for model in np.random.default_rng(2).normal([0.5, 1.0], 2.0, (20, 2)):
        energy = free_energy(ALPHA, losses(model), log_target)
        assert (
            probabilistic_objective(ALPHA, probs, losses(model), log_target) >= energy
        )
        expected = (
            jnp.asarray(TARGET) * kl_loss(ALPHA, losses(model))
        ).sum()  # E_mu[alpha (1 - exp(-l / alpha))]
        np.testing.assert_allclose(
            regularized_objective(kl(), ALPHA, losses(model)), expected, rtol=1e-12
        )
        np.testing.assert_allclose(
            ALPHA * (1 - jnp.exp(-energy / ALPHA)), expected, rtol=1e-11
        )


def test_penalties_of_a_distribution_are_its_divergence_from_the_target():
    probs = jnp.asarray(np.random.default_rng(3).dirichlet(np.ones(COUNT)))
    divergence = (probs * (jnp.log(probs) - jnp.asarray(LOG_TARGET))).sum()
    penalties = kl().penalty(ALPHA, probs).sum()
    np.testing.assert_allclose(penalties, ALPHA * divergence - ALPHA, rtol=1e-12)
    objective = probabilistic_objective(
        ALPHA, probs, losses(START), jnp.asarray(LOG_TARGET)
    )
    np.testing.assert_allclose(
        objective, spl_objective(kl(), ALPHA, probs, losses(START)) + ALPHA, rtol=1e-12
    )
