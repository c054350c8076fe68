"""Particles: density and moments, weights as of a discrete distribution, draws anew that change nothing in expectation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from spjax.contexts import ContextSpace, Discrete, Gaussian, Mixture
from spjax.contexts.particles import Particles

SPACE = ContextSpace(("position", "width"), ("m", "m"), (-5.0, 0.0), (5.0, 2.0))


@pytest.fixture(scope="module")
def particles():
    """Twelve of them, of different weights and widths."""
    rng = np.random.default_rng(0)
    table = rng.uniform((-4, 0.3), (4, 1.7), (12, 2)).astype(np.float32)
    points = Discrete(jnp.asarray(table), jnp.asarray(rng.normal(size=12), jnp.float32))
    spread = jnp.asarray(rng.uniform(0.05, 0.3, (12, 2)), jnp.float32)
    return Particles(points, spread, SPACE)


def density(particles, contexts):
    """The log density, by SciPy."""
    kernels = stats.norm.logpdf(
        contexts[:, None], particles.points.table, particles.spread
    )
    logs = np.asarray(particles.points.log_probs) + kernels.sum(axis=2)
    return logsumexp(logs, axis=1)


def test_the_density_is_a_mixture_of_gaussians(particles):
    contexts = np.random.default_rng(1).uniform((-4, 0), (4, 2), (9, 2))
    found = jax.vmap(particles.log_prob)(jnp.asarray(contexts, jnp.float32))
    np.testing.assert_allclose(found, density(particles, contexts), rtol=1e-4)


def test_draws_have_the_moments_and_stay_inside(particles):
    draws = np.asarray(particles.sample_many(jax.random.key(0), None, 20_000))
    summary = particles.summary()
    np.testing.assert_allclose(draws.mean(axis=0), summary.mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), summary.covariance, atol=0.1)
    inside = np.asarray(particles.sample_many(jax.random.key(0), SPACE, 2_000))
    assert (inside >= SPACE.lower).all()
    assert (inside <= SPACE.upper).all()


def test_a_density_on_the_points_has_the_log_ratios_to_their_own(particles):
    other = Gaussian.from_std((1.0, 1.0), (2.0, 0.5))
    table = np.asarray(particles.points.table)
    ratios = stats.norm.logpdf(table, (1.0, 1.0), (2.0, 0.5)).sum(axis=1)
    ratios -= density(particles, table)
    on_points = particles.on_points(other)
    expected = np.log(particles.points.probs) + ratios
    np.testing.assert_allclose(
        on_points.log_probs, expected - logsumexp(expected), atol=1e-3
    )
    probs = np.asarray(particles.points.probs)
    assert float(particles.kl_to(other)) == pytest.approx(-probs @ ratios, rel=1e-4)


def test_a_point_is_drawn_anew_as_often_as_its_weight_says(particles):
    still = particles.replace(spread=jnp.full((12, 2), 1e-6))
    keys = jax.random.split(jax.random.key(3), 3_000)
    drawn = jax.jit(jax.vmap(lambda key: still.resampled(key).points.table))(keys)
    table = np.asarray(still.points.table)
    gaps = np.abs(np.asarray(drawn)[:, :, None, 0] - table[:, 0]).argmin(axis=2)
    copies = (gaps[:, :, None] == np.arange(12)).sum(axis=1)
    expected = 12 * np.asarray(still.points.probs)
    assert (np.abs(copies - expected) < 1).all()  # systematic
    np.testing.assert_allclose(copies.mean(axis=0), expected, atol=0.04)
    means = np.asarray(drawn).mean(axis=(0, 1))
    np.testing.assert_allclose(means, still.summary().mean, atol=0.03)


def test_the_spread_is_that_of_the_mode_that_a_point_is_in():
    target = Mixture.made(means=((-4, 0.5), (4, 1.5)), stds=((0.1, 0.2), (0.4, 0.05)))
    contexts = target.sample_many(jax.random.key(0), SPACE, 200)
    particles = Particles.around(contexts, SPACE)
    left = np.asarray(contexts)[:, 0] < 0
    spread = np.asarray(particles.spread)
    np.testing.assert_array_less(spread[left].mean(axis=0), (0.1, 0.2))
    np.testing.assert_array_less(spread[~left].mean(axis=0), (0.4, 0.05))
    np.testing.assert_array_less((0.02, 0.03), spread[left].mean(axis=0))


def test_the_divergence_of_moves_is_the_sum_of_the_gaussians(particles):
    moved = particles.replace(
        points=particles.points.replace(table=particles.points.table + 0.1),
        spread=particles.spread * 1.3,
    )
    h, new = np.asarray(particles.spread, float), np.asarray(moved.spread, float)
    each = np.log(h / new) + (new**2 + 0.01) / (2 * h**2) - 0.5
    expected = np.asarray(particles.points.probs) @ each.sum(axis=1)
    assert float(moved.kl_of_moves(particles)) == pytest.approx(expected, rel=1e-4)
    assert float(particles.kl_of_moves(particles)) == 0.0
    draws = np.asarray(moved.sample_many(jax.random.key(1), None, 20_000))
    assert (density(moved, draws) - density(particles, draws)).mean() < expected


def test_a_place_beyond_a_bound_is_reflected():
    outside = jnp.array([[5.5, -0.2], [-5.25, 2.5], [40.0, 1.0]])
    expected = [[4.5, 0.2], [-4.75, 1.5], [-5.0, 1.0]]
    np.testing.assert_allclose(jax.vmap(SPACE.fold)(outside), expected, rtol=1e-6)
