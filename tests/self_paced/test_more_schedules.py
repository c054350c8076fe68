"""Schedules beyond the paper's two: annealed, measured by the episodes, with a margin, with a way back."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from spjax import catalogue, settings
from spjax.contexts import Gaussian
from spjax.self_paced.adaptive_tempering import (
    ConstantSpeed,
    EffectiveSampleSize,
    effective_share,
)
from spjax.self_paced.annealed import Geometric, Linear
from spjax.self_paced.cautious import ChanceBound, Rollback
from spjax.self_paced.schedules import Evidence, Proportion
from spjax.self_paced.smooth import SmoothProportion

INITIAL = Gaussian(jnp.array([0.0, 4.0]), jnp.diag(jnp.array([2.0, 1.5])))
TARGET = Gaussian(jnp.array([2.5, 0.5]), jnp.diag(jnp.array([0.1, 0.1])))
VALUES = np.array([4.0, 1.0, 3.5, 9.0, 5.5, 2.0, -1.0, 0.5])
TEMPERED = [EffectiveSampleSize(), ConstantSpeed()]


def evidence(update=1, values=VALUES, rows=8, kl=50.0, memory=()):
    """Returns what a schedule sees; no update is due where there are no rows."""
    return Evidence(
        contexts=jnp.zeros((len(VALUES), 2)),
        values=jnp.asarray(values, jnp.float32),
        mask=jnp.arange(len(VALUES)) < rows,
        mean_return=jnp.asarray(5.0),
        kl_to_target=jnp.asarray(kl),
        update=jnp.asarray(update),
        distribution=INITIAL,
        target=TARGET,
        memory=memory,
    )


def alphas(schedule, count, **seen):
    """Returns the alphas of so many updates on the same evidence."""
    memory, found = schedule.init(INITIAL), []
    for update in range(1, count + 1):
        aim = schedule.aim(evidence(update, memory=memory, **seen))
        memory = aim.memory
        found.append(float(aim.alpha))
    return np.array(found)


def test_a_linear_alpha_grows_by_one_amount_and_then_stays():
    np.testing.assert_allclose(
        alphas(Linear(first=1.0, last=3.0, num_updates=4), 7),
        [1.0, 1.5, 2.0, 2.5, 3.0, 3.0, 3.0],
    )


def test_a_geometric_alpha_grows_by_one_factor_and_then_stays():
    np.testing.assert_allclose(
        alphas(Geometric(first=0.1, last=10.0, num_updates=2), 4),
        [0.1, 1.0, 10.0, 10.0],
        rtol=1e-5,
    )


@pytest.mark.parametrize("offset", [0, 3])
def test_a_narrow_onset_is_the_step_of_the_proportion_rule(offset):
    smooth = SmoothProportion(zeta=1.6, offset=float(offset), width=0.01)
    step = alphas(Proportion(zeta=1.6, offset=offset), 6, kl=2.0)
    np.testing.assert_allclose(alphas(smooth, 6, kl=2.0), step, rtol=1e-6, atol=1e-15)


def test_the_penalty_sets_in_along_a_logistic_curve():
    schedule = SmoothProportion(zeta=2.0, offset=1.5, width=2.0, max_alpha=0.15)
    onset = [1 / (1 + np.exp(0.5)), 0.5, 1 / (1 + np.exp(-0.5))]
    expected = np.minimum(2.0 * 5.0 / 50.0 * np.array(onset), 0.15)
    np.testing.assert_allclose(alphas(schedule, 3), expected, rtol=1e-6)
    assert "the mean return is negative" in schedule.still(2, -1.0)
    assert schedule.still(1, -1.0) is None
    assert schedule.still(2, 1.0) is None


@pytest.mark.parametrize(
    "schedule", [Linear(first=2.0), Geometric(), SmoothProportion(), *TEMPERED]
)
def test_alpha_is_zero_where_no_update_is_due(schedule):
    aim = schedule.aim(evidence(0, rows=0, memory=schedule.init(INITIAL)))
    assert float(aim.alpha) == 0.0


@pytest.mark.parametrize("schedule", TEMPERED, ids=["share", "speed"])
def test_the_first_penalty_is_worth_so_many_standard_deviations(schedule):
    schedule = schedule.changed(penalty=2.0, offset=2)
    found = alphas(schedule, 3, kl=50.0)
    np.testing.assert_allclose(found, [0.0, 0.0, 2.0 * VALUES.std() / 50.0], rtol=1e-5)


@pytest.mark.parametrize("schedule", TEMPERED, ids=["share", "speed"])
def test_shifted_and_scaled_values_scale_alpha_and_nothing_else(schedule):
    schedule = schedule.changed(max_growth=100.0)
    plain = alphas(schedule, 6, kl=2.0)
    other = alphas(schedule, 6, values=20.0 * VALUES - 300.0, kl=2.0)
    np.testing.assert_allclose(other, 20.0 * plain, rtol=2e-3)
    assert (np.diff(plain) > 0).all()


def test_a_step_keeps_the_share_of_the_effective_sample_size():
    schedule = EffectiveSampleSize(share=0.8, max_growth=1e6)
    first, second = alphas(schedule, 2, kl=50.0)
    weights = np.exp((1 / second - 1 / first) * VALUES)
    share = weights.sum() ** 2 / (weights**2).sum() / len(VALUES)
    assert 0.8 <= share < 0.8 + 1e-3


def test_a_step_of_constant_speed_has_its_length_in_the_metric_of_fisher_and_rao():
    first, second = alphas(ConstantSpeed(length=0.2, max_growth=1e6), 2, kl=50.0)
    np.testing.assert_allclose((1 / first - 1 / second) * VALUES.std(), 0.2, rtol=1e-4)


def test_the_effective_share_falls_with_the_step():
    steps = jnp.linspace(0.0, 5.0, 50)
    mask = jnp.arange(len(VALUES)) < 6
    shares = jax.vmap(lambda step: effective_share(-step * VALUES, mask))(steps)
    assert float(shares[0]) == pytest.approx(1.0)
    assert (np.diff(shares) < 0).all()


@pytest.mark.parametrize("schedule", TEMPERED, ids=["share", "speed"])
def test_equal_values_let_alpha_grow_by_its_largest_factor_and_start_nothing(schedule):
    assert (alphas(schedule, 3, values=np.full(8, 4.1)) == 0.0).all()
    started = schedule.aim(evidence(memory=schedule.init(INITIAL)))
    after = schedule.aim(
        evidence(2, values=np.full(8, 4.1), memory=started.memory)
    ).alpha
    np.testing.assert_allclose(after, 1.5 * started.alpha, rtol=1e-5)


@pytest.mark.parametrize("schedule", TEMPERED, ids=["share", "speed"])
def test_alpha_ends_at_its_cap(schedule):
    schedule = schedule.changed(max_growth=1e3, max_alpha=50.0)
    np.testing.assert_allclose(alphas(schedule, 8, kl=0.1)[-1], 50.0, rtol=1e-5)


def test_a_chance_bound_lies_above_by_the_quantile_of_the_standard_error():
    error = VALUES[:5].std(ddof=1) / 5**0.5
    aim = ChanceBound(3.0, confidence=0.95).aim(evidence(rows=5))
    np.testing.assert_allclose(
        aim.performance_bound, 3.0 + stats.norm.ppf(0.95) * error, rtol=1e-5
    )
    assert aim.alpha is None
    plain = ChanceBound(3.0, confidence=0.5).aim(evidence(rows=5))
    np.testing.assert_allclose(plain.performance_bound, 3.0, rtol=1e-6)


def test_nothing_reaches_a_chance_bound_by_a_single_episode():
    assert float(ChanceBound(-5.0).aim(evidence(rows=1)).performance_bound) > 1e20


def test_rollback_is_the_bound_until_it_was_kept_and_lost():
    schedule = Rollback(3.5)
    never = schedule.aim(evidence(values=VALUES - 9, memory=schedule.init(INITIAL)))
    assert float(never.performance_bound) == 3.5
    assert not bool(never.memory.exists)
    np.testing.assert_array_equal(never.target.mean, TARGET.mean)


def test_rollback_returns_to_the_last_distribution_that_kept_the_bound():
    schedule = Rollback(2.0)
    good = dataclasses.replace(
        evidence(memory=schedule.init(TARGET)), distribution=INITIAL
    )
    kept = schedule.aim(good)
    np.testing.assert_array_equal(kept.target.mean, TARGET.mean)
    np.testing.assert_array_equal(kept.memory.distribution.mean, INITIAL.mean)
    lost = schedule.aim(
        dataclasses.replace(
            evidence(2, values=VALUES - 9, memory=kept.memory), distribution=TARGET
        )
    )
    np.testing.assert_array_equal(lost.target.mean, INITIAL.mean)
    np.testing.assert_array_equal(lost.memory.distribution.mean, INITIAL.mean)
    assert float(lost.performance_bound) < -1e20


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("linear", {"last": -1.0}, "schedule.last must be at least 0, got -1.0"),
        ("geometric", {"first": 0.0}, "schedule.first must be positive and finite, "),
        ("effective-sample-size", {"share": 1.0}, r"must lie in \[0.01, 0.999\]"),
        ("constant-speed", {"length": 0.0}, "length must be positive and finite"),
        ("smooth-proportion", {"width": 0.0}, "width must be positive and finite"),
        ("chance-bound", {"confidence": 0.3}, r"must lie in \[0.5, 0.9999\]"),
    ],
)
def test_a_wrong_setting_of_a_schedule_is_one_sentence(name, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        settings.check("schedule", catalogue.make("schedule", name, **wrong))
