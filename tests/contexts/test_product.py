"""Discrete times Gaussian: densities, moments, divergences and coordinates are those of both parts together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from spjax import catalogue, settings
from spjax.cli import main
from spjax.contexts import ContextSpace, Discrete, DiscreteGaussian, Gaussian
from spjax.self_paced import update_context
from tests.contexts.chart_checks import (
    assert_chart_speaks_of_its_distributions,
    assert_gradients_are_central_differences,
)

SPACE = ContextSpace(("level", "width"), ("1", "m"), (0.0, 0.5), (3.0, 8.0))
TABLE = ((0.0,), (1.0,), (3.0,))


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


def product(weights=(0.2, 0.5, 0.3), mean=4.0, std=1.5):
    return DiscreteGaussian(
        Discrete.from_weights(TABLE, weights), Gaussian.from_std((mean,), (std,))
    )


def test_density_and_moments_are_those_of_both_parts():
    p = product()
    expected = np.log(0.5) + stats.norm(4.0, 1.5).logpdf(2.0)
    np.testing.assert_allclose(
        p.log_prob(jnp.array([1.0, 2.0])), expected, rtol=1e-6
    )  # fmt: skip
    summary = p.summary()
    np.testing.assert_allclose(summary.mean, [1.4, 4.0], rtol=1e-6)
    np.testing.assert_allclose(
        summary.covariance, [[0.5 + 2.7 - 1.4**2, 0.0], [0.0, 2.25]], rtol=1e-6
    )


def test_draws_are_rows_and_clipped_numbers():
    draws = np.asarray(product().sample_many(jax.random.key(0), SPACE, 3000))
    values, counts = np.unique(draws[:, 0], return_counts=True)
    assert values.tolist() == [0.0, 1.0, 3.0]
    np.testing.assert_allclose(counts / 3000, [0.2, 0.5, 0.3], atol=0.03)
    assert draws[:, 1].min() == 0.5
    assert draws[:, 1].max() <= 8.0


def test_the_divergence_is_the_sum_of_both_parts():
    p, q = product(), product((0.5, 0.25, 0.25), 5.0, 1.5)
    rows = 0.2 * np.log(0.4) + 0.5 * np.log(2) + 0.3 * np.log(1.2)
    np.testing.assert_allclose(p.kl_to(q), rows + 0.5 / 1.5**2, rtol=1e-6)


@pytest.mark.slow
def test_the_chart_says_what_the_distributions_say():
    old, target = product(), product((0.1, 0.1, 0.8), 1.0, 0.2)
    contexts = jnp.array([[1.0, 4.0], [3.0, 1.0]])
    assert_chart_speaks_of_its_distributions(
        old, target, contexts, jnp.array([0.3, -0.2, 0.1, 0.25]), [1.0, 1.0, 2.0, 1.0]
    )


@pytest.mark.slow
def test_gradients_through_twelve_updates_are_central_differences():
    old, target = product(), product((0.1, 0.1, 0.8), 1.0, 0.2)
    rng = np.random.default_rng(3)
    rows = np.array(TABLE)[rng.integers(0, 3, 24)]
    contexts = jnp.asarray(np.concatenate([rows, rng.normal(4, 1.5, (24, 1))], axis=1))
    values = 5 + jnp.tanh(contexts[:, 1] - 3) - 0.3 * contexts[:, 0]

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
    p = DiscreteGaussian.made(
        table=TABLE, weights=(0.25, 0.5, 1.0), mean=(4.0,), std=(1.5,)
    )
    spelled = catalogue.spell(p)
    assert spelled["table"] == [[0.0], [1.0], [3.0]]
    assert spelled["std"] == [1.5]
    again = catalogue.build(spelled)
    assert catalogue.spell(again) == spelled
    assert catalogue.spell(p.changed(std=(0.5,)))["std"] == [0.5]
    p.check(SPACE, "x")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"weights": (1.0, 0.0, 1.0)}, "^x.weights must be positive and finite, got 0.0$"),
        ({"table": ((0.0,), (1.0,), (4.0,))}, "^x: row 2 of the table: level = 4 lies outside"),
        ({"mean": (9.0,)}, "^x.mean: width = 9 lies outside"),
        ({"mean": (1.0, 2.0), "std": (1.0, 1.0)}, "width"),
        ({"table": ((0.0, 1.0), (1.0, 1.0), (3.0, 1.0))}, "must leave at least one of the 2 dimensions"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_sentence(wrong, sentence):
    values = {"table": TABLE, "weights": (0.2, 0.5, 0.3), "mean": (4.0,), "std": (1.5,)}
    with pytest.raises(ValueError, match=sentence):
        check({**values, **wrong})


def check(values):
    settings.check_value(
        "x.weights", DiscreteGaussian.declared()["weights"], values["weights"]
    )
    DiscreteGaussian.made(**values).check(SPACE, "x")


def test_a_part_without_defaults_is_chosen_and_then_asked_for_its_settings(capsys):
    command = ["train", "point-mass-2d", "--teacher.initial"]
    assert main([*command, "discrete-gaussian"]) == 2
    assert "--teacher.initial.table needs rows of numbers" in capsys.readouterr().err
    assert main([*command, "discrete"]) == 2
    sentence = "spjax: teacher.initial: a discrete distribution needs either a table or a file\n"
    assert capsys.readouterr().err == sentence
