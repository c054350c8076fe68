"""Mixtures of Gaussians: densities, moments and draws against textbook formulas; the bound against the divergence itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from spjax import catalogue, settings
from spjax.cli.flags import read
from spjax.contexts import ContextSpace, Gaussian, Mixture
from spjax.self_paced import update_context
from tests.contexts.chart_checks import (
    assert_chart_speaks_of_its_distributions,
    assert_gradients_are_central_differences,
)

SPACE = ContextSpace(("position", "width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0))
MEANS, STDS = ((-1.0, 4.0), (2.0, 3.0)), ((1.0, 0.5), (0.4, 1.5))


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


def mixture(weights=(0.3, 0.7), shift=0.0, scale=1.0):
    """Returns two components, one of them correlated."""
    skewed = jnp.array([[1.0, 0.0], [-0.4, 0.5]])
    components = [
        Gaussian(jnp.array(MEANS[0]) + shift, scale * skewed),
        Gaussian(jnp.array(MEANS[1]), scale * jnp.diag(jnp.array(STDS[1]))),
    ]
    return Mixture.of(components, list(weights))


def test_what_a_mixture_mixes_has_its_moments():
    mixed, whole = mixture().mixed(), mixture().summary()
    mean = np.einsum("k,kd->d", mixed.weights, mixed.means)
    squares = mixed.covariances + np.einsum("ki,kj->kij", mixed.means, mixed.means)
    second = np.einsum("k,kij->ij", mixed.weights, squares)
    np.testing.assert_allclose(mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(second - np.outer(mean, mean), whole.covariance)
    assert mixture().component(0).mixed() is None


def density(p, contexts):
    """The density of the whole, by SciPy."""
    return sum(
        weight * stats.multivariate_normal(mean, chol @ chol.T).pdf(contexts)
        for weight, mean, chol in zip(
            p.weights, p.components.mean, p.components.chol, strict=True
        )
    )


@pytest.mark.slow
def test_density_and_moments_are_those_of_the_components_together():
    p, contexts = mixture(), np.array([[0.0, 4.0], [2.0, 1.0]])
    np.testing.assert_allclose(
        jax.vmap(p.log_prob)(jnp.asarray(contexts)),
        np.log(density(p, contexts)),
        rtol=1e-10,
    )
    draws = np.asarray(p.sample_many(jax.random.key(0), None, 20_000))
    summary = p.summary()
    np.testing.assert_allclose(draws.mean(axis=0), summary.mean, atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T), summary.covariance, atol=0.08)


def test_the_bound_is_above_the_divergence_and_zero_for_the_same():
    p, q = mixture(), mixture((0.6, 0.4), shift=0.5, scale=1.2)
    draws = np.asarray(p.sample_many(jax.random.key(1), None, 20_000))
    divergence = np.log(density(p, draws) / density(q, draws)).mean()
    assert 0 < divergence < float(p.kl_to(q))
    assert float(p.kl_to(p)) == 0.0


@pytest.mark.slow
def test_the_chart_says_what_the_distributions_say():
    old, target = mixture(), mixture((0.5, 0.5), shift=1.0, scale=0.3)
    contexts = jnp.array([[0.0, 4.0], [2.0, 1.0]])
    z = 0.1 * jnp.asarray(np.random.default_rng(0).normal(size=old.chart.size(old)))
    curvature = [1.0, *2 * [2.0, 1.0, 1.0, 2.0, 1.0]]  # 2 for the log of a scale
    assert_chart_speaks_of_its_distributions(old, target, contexts, z, curvature)


@pytest.mark.slow
def test_gradients_through_twelve_updates_are_central_differences():
    old, target = mixture(), mixture((0.5, 0.5), shift=1.0, scale=0.3)
    rng = np.random.default_rng(3)
    contexts = jnp.asarray(rng.uniform(SPACE.lower, SPACE.upper, (24, 2)))
    values = 5 + jnp.tanh(contexts[:, 0]) - 0.3 * contexts[:, 1]

    def end(numbers):
        def step(distribution, share):
            new, record = update_context(
                distribution,
                target,
                contexts,
                values,
                jnp.ones(24, bool),
                max_kl=numbers[0],
                alpha=numbers[1] * share,
            )
            return new, record.result

        last, results = jax.lax.scan(step, old, jnp.linspace(0.5, 1.5, 12))
        return last.summary().mean @ jnp.array([1.0, -0.5]), results

    assert_gradients_are_central_differences(end, jnp.array([0.02, 0.3]))


def test_settings_are_spelled_and_built_again():
    independent = Mixture.made(means=MEANS, stds=STDS, weights=(0.3, 0.7))
    correlated = Mixture.made(
        means=MEANS, covariances=((1.0, 0.2, 0.2, 2.0), (1.0, 0.0, 0.0, 1.0))
    )
    for p in (independent, correlated):
        spelled = catalogue.spell(p)
        again = catalogue.build(spelled)
        assert jax.tree.structure(again) == jax.tree.structure(p)
        for ours, theirs in zip(
            jax.tree.leaves(again), jax.tree.leaves(p), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        p.check(SPACE, "x")
    assert catalogue.spell(independent)["means"] == [[-1.0, 4.0], [2.0, 3.0]]
    assert independent.changed(weights=(0.5, 0.5)).weights.tolist() == [0.5, 0.5]


def test_components_of_different_dimensions_are_one_sentence():
    sentence = r"as many dimensions as one another, got \[1, 2\]$"
    with pytest.raises(ValueError, match=sentence):
        Mixture.made(means=((0.0,), (1.0, 2.0)), stds=((1.0,), (1.0, 1.0)))


def test_components_are_rows_on_the_command_line():
    hint = Mixture.declared()["means"].hint
    assert read("--means", hint, ["-1:4", "2:3"]) == MEANS


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"weights": (0.3, 0.3)}, r"must sum to 1, got \[0.3, 0.3\], which sum to 0.6$"),
        ({"weights": (1.0, 0.0)}, r"must be positive and finite, got \[1.0, 0.0\]$"),
        ({"wieghts": (1.0, 1.0)}, r"^a mixture has no setting 'wieghts'; did you mean 'weights'\?$"),
        ({"weights": (1.0,)}, "of 2 components needs as many weights, got 1$"),
        ({"stds": STDS[:1]}, "as many rows of stds or covariances as of means, got 1 and 2$"),
        ({"stds": None}, "a mixture needs either stds or covariances$"),
        ({"stds": ((1.0, 1.0), (1.0, -1.0))}, r"^x.stds must be positive and finite, got -1.0$"),
        ({"means": ((-1.0, 4.0), (9.0, 3.0))}, r"^x, component 1.mean: position = 9 lies outside"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_sentence(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        check({"means": MEANS, "stds": STDS, **wrong})


def check(values):
    p = Mixture.made(**values)
    settings.check("x", p)
    p.check(SPACE, "x")


def test_a_target_with_another_number_of_components_is_refused():
    single = Mixture.made(means=MEANS[:1], stds=STDS[:1])
    with pytest.raises(ValueError, match="as many components, got 2 and 1"):
        mixture().check_target(single)
