"""The bound rule with a backup: a bound that is missed is looked for within the trust region, and then kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.self_paced import Mode, update_context
from spjax.solvers.augmented_lagrangian import Result

MAX_KL = 0.05
CONTEXTS = jnp.linspace(-2.5, 2.5, 41)[:, None]
VALUES = jnp.tanh(2 * CONTEXTS[:, 0])  # their mean is 0
WITHIN_REACH, OUT_OF_REACH = 0.05, 0.9


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


def update(bound, max_kl, reached=True):
    old, target = Gaussian.from_std([0.0], [1.0]), Gaussian.from_std([-3.0], [0.5])
    return update_context(
        old,
        target,
        CONTEXTS.astype(float),
        VALUES.astype(float),
        jnp.ones(41, bool),
        performance_bound=bound,
        reached=reached,
        max_kl=max_kl,
        backup=True,
    )


def cost(bound, max_kl):
    new, record = update(bound, max_kl)
    target = Gaussian.from_std([-3.0], [0.5])
    return new.kl_to(target), (new, record)


@pytest.fixture(scope="module")
def updates():
    """The slopes, costs, distributions and records of bounds that are kept, within reach and out of it, in one program."""
    with jax.enable_x64(True):
        step = 1e-5
        bounds = [-0.3, WITHIN_REACH, OUT_OF_REACH]
        near = [WITHIN_REACH - step, WITHIN_REACH + step, WITHIN_REACH, WITHIN_REACH]
        regions = [MAX_KL] * 5 + [MAX_KL - step, MAX_KL + step]
        differentiated = jax.value_and_grad(cost, argnums=(0, 1), has_aux=True)
        (costs, aux), slopes = jax.jit(jax.vmap(differentiated))(
            jnp.array(bounds + near), jnp.array(regions)
        )
    return jax.tree.map(np.asarray, (costs, *aux, slopes))


def performance(new, lane):
    """The importance-weighted mean of the values."""
    x, mean, std = np.asarray(CONTEXTS)[:, 0], new.mean[lane], new.chol[lane, 0]
    ratios = np.exp(0.5 * x**2 - 0.5 * ((x - mean) / std) ** 2) / std
    return float((ratios.squeeze() * np.asarray(VALUES)).mean())


@pytest.mark.slow
def test_what_is_done_depends_on_where_the_bound_is(updates):
    _, new, record, _ = updates
    assert list(record.mode[:3]) == [Mode.TARGET, Mode.RESTORED, Mode.REWARD]
    assert np.all(record.result == Result.CONVERGED)
    assert np.all(record.reached)
    assert np.all(record.kl[:3] <= MAX_KL)
    assert performance(new, 0) >= -0.3
    assert performance(new, 1) == pytest.approx(WITHIN_REACH, abs=1e-6)
    assert performance(new, 1) >= WITHIN_REACH
    assert WITHIN_REACH < performance(new, 2) < OUT_OF_REACH
    assert record.kl[2] == pytest.approx(MAX_KL, rel=1e-6)


@pytest.mark.slow
def test_a_restored_bound_lets_the_target_come_nearer_than_the_best_performance(
    updates,
):
    costs = updates[0]
    assert costs[0] < costs[1] < costs[2]


@pytest.mark.slow
def test_derivatives_of_a_restored_update_are_central_differences(updates):
    costs, _, record, (by_bound, by_region) = updates
    expected = (costs[4] - costs[3]) / 2e-5, (costs[6] - costs[5]) / 2e-5
    np.testing.assert_allclose((by_bound[1], by_region[1]), expected, rtol=1e-4)
    np.testing.assert_allclose(
        (record.bound_price[1], -record.kl_price[1]), expected, rtol=1e-4
    )


def test_a_backup_without_a_bound_is_refused():
    contexts = CONTEXTS.astype(float)
    old = Gaussian.from_std([0.0], [1.0])
    with pytest.raises(ValueError, match=r"^backup is for the bound rule; give perf"):
        update_context(
            old,
            old,
            contexts,
            contexts[:, 0],
            jnp.ones(41, bool),
            max_kl=MAX_KL,
            alpha=1.0,
            backup=True,
        )
