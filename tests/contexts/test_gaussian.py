import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import ContextSpace, Gaussian, kl_divergence

SPACE = ContextSpace(
    names=("position", "friction"),
    units=("m", "1"),
    lower=(-4.0, 0.0),
    upper=(4.0, 2.0),
)


def random_gaussian(rng, dim):
    chol = np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(
        rng.uniform(0.1, 3.0, dim)
    )
    return Gaussian(jnp.asarray(10 * rng.normal(size=dim)), jnp.asarray(chol))


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2, 3, 5, 10])
def test_kl_divergence_equals_the_textbook_formula(dim):
    rng = np.random.default_rng(dim)
    with jax.enable_x64(True):
        p, q = random_gaussian(rng, dim), random_gaussian(rng, dim)
        computed = float(kl_divergence(p, q))
    p_cov, q_cov = (
        np.asarray(gaussian.chol) @ np.asarray(gaussian.chol).T for gaussian in (p, q)
    )
    shift = np.asarray(q.mean) - np.asarray(p.mean)
    log_det = np.linalg.slogdet(q_cov)[1] - np.linalg.slogdet(p_cov)[1]
    trace = np.trace(np.linalg.solve(q_cov, p_cov))
    expected = 0.5 * (trace + shift @ np.linalg.solve(q_cov, shift) - dim + log_det)
    np.testing.assert_allclose(computed, expected, rtol=1e-10)


@pytest.mark.slow
def test_kl_of_a_distribution_to_itself_is_zero_with_zero_gradient():
    p = Gaussian(jnp.array([2.0, 400.0]), jnp.array([[2.0, 0.0], [0.3, 1e-3]]))
    assert float(kl_divergence(p, p)) == 0.0
    gradient = jax.grad(lambda q: kl_divergence(q, p))(p)
    np.testing.assert_array_equal(gradient.mean, 0.0)
    np.testing.assert_array_equal(jnp.tril(gradient.chol), 0.0)


def test_kl_of_nearly_equal_distributions_does_not_cancel_in_float32():
    chol = np.array([[2.0, 0, 0], [0.5, 1.5, 0], [-0.3, 0.2, 1.0]], np.float32)
    nearly = (chol * np.float32(1 + 1e-5)).astype(np.float32)
    mean = np.zeros(3, np.float32)
    single = float(
        kl_divergence(
            Gaussian(jnp.asarray(mean), jnp.asarray(chol)),
            Gaussian(mean, jnp.asarray(nearly)),
        )
    )
    with jax.enable_x64(True):
        chol, nearly, mean = (
            jnp.asarray(leaf, jnp.float64) for leaf in (chol, nearly, mean)
        )
        double = float(kl_divergence(Gaussian(mean, chol), Gaussian(mean, nearly)))
    assert single >= 0
    np.testing.assert_allclose(single, double, rtol=0.05)
    np.testing.assert_allclose(double, 3e-10, rtol=0.1)  # k delta^2


def test_log_density_and_samples_agree_with_moments(key):
    gaussian = Gaussian(jnp.array([1.0, -2.0]), jnp.array([[0.5, 0.0], [1.0, 2.0]]))
    context = np.array([0.3, 1.0])
    covariance = np.asarray(gaussian.covariance)
    shift = context - np.asarray(gaussian.mean)
    expected = -0.5 * (
        shift @ np.linalg.solve(covariance, shift)
        + np.log(np.linalg.det(2 * np.pi * covariance))
    )
    np.testing.assert_allclose(
        gaussian.log_prob(jnp.asarray(context)), expected, rtol=1e-5
    )
    samples = np.asarray(jax.vmap(gaussian.sample)(jax.random.split(key, 20_000)))
    np.testing.assert_allclose(samples.mean(axis=0), [1.0, -2.0], atol=0.06)
    np.testing.assert_allclose(np.cov(samples.T), covariance, atol=0.15)


def test_an_indefinite_covariance_is_refused_in_one_clear_sentence():
    with pytest.raises(
        ValueError, match=r"not positive definite: \[\[1.0, 2.0\], \[2.0, 1.0\]\]"
    ):
        Gaussian.from_covariance(np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValueError, match=r"mean must be a vector, got shape \(2, 1\)"):
        Gaussian.from_covariance(np.zeros((2, 1)), np.eye(2))
    with pytest.raises(
        ValueError, match=r"^x.mean needs 2 values .* got shape \(2, 1\)"
    ):
        Gaussian(np.zeros((2, 1)), np.eye(2)).check(SPACE, "x")
    with pytest.raises(ValueError, match=r"^x.std .* got a factor of shape \(2,\)$"):
        Gaussian(np.array([0.0, 1.0]), np.ones(2)).check(SPACE, "x")


def test_a_standard_deviation_of_zero_is_refused():
    with pytest.raises(ValueError, match="positive and finite"):
        Gaussian.from_std([0.0, 0.0], [1.0, 0.0])


def test_covariance_and_standard_deviations_come_back():
    gaussian = Gaussian.from_covariance(
        np.array([0.0, 1.0]), np.array([[4.0, 1.0], [1.0, 9.0]])
    )
    np.testing.assert_allclose(gaussian.covariance, [[4.0, 1.0], [1.0, 9.0]], rtol=1e-6)
    np.testing.assert_allclose(gaussian.std, [2.0, 3.0], rtol=1e-6)


def test_a_context_space_clips_samples_and_names_what_is_outside(key):
    np.testing.assert_array_equal(
        SPACE.clip(jnp.array([[-9.0, 1.0], [1.0, 3.0]])), [[-4.0, 1.0], [1.0, 2.0]]
    )
    samples = np.asarray(jax.vmap(SPACE.sample_uniform)(jax.random.split(key, 4_000)))
    np.testing.assert_allclose(samples.min(axis=0), [-4.0, 0.0], atol=0.02)
    np.testing.assert_allclose(samples.mean(axis=0), [0.0, 1.0], atol=0.15)
    with pytest.raises(
        ValueError, match=r"position = 5 lies outside its bounds \[-4, 4\] m"
    ):
        SPACE.check([5.0, 1.0])
    with pytest.raises(ValueError, match="friction = nan"):
        SPACE.check([0.0, float("nan")])
    with pytest.raises(ValueError, match="needs 2 values"):
        SPACE.check([0.0])


def test_a_context_space_with_reversed_bounds_is_refused():
    with pytest.raises(ValueError, match="lower < upper"):
        ContextSpace(names=("x",), units=("m",), lower=(1.0,), upper=(-1.0,))
