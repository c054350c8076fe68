"""The two tempered paths against closed forms, on a grid and on samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.self_paced.regularizers import (
    kl_probabilities,
    kl_weight,
    probabilistic_objective,
)
from spjax.self_paced.tempering import (
    e_step_log_density,
    normalize_on_grid,
    project_gaussian,
    self_normalized_weights,
    tempered_log_density,
)

CELL = 0.01
GRID = np.arange(-14.0, 20.0, CELL)
TARGET_MEAN, TARGET_STD = 4.0, 0.8
BEST, CURVATURE = -1.0, 0.5  # J(c) = 3 - curvature / 2 (c - best)^2


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def gaussian_log_density(mean, std):
    return (
        -0.5 * ((jnp.asarray(GRID) - mean) / std) ** 2
        - jnp.log(std)
        - 0.5 * jnp.log(2 * jnp.pi)
    )


def values():
    return 3.0 - 0.5 * CURVATURE * (jnp.asarray(GRID) - BEST) ** 2


def projected(log_density):
    fitted, positive = project_gaussian(
        jnp.asarray(GRID)[:, None],
        self_normalized_weights(log_density, jnp.zeros_like(log_density)),
    )
    assert positive
    return float(fitted.mean[0]), float(fitted.chol[0, 0])


@pytest.mark.parametrize("alpha", [0.1, 1.0, 20.0])
def test_a_quadratic_return_and_a_gaussian_target_give_the_tilted_gaussian(alpha):
    precision = 1 / TARGET_STD**2 + CURVATURE / alpha
    mean = (TARGET_MEAN / TARGET_STD**2 + CURVATURE * BEST / alpha) / precision
    log_density = tempered_log_density(
        alpha, gaussian_log_density(TARGET_MEAN, TARGET_STD), values()
    )
    np.testing.assert_allclose(
        projected(log_density), (mean, precision**-0.5), rtol=1e-9
    )
    np.testing.assert_allclose(
        normalize_on_grid(log_density, CELL),
        gaussian_log_density(mean, precision**-0.5),
        rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("alpha", [0.0, 0.25, 3.0])
def test_the_e_step_between_two_gaussians_interpolates_their_natural_parameters(alpha):
    share = 1 / (1 + alpha)
    precision = share / 1.5**2 + (1 - share) / TARGET_STD**2
    mean = (
        share * BEST / 1.5**2 + (1 - share) * TARGET_MEAN / TARGET_STD**2
    ) / precision
    posterior = 7.0 + gaussian_log_density(BEST, 1.5)  # known up to a constant
    log_density = e_step_log_density(
        alpha, gaussian_log_density(TARGET_MEAN, TARGET_STD), posterior
    )
    np.testing.assert_allclose(
        projected(log_density), (mean, precision**-0.5), rtol=1e-9
    )


def test_the_e_step_minimises_the_two_divergences_that_it_weighs():
    rng = np.random.default_rng(0)
    posterior, target, other = (
        jnp.asarray(rng.dirichlet(np.ones(8))) for _ in range(3)
    )

    def objective(q):
        divergences = [
            (q * (jnp.log(q) - jnp.log(p))).sum() for p in (posterior, target)
        ]
        return divergences[0] + 0.6 * divergences[1]

    best = jax.nn.softmax(e_step_log_density(0.6, jnp.log(target), jnp.log(posterior)))
    excess = 1.6 * (other * (jnp.log(other) - jnp.log(best))).sum()
    np.testing.assert_allclose(objective(other) - objective(best), excess, rtol=1e-10)


def test_the_self_paced_path_is_that_of_the_kl_weights():
    rng = np.random.default_rng(1)
    returns, log_target = (
        jnp.asarray(rng.normal(size=8)),
        jnp.asarray(np.log(rng.dirichlet(np.ones(8)))),
    )
    log_density = tempered_log_density(0.4, log_target, returns)
    np.testing.assert_allclose(
        jnp.exp(log_density), kl_weight(0.4, -returns, log_target), rtol=1e-12
    )
    np.testing.assert_allclose(
        jax.nn.softmax(log_density),
        kl_probabilities(0.4, -returns, log_target),
        rtol=1e-12,
    )


def test_the_return_and_the_divergence_from_the_target_fall_as_alpha_rises():
    rng = np.random.default_rng(2)
    returns, log_target = (
        jnp.asarray(rng.normal(size=8)),
        jnp.asarray(np.log(rng.dirichlet(np.ones(8)))),
    )
    paths = [
        jax.nn.softmax(tempered_log_density(alpha, log_target, returns))
        for alpha in np.logspace(-2, 3, 40)
    ]
    divergences = [
        probabilistic_objective(1.0, probs, jnp.zeros(8), log_target) for probs in paths
    ]
    assert (np.diff(divergences) < 1e-15).all()
    assert (np.diff([(probs * returns).sum() for probs in paths]) < 1e-15).all()
    np.testing.assert_allclose(
        divergences[0], -log_target[jnp.argmax(returns)], rtol=1e-6
    )
    np.testing.assert_allclose(divergences[-1], 0.0, atol=1e-5)


@pytest.mark.slow
def test_samples_of_another_distribution_find_the_same_projection(key):
    alpha, proposal = 0.7, Gaussian.from_std([1.0, 0.0], [3.0, 2.0])
    target = Gaussian.from_std([2.0, -1.0], [1.0, 0.5])
    contexts = jax.vmap(proposal.sample)(jax.random.split(key, 40_000))
    returns = (
        contexts[:, 0] * 0.7 - 2.0 * contexts[:, 1]
    )  # tilts a Gaussian: its mean moves by std^2 slope / alpha
    log_density = tempered_log_density(
        alpha, jax.vmap(target.log_prob)(contexts), returns
    )
    fitted, positive = project_gaussian(
        contexts,
        self_normalized_weights(log_density, jax.vmap(proposal.log_prob)(contexts)),
    )
    assert positive
    np.testing.assert_allclose(fitted.mean, [3.0, -1.0 - 0.25 * 2.0 / alpha], atol=0.03)
    np.testing.assert_allclose(fitted.covariance, [[1.0, 0.0], [0.0, 0.25]], atol=0.04)


def test_the_projection_has_the_mean_and_covariance_of_the_weighted_points():
    points, weights = (
        np.array([[0.0, 1.0], [2.0, 1.0], [1.0, -2.0], [5.0, 0.5]]),
        np.array([0.1, 0.4, 0.3, 0.2]),
    )
    fitted, positive = project_gaussian(jnp.asarray(points), jnp.asarray(weights))
    assert positive
    np.testing.assert_allclose(
        fitted.mean, np.average(points, axis=0, weights=weights), rtol=1e-12
    )
    np.testing.assert_allclose(
        fitted.covariance, np.cov(points.T, aweights=weights, ddof=0), rtol=1e-12
    )


def test_a_single_point_has_no_gaussian():
    points = jnp.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    _, positive = project_gaussian(points, jnp.array([0.0, 1.0, 0.0]))
    assert not positive


def test_the_mean_of_the_path_moves_with_alpha_as_its_closed_form_does():
    def mean(alpha):
        log_density = tempered_log_density(
            alpha, gaussian_log_density(TARGET_MEAN, TARGET_STD), values()
        )
        weights = self_normalized_weights(log_density, jnp.zeros_like(log_density))
        return project_gaussian(jnp.asarray(GRID)[:, None], weights)[0].mean[0]

    def closed_form(alpha):
        return (TARGET_MEAN * alpha / TARGET_STD**2 + CURVATURE * BEST) / (
            alpha / TARGET_STD**2 + CURVATURE
        )

    np.testing.assert_allclose(
        jax.grad(mean)(0.9), jax.grad(closed_form)(0.9), rtol=1e-9
    )


@pytest.mark.parametrize("alpha", [1e-8, 1.0, 1e8])
def test_the_paths_and_their_slopes_are_finite_in_float32_however_extreme(alpha):
    log_target, returns = (
        jnp.array([-1e6, 0.0, -3.0], jnp.float32),
        jnp.array([1e6, -1e6, 0.0], jnp.float32),
    )
    for path in (tempered_log_density, e_step_log_density):
        weights = jax.jacrev(
            lambda a, path=path: jax.nn.softmax(path(a, log_target, returns))
        )(jnp.float32(alpha))
        found = (jax.nn.softmax(path(alpha, log_target, returns)), weights)
        assert all(jnp.isfinite(each).all() for each in found)
