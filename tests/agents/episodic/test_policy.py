"""Linear-Gaussian policies and sampling inside bounds."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from spjax.agents.episodic.buffer import Batch, flatten, store
from spjax.agents.episodic.policy import LinearGaussian, sample_inside
from spjax.contexts import Gaussian


def test_samples_follow_the_truncated_distribution_when_a_redraw_is_likely_to_succeed(
    key,
):
    draws = sample_inside(
        key, jnp.full((4000, 1), 0.5), jnp.array([[1.0]]), (-1.0,), (1.0,)
    )
    truncated = stats.truncnorm(-1.5, 0.5, loc=0.5)
    assert stats.kstest(np.asarray(draws)[:, 0], truncated.cdf).pvalue > 1e-3


def test_samples_are_correlated_as_the_factor_says(key):
    chol = jnp.array([[1.0, 0.0], [0.8, 0.3]])
    draws = sample_inside(
        key, jnp.zeros((20_000, 2)), chol, (-50.0, -50.0), (50.0, 50.0)
    )
    np.testing.assert_allclose(np.cov(np.asarray(draws).T), chol @ chol.T, atol=0.03)


def test_samples_are_clipped_after_a_hundred_redraws(key):
    std, size = 10.0, 16
    draws = np.asarray(
        sample_inside(
            key,
            jnp.zeros((1000, size)),
            std * jnp.eye(size),
            (-10.0,) * size,
            (10.0,) * size,
        )
    )
    assert (np.abs(draws) <= 10).all()
    clipped = (np.abs(draws) == 10).any(axis=1).mean()
    accepted = (stats.norm.cdf(1) - stats.norm.cdf(-1)) ** size  # 0.2 % a draw
    np.testing.assert_allclose(clipped, (1 - accepted) ** 101, atol=0.04)


def test_a_row_does_not_depend_on_how_often_the_others_are_drawn_again(key):
    easy = jnp.zeros((3, 1))
    bounds = (-1.0,), (10.0,)
    alone = sample_inside(key, easy, jnp.array([[0.1]]), *bounds)
    mixed = sample_inside(
        jax.random.clone(key), easy.at[2].set(-1.2), jnp.array([[0.1]]), *bounds
    )
    np.testing.assert_array_equal(alone[:2], mixed[:2])
    assert float(mixed[2, 0]) >= -1


def test_the_mean_is_linear_in_the_features_and_the_entropy_is_that_of_scipy():
    chol = jnp.array([[2.0, 0.0], [0.5, 0.3]])
    policy = LinearGaussian(gain=jnp.array([[1.0, 2.0], [0.0, -1.0]]), chol=chol)
    np.testing.assert_allclose(policy.mean(jnp.array([[1.0, 3.0]])), [[7.0, -3.0]])
    expected = stats.multivariate_normal(cov=np.asarray(chol @ chol.T)).entropy()
    np.testing.assert_allclose(policy.entropy, expected, rtol=1e-6)


def test_a_gaussian_over_contexts_is_the_policy_with_the_constant_feature():
    gaussian = Gaussian.from_std([1.0, -2.0], [0.5, 3.0])
    policy = LinearGaussian.from_gaussian(gaussian)
    np.testing.assert_array_equal(policy.mean(jnp.ones((1, 1)))[0], gaussian.mean)
    np.testing.assert_array_equal(policy.chol, gaussian.chol)


def test_the_buffer_forgets_the_oldest_batch_first():
    def batch(value):
        return Batch(
            *(jnp.full(shape, value) for shape in ((2, 1), (2, 3), (2, 4))),
            jnp.full(2, value),
            jnp.ones(2, bool),
            jnp.ones(2, int),
        )

    buffer = jax.tree.map(
        lambda leaf: jnp.zeros((3, *leaf.shape), leaf.dtype), batch(0.0)
    )
    for iteration in range(5):
        buffer = store(buffer, batch(float(iteration)), jnp.asarray(iteration))
    samples = flatten(buffer)
    assert sorted(np.asarray(samples.rewards).tolist()) == [2, 2, 3, 3, 4, 4]
    assert samples.thetas.shape == (6, 3)
