import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian, kl_divergence
from spjax.self_paced import alpha_proportion


def test_alpha_makes_the_penalty_a_proportion_of_the_return():
    np.testing.assert_allclose(alpha_proportion(jnp.float32(5.0), jnp.float32(20.0), 1.6), 0.4, rtol=1e-6)


def test_alpha_at_the_target_is_the_cap_with_a_zero_derivative():
    target = Gaussian(jnp.array([2.5, 0.5, 0.0]), jnp.diag(jnp.array([4e-3, 3.75e-3, 2e-3])))

    def alpha(zeta):
        return alpha_proportion(jnp.float32(5.0), kl_divergence(target, target), zeta)

    value, slope = jax.value_and_grad(alpha)(1.6)
    assert value == 1e5
    assert slope == 0


def test_alpha_of_a_distribution_a_hair_off_the_target_is_finite_and_at_most_the_cap():
    with jax.enable_x64(True):
        chol = jnp.diag(jnp.array([4e-3, 3.75e-3, 2e-3]))
        target = Gaussian(jnp.array([2.5, 0.5, 0.0]), chol)
        near = Gaussian(target.mean + 1e-9, chol)
        assert float(kl_divergence(near, target)) >= 0
        assert 0 <= float(alpha_proportion(jnp.asarray(5.0), kl_divergence(near, target), 1.6)) <= 1e5


@pytest.mark.parametrize("mean_return", [-3.0, 0.0])
def test_a_return_that_is_not_positive_gives_alpha_zero(mean_return):
    assert alpha_proportion(jnp.float32(mean_return), jnp.float32(10.0), 1.6) == 0


def test_adding_a_constant_to_the_rewards_changes_alpha():
    before, after = (alpha_proportion(jnp.float32(value), jnp.float32(10.0), 1.6) for value in (-3.0, 2.0))
    assert before == 0
    np.testing.assert_allclose(after, 0.32, rtol=1e-6)
