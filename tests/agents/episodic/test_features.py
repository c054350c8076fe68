"""Features of contexts."""

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.dual_problems import gate_features
from spjax import settings
from spjax.agents.episodic import CREPS, Polynomial, RadialBasis

GATE = RadialBasis((-5.0, 0.1), (5.0, 0.5), (10, 5), (0.6, 150.0))


def test_radial_basis_functions_agree_with_numpy_sum_to_one_and_end_with_a_constant():
    contexts = np.random.default_rng(0).uniform([-5, 0.1], [5, 0.5], (50, 2))
    features = np.asarray(GATE(jnp.asarray(contexts, jnp.float32)))
    assert features.shape == (50, 51)
    np.testing.assert_allclose(features, gate_features(contexts), atol=2e-6)
    np.testing.assert_allclose(features[:, :50].sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(features[:, 50], 1.0)


def test_radial_basis_functions_stay_finite_far_outside_their_grid():
    features = GATE(jnp.array([[1e6, 0.3], [-1e6, -1e4]]))
    assert bool(jnp.isfinite(features).all())
    np.testing.assert_allclose(features[:, :50].sum(axis=1), 1.0, rtol=1e-6)


def test_polynomials_list_the_monomials_by_degree():
    np.testing.assert_array_equal(
        Polynomial(2)(jnp.array([[2.0, 3.0]])), [[1, 2, 3, 4, 6, 9]]
    )
    np.testing.assert_array_equal(Polynomial(1)(jnp.array([[2.0, 3.0]])), [[1, 2, 3]])
    np.testing.assert_array_equal(Polynomial(0)(jnp.array([[2.0], [5.0]])), [[1], [1]])


def test_features_that_do_not_fit_together_are_refused():
    with pytest.raises(
        ValueError,
        match=r"one entry per context dimension, got \[1, 1, 2, 1\] entries$",
    ):
        RadialBasis((0.0,), (1.0,), (3, 3), (1.0,))
    with pytest.raises(
        ValueError, match=r"^agent.value_features.degree must be at least 0, got -1$"
    ):
        settings.check("agent", CREPS(value_features=Polynomial(-1)))
