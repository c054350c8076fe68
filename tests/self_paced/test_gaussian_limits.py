"""What the closed-form update promises for any input: trust region, floors, result codes, batches, precision."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.context_problems import kl_used
from spjax.contexts import Gaussian, kl_divergence
from spjax.self_paced import Mode
from spjax.self_paced.closed_form import update_gaussian
from spjax.solvers.augmented_lagrangian import Result
from tests.self_paced.gaussian_problems import (
    PARTS,
    SINGLE,
    family_batch,
    step,
    unreachable,
    update,
)
from tests.self_paced.problems import LANES, lane, problem_batch


@PARTS
@pytest.mark.parametrize("bound_reached", [False, True])
@pytest.mark.parametrize(
    "make", [family_batch, problem_batch], ids=["target's shape", "any shape"]
)
def test_single_precision_results_keep_trust_region_and_floors_after_rounding(
    moves_scale, bound_reached, make
):
    batch = make("float32") if bound_reached else unreachable(make("float32"))
    new, record = step(batch, moves_scale)
    assert new.mean.dtype == np.float32
    assert np.all(record.result == Result.CONVERGED)
    for index in range(LANES):
        problem = lane(batch, index)
        mean, chol = new.mean[index].astype(float), new.chol[index].astype(float)
        used = kl_used(problem, mean, chol, "old-new")
        assert used <= problem.max_kl
        assert record.kl[index] == pytest.approx(used, rel=1e-3, abs=1e-9)
        assert np.all(np.diagonal(chol) > 0)
        assert np.all(
            np.diagonal(chol)
            >= np.minimum(problem.std_floor, np.diagonal(problem.old_chol))
        )


def test_a_target_below_the_floor_is_not_returned():
    batch = family_batch("float64")
    floor = np.diagonal(batch.old_chol, axis1=1, axis2=2)
    batch = batch._replace(
        target_mean=batch.old_mean, target_chol=0.99 * batch.old_chol, std_floor=floor
    )
    new, _ = step(batch, True)
    np.testing.assert_array_equal(new.chol, batch.old_chol)


def test_a_floor_in_one_dimension_stops_the_scale_of_all():
    batch = family_batch("float64")
    floor = 0.9 * batch.old_chol[:, 0, 0, None] * np.array([1.0, 0.0, 0.0])
    batch = batch._replace(
        std_floor=floor,
        performance_bound=np.full(LANES, -1e9),
        max_kl=np.full(LANES, 0.05),
    )
    new, _ = step(batch._replace(target_chol=0.1 * batch.old_chol), True)
    np.testing.assert_allclose(new.chol, 0.9 * batch.old_chol, rtol=1e-12)


def test_a_floor_above_the_deviation_stops_narrowing_and_allows_widening():
    batch = family_batch("float64")
    floor = 2 * np.diagonal(batch.old_chol, axis1=1, axis2=2)
    batch = batch._replace(
        std_floor=floor,
        performance_bound=np.full(LANES, -1e9),
        max_kl=np.full(LANES, 0.05),
    )
    narrow, _ = step(batch._replace(target_chol=0.1 * batch.old_chol), True)
    np.testing.assert_array_equal(narrow.chol, batch.old_chol)
    wide, _ = step(batch._replace(target_chol=10 * batch.old_chol), True)
    assert np.all(np.diagonal(wide.chol, axis1=1, axis2=2) > 0.55 * floor)


@pytest.mark.slow
def test_reward_then_approach_then_freeze_in_one_compiled_function():
    problem = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), family_batch("float32"))
    shape = jnp.sin(jnp.arange(32.0))
    traced = jax.jit(chex.assert_max_traces(update, 1))
    reached, modes = jnp.array(False), []
    for mean in (1.0, 4.0, 2.0, 4.0):
        values = mean + shape - shape[problem.mask].mean()
        moved = problem._replace(values=values, performance_bound=jnp.float32(3.5))
        for part in (False, True):
            new, record = traced(moved, jnp.asarray(part), reached)
            frozen = int(record.mode) == Mode.FROZEN
            assert bool(jnp.all(new.mean == problem.old_mean)) == (part or frozen)
            assert bool(jnp.all(new.chol == problem.old_chol)) == (not part or frozen)
        reached = record.reached
        modes.append(int(record.mode))
    assert modes == [Mode.REWARD, Mode.TARGET, Mode.FROZEN, Mode.TARGET]


@PARTS
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_poisoned_lane_keeps_its_distribution_and_changes_no_other_lane(
    moves_scale, bad
):
    batch = family_batch("float32")
    clean, _ = step(batch, moves_scale)
    values = batch.values.copy()
    values[5, 2] = bad
    new, record = step(batch._replace(values=values), moves_scale)
    assert record.result[5] == Result.NOT_FINITE
    assert record.kl[5] == 0
    np.testing.assert_array_equal(new.mean[5], batch.old_mean[5])
    np.testing.assert_array_equal(new.chol[5], batch.old_chol[5])
    others = np.arange(LANES) != 5
    np.testing.assert_array_equal(new.mean[others], clean.mean[others])
    np.testing.assert_array_equal(new.chol[others], clean.chol[others])


@PARTS
def test_no_data_returns_the_old_distribution_bit_for_bit_whatever_the_buffer_holds(
    moves_scale,
):
    batch = family_batch("float32")
    new, record = step(
        batch._replace(mask=np.zeros_like(batch.mask), values=batch.values * np.nan),
        moves_scale,
    )
    assert np.all(record.result == Result.NO_DATA)
    assert not record.reached.any()
    np.testing.assert_array_equal(new.mean, batch.old_mean)
    np.testing.assert_array_equal(new.chol, batch.old_chol)


@PARTS
def test_what_is_masked_out_does_not_matter(moves_scale):
    batch = family_batch("float32")
    clean, _ = step(batch, moves_scale)
    hidden = ~batch.mask
    contexts = np.where(hidden[..., None], np.float32(1e30), batch.contexts)
    new, _ = step(
        batch._replace(
            values=np.where(hidden, np.nan, batch.values), contexts=contexts
        ),
        moves_scale,
    )
    np.testing.assert_array_equal(new.mean, clean.mean)
    np.testing.assert_array_equal(new.chol, clean.chol)


@PARTS
def test_a_trust_region_of_zero_keeps_the_distribution(moves_scale):
    batch = family_batch("float32")
    batch = batch._replace(max_kl=np.zeros_like(batch.max_kl))
    new, record = step(batch, moves_scale)
    assert np.all(record.result == Result.CONVERGED)
    np.testing.assert_array_equal(new.mean, batch.old_mean)
    np.testing.assert_array_equal(new.chol, batch.old_chol)


@PARTS
def test_a_batch_equals_a_loop_over_single_updates(moves_scale):
    batch = family_batch("float32")
    together, _ = step(batch, moves_scale)
    for index in range(13):
        alone, _ = SINGLE(
            jax.tree.map(lambda leaf: jnp.asarray(leaf[index]), batch),
            moves_scale,
            False,
        )
        width = np.abs(batch.old_chol[index]).max()
        np.testing.assert_allclose(
            together.mean[index], alone.mean, rtol=3e-7, atol=1e-6 * width
        )
        np.testing.assert_allclose(together.chol[index], alone.chol, atol=1e-6 * width)


def test_turns_lead_from_the_initial_to_exactly_the_narrow_target_in_single_and_double_precision():
    noise = np.random.default_rng(0).normal(size=(160, 30, 3))

    def curriculum(dtype):
        old = Gaussian.from_std(
            np.array([0.0, 4.25, 2.0], dtype), np.array([2.0, 1.875, 1.0], dtype)
        )
        target = Gaussian.from_std(
            np.array([2.5, 0.5, 0.0], dtype), np.array([4e-3, 3.75e-3, 2e-3], dtype)
        )

        def turn(old, inputs):
            number, noise = inputs
            contexts = old.mean[None] + noise @ old.chol.T
            far = kl_divergence(old, target) > 8000.0
            floor = jnp.where(far, jnp.array([0.2, 0.1875, 0.1], dtype), 0.0)
            values = 5 + jnp.tanh(contexts[:, 1] - 4)
            settings = {
                "max_kl": 0.05,
                "performance_bound": 3.5,
                "reached": True,
                "std_floor": floor,
            }
            new, record = update_gaussian(
                old,
                target,
                contexts,
                values,
                jnp.ones(30, bool),
                moves_scale=number % 2 == 1,
                **settings,
            )
            return new, (new, record.kl)

        return target, jax.lax.scan(
            turn, old, (jnp.arange(160), jnp.asarray(noise, dtype))
        )[1]

    ends = {}
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            target, (path, kl) = jax.tree.map(
                np.asarray, jax.jit(curriculum, static_argnums=0)(dtype)
            )
        assert kl.max() <= 0.05
        np.testing.assert_array_equal(path.mean[-1], target.mean)
        np.testing.assert_array_equal(path.chol[-1], target.chol)
        ends[dtype] = path
    width = np.diagonal(ends["float64"].chol, axis1=1, axis2=2)
    np.testing.assert_allclose(
        (ends["float32"].mean - ends["float64"].mean) / width, 0.0, atol=1e-2
    )
