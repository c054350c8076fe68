"""Updates whose answer is known on paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

from benchmarks.context_problems import gaussian_kl
from spjax.contexts import Gaussian
from spjax.self_paced import update_context


def approach(old, target, direction, max_kl=0.05):
    """The bound rule with a bound that never binds: minimise KL(new || target) within the trust region."""
    with jax.enable_x64(True):
        dim = len(old[0])
        samples = (jnp.broadcast_to(old[0], (4, dim)), jnp.ones(4), jnp.ones(4, bool))
        new, _ = jax.jit(
            lambda old, target: update_context(
                old,
                target,
                *samples,
                max_kl=max_kl,
                performance_bound=-1e6,
                reached=False,
                kl_direction=direction,
            )
        )(Gaussian(*map(jnp.asarray, old)), Gaussian(*map(jnp.asarray, target)))
        return np.asarray(new.mean), np.asarray(new.chol)


def natural(mean, chol):
    precision = np.linalg.inv(chol @ chol.T)
    return precision @ mean, precision


def from_natural(linear, precision):
    covariance = np.linalg.inv(precision)
    return covariance @ linear, np.linalg.cholesky(covariance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "std"), [("new-old", 0.785377), ("old-new", 0.812117)]
)
def test_shrinking_in_one_dimension_reaches_the_root_of_the_divergence(direction, std):
    mean, chol = approach(
        (np.array([3.0]), np.eye(1)), (np.array([3.0]), 1e-3 * np.eye(1)), direction
    )
    np.testing.assert_allclose(chol[0, 0], std, atol=1e-6)
    np.testing.assert_allclose(mean, 3.0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 5])
def test_a_slack_bound_moves_along_the_geodesic_between_old_and_target(dim):
    rng = np.random.default_rng(dim)
    old = (
        rng.normal(size=dim),
        np.tril(0.3 * rng.normal(size=(dim, dim)), -1)
        + np.diag(rng.uniform(0.5, 2, dim)),
    )
    target = (old[0] + rng.normal(size=dim), np.diag(rng.uniform(0.05, 0.5, dim)))

    def mixture(share):
        pairs = zip(natural(*old), natural(*target), strict=True)
        return from_natural(*[(1 - share) * a + share * b for a, b in pairs])

    share = brentq(
        lambda share: gaussian_kl(*mixture(share), *old) - 0.05, 0.0, 1.0, xtol=1e-15
    )
    expected = mixture(share)
    mean, chol = approach(old, target, "new-old")
    np.testing.assert_allclose(mean, expected[0], atol=1e-6)
    np.testing.assert_allclose(chol, expected[1], atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_a_quadratic_value_function_gives_the_tilted_gaussian(alpha):
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    old, target = (
        (np.array([2.0]), np.array([[1.5]])),
        (np.array([4.0]), np.array([[0.4]])),
    )
    contexts = old[0] + nodes * old[1][0, 0]
    values = -0.2 * (contexts - 5.0) ** 2  # natural parameters: linear 2, precision 0.4

    def tilted(multiplier):
        pairs = zip(
            natural(*old),
            natural(*target),
            (np.array([2.0]), np.array([[0.4]])),
            strict=True,
        )
        return from_natural(
            *[
                (multiplier * a + alpha * b + c) / (alpha + multiplier)
                for a, b, c in pairs
            ]
        )

    multiplier = np.exp(
        brentq(
            lambda log: gaussian_kl(*tilted(np.exp(log)), *old) - 0.05,
            -5,
            10,
            xtol=1e-14,
        )
    )
    with jax.enable_x64(True):
        new, _ = update_context(
            Gaussian(*map(jnp.asarray, old)),
            Gaussian(*map(jnp.asarray, target)),
            jnp.asarray(contexts)[:, None],
            jnp.asarray(
                values * weights * nodes.size
            ),  # so that the mean over contexts is the exact expectation
            jnp.ones(nodes.size, bool),
            max_kl=0.05,
            alpha=alpha,
            kl_direction="new-old",
        )
    expected = tilted(multiplier)
    np.testing.assert_allclose(new.mean, expected[0], atol=1e-6)
    np.testing.assert_allclose(new.chol, expected[1], atol=1e-6)


def test_a_huge_alpha_with_the_target_inside_the_trust_region_returns_the_target():
    old, target = (
        Gaussian.from_std([1.0, 2.0], [1.0, 0.5]),
        Gaussian.from_std([1.05, 1.98], [0.95, 0.52]),
    )
    contexts = jnp.array([[0.5, 2.0], [1.5, 2.5], [1.0, 1.5]])
    new, update = update_context(
        old,
        target,
        contexts,
        jnp.array([1.0, 2.0, 3.0]),
        jnp.ones(3, bool),
        max_kl=0.05,
        alpha=1e5,
    )
    assert 0 < update.kl < 0.05
    np.testing.assert_allclose(new.mean, target.mean, atol=1e-4)
    np.testing.assert_allclose(new.chol, target.chol, atol=1e-4)
