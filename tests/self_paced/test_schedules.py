import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian, kl_divergence
from spjax.self_paced import alpha_proportion
from spjax.self_paced.schedules import Bound, Evidence, Proportion


def test_alpha_makes_the_penalty_a_proportion_of_the_return():
    np.testing.assert_allclose(
        alpha_proportion(jnp.float32(5.0), jnp.float32(20.0), 1.6), 0.4, rtol=1e-6
    )


def test_alpha_at_the_target_is_the_cap_with_a_zero_derivative():
    target = Gaussian(
        jnp.array([2.5, 0.5, 0.0]), jnp.diag(jnp.array([4e-3, 3.75e-3, 2e-3]))
    )

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
        assert (
            0
            <= float(
                alpha_proportion(jnp.asarray(5.0), kl_divergence(near, target), 1.6)
            )
            <= 1e5
        )


@pytest.mark.parametrize("mean_return", [-3.0, 0.0])
def test_a_return_that_is_not_positive_gives_alpha_zero(mean_return):
    assert alpha_proportion(jnp.float32(mean_return), jnp.float32(10.0), 1.6) == 0


def test_adding_a_constant_to_the_rewards_changes_alpha():
    before, after = (
        alpha_proportion(jnp.float32(value), jnp.float32(10.0), 1.6)
        for value in (-3.0, 2.0)
    )
    assert before == 0
    np.testing.assert_allclose(after, 0.32, rtol=1e-6)


def evidence(update=1, mean_return=5.0, kl_to_target=2.0, rows=4):
    """Returns what a schedule sees; no update is due where there are no rows."""
    return Evidence(
        contexts=jnp.zeros((4, 2)),
        values=jnp.zeros(4),
        mask=jnp.arange(4) < rows,
        mean_return=jnp.asarray(mean_return),
        kl_to_target=jnp.asarray(kl_to_target),
        update=jnp.asarray(update),
    )


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_alpha_is_zero_in_exactly_as_many_updates_as_the_offset_says(offset):
    alphas = [
        float(Proportion(zeta=1.6, offset=offset).aim(evidence(update)).alpha)
        for update in range(1, 7)
    ]
    np.testing.assert_allclose(alphas, [0.0] * offset + [4.0] * (6 - offset), rtol=1e-6)


def test_without_an_end_of_the_offset_the_target_never_counts():
    assert float(Proportion(offset=math.inf).aim(evidence(10**6)).alpha) == 0.0


@pytest.mark.parametrize(("meaning", "expected"), [("zero", 0.0), ("absolute", 2.4)])
def test_a_negative_return_counts_as_nothing_or_as_released_by_its_absolute_value(
    meaning, expected
):
    rule = Proportion(zeta=1.6, offset=0, negative_return=meaning)
    assert float(rule.aim(evidence(mean_return=-3.0)).alpha) == pytest.approx(expected)
    assert float(rule.aim(evidence(mean_return=5.0)).alpha) == pytest.approx(4.0)


@pytest.mark.parametrize("kl", [0.0, -1e-9, -2.0, 1e-30])
def test_alpha_is_the_cap_where_the_divergence_is_nothing_or_less(kl):
    assert (
        float(
            Proportion(zeta=1.6, offset=0, max_alpha=7.5)
            .aim(evidence(kl_to_target=kl))
            .alpha
        )
        == 7.5
    )


def test_alpha_is_zero_where_no_update_is_due():
    assert float(Proportion(offset=0).aim(evidence(rows=0)).alpha) == 0.0


def test_a_bound_is_its_number_whatever_the_evidence_and_has_no_alpha():
    for seen in (evidence(), evidence(update=100, mean_return=-3.0, rows=0)):
        aim = Bound(3.5).aim(seen)
        assert aim.alpha is None
        assert float(aim.performance_bound) == 3.5
