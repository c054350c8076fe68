"""The closed-form update of mean and scale: its formulas against SciPy, a grid and the full solve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.context_problems import gaussian_kl, objective, performance
from spjax.contexts import Gaussian
from spjax.self_paced import Mode
from spjax.self_paced.closed_form import update_gaussian
from tests.self_paced.gaussian_problems import (
    PARTS,
    family_batch,
    slopes,
    step,
    unreachable,
)
from tests.self_paced.problems import LANES, lane, problem_batch, run


def test_the_slopes_of_the_expansion_are_those_of_the_importance_weighted_performance():
    problem = lane(family_batch("float64"), 1)
    by_mean, by_scale = slopes(problem)
    start = performance(problem, problem.old_mean, problem.old_chol)
    for axis in range(3):
        moved = performance(
            problem,
            problem.old_mean + 1e-6 * problem.old_chol[:, axis],
            problem.old_chol,
        )
        np.testing.assert_allclose(
            (moved - start) / 1e-6, by_mean[axis], rtol=1e-4, atol=1e-4
        )
    moved = performance(problem, problem.old_mean, problem.old_chol * np.exp(0.5e-6))
    np.testing.assert_allclose((moved - start) / 1e-6, by_scale, rtol=1e-4, atol=1e-4)


def test_before_v_lb_is_reached_a_mean_step_goes_along_the_performance_slope_to_the_border():
    batch = unreachable(family_batch("float64"))
    new, record = step(batch, False)
    assert np.all(record.mode == Mode.REWARD)
    for index in range(LANES):
        problem = lane(batch, index)
        slope, _ = slopes(problem)
        d = np.sqrt(2 * problem.max_kl) * slope / np.linalg.norm(slope)
        width = np.diagonal(problem.old_chol)
        np.testing.assert_allclose(
            (new.mean[index] - problem.old_mean) / width, d, atol=1e-9
        )
        np.testing.assert_array_equal(new.chol[index], problem.old_chol)


OLD_CHOL = np.array([[2.0, 0.0], [0.4, 1.5]])
TARGET_CHOL = np.array([[1.9, 0.0], [0.1, 1.2]])
WHITENED = np.random.default_rng(0).normal(size=(9, 2))


@jax.jit
def scale_update(old, target, contexts, values, bound):
    return update_gaussian(
        old,
        target,
        contexts,
        values,
        jnp.ones(9, bool),
        moves_scale=True,
        max_kl=0.2,
        performance_bound=bound,
        reached=False,
    )


def scale_step(values, slack):
    """Returns the distribution after one scale step from a mean of (1, -2), with the target's mean far away."""
    mean = np.array([1.0, -2.0])
    with jax.enable_x64(True):
        new, record = scale_update(
            Gaussian(jnp.asarray(mean), jnp.asarray(OLD_CHOL)),
            Gaussian(jnp.asarray(mean + 9.0), jnp.asarray(TARGET_CHOL)),
            jnp.asarray(mean + WHITENED @ OLD_CHOL.T),
            jnp.asarray(values),
            values.mean() - slack,
        )
    assert record.mode == Mode.TARGET
    np.testing.assert_array_equal(new.mean, mean)
    return new


@pytest.mark.slow
def test_a_scale_step_ends_at_the_scale_nearest_to_the_target_if_nothing_forbids_it():
    """KL(new || target) of the covariance s S0 is (s tr(St^-1 S0) - k log s) / 2 + const, least at s = k / tr(St^-1 S0)."""
    covariance, wanted = OLD_CHOL @ OLD_CHOL.T, TARGET_CHOL @ TARGET_CHOL.T
    scale = 2 / np.trace(np.linalg.solve(wanted, covariance))
    assert 0.7 < scale < 0.9
    new = scale_step(np.full(9, 5.0), slack=25.0)
    np.testing.assert_allclose(new.chol, np.sqrt(scale) * OLD_CHOL, rtol=1e-10)


def test_a_scale_step_gives_up_no_more_performance_than_there_is_to_spare():
    """To first order the performance changes by q tau, q = mean(V (|u|^2 - k)) / 2, and exp(tau) scales the covariance."""
    squares = (WHITENED**2).sum(axis=1)
    slope = (squares * (squares - 2)).mean() / 2
    assert slope > 0.3
    new = scale_step(squares, slack=0.02)
    tau = -0.02 / slope  # the target is narrower
    np.testing.assert_allclose(new.chol, np.exp(tau / 2) * OLD_CHOL, rtol=1e-10)


def test_before_v_lb_is_reached_a_scale_step_follows_the_sign_of_the_slope_to_its_limit():
    batch = unreachable(family_batch("float64"))._replace(
        std_floor=np.zeros((LANES, 3))
    )
    new, record = step(batch, True)
    for index in range(LANES):
        problem = lane(batch, index)
        change = np.log(new.chol[index, 0, 0] / problem.old_chol[0, 0])
        assert np.sign(change) == np.sign(slopes(problem)[1])
    np.testing.assert_array_equal(new.mean, batch.old_mean)
    ordinary = batch.max_kl <= 0.05
    assert np.all(record.kl[ordinary] > 0.9 * batch.max_kl[ordinary])


@pytest.mark.parametrize("slack", [0.0, 0.05, 0.3, 100.0])
def test_a_mean_step_towards_the_target_is_the_nearest_feasible_one_that_scipy_finds(
    slack,
):
    batch = problem_batch("float64")
    start = np.array(
        [lane(batch, i).values[batch.mask[i]].mean() for i in range(LANES)]
    )
    batch = family_batch("float64")._replace(performance_bound=start - slack - 1e-12)
    new, record = step(batch, False)
    assert np.all(record.mode == Mode.TARGET)
    for index in range(13):
        problem = lane(batch, index)
        wish = np.linalg.solve(problem.old_chol, problem.target_mean - problem.old_mean)
        wish *= min(
            1.0, 10 / max(np.linalg.norm(wish), 1e-300)
        )  # the nearest point is the same from nearer by
        slope, _ = slopes(problem)
        found = minimize(
            lambda d, wish=wish: ((d - wish) ** 2).sum(),
            np.zeros(3),
            jac=lambda d, wish=wish: 2 * (d - wish),
            method="SLSQP",
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda d, p=problem: 2 * p.max_kl - d @ d,
                    "jac": lambda d: -2 * d,
                },
                {
                    "type": "ineq",
                    "fun": lambda d, s=slope: slack + 1e-12 + d @ s,
                    "jac": lambda d, s=slope: s,
                },
            ],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        d = np.linalg.solve(problem.old_chol, new.mean[index] - problem.old_mean)
        if np.array_equal(new.chol[index], problem.target_chol):
            np.testing.assert_array_equal(new.mean[index], problem.target_mean)
        else:
            np.testing.assert_allclose(d, found.x, atol=2e-5)
        assert slack + d @ slope >= -1e-9


def test_a_scale_step_towards_the_target_is_the_best_feasible_one_of_a_fine_grid():
    batch = family_batch("float64")._replace(std_floor=np.zeros((LANES, 3)))
    new, record = step(batch, True)
    toward = np.flatnonzero(record.mode == Mode.TARGET)
    assert toward.size > 40
    for index in toward:
        problem = lane(batch, index)
        slack = problem.values[problem.mask].mean() - problem.performance_bound
        _, slope = slopes(problem)
        tau = 2 * np.log(new.chol[index, 0, 0] / problem.old_chol[0, 0])
        wish = 2 * np.log(problem.target_chol[0, 0] / problem.old_chol[0, 0])
        grid = np.linspace(0, wish, 4001)
        kl = 1.5 * (np.exp(-grid) - 1 + grid)
        best = grid[(kl <= problem.max_kl) & (slack + slope * grid >= 0)][-1]
        used_up = (
            gaussian_kl(
                problem.old_mean, problem.old_chol, new.mean[index], new.chol[index]
            )
            / problem.max_kl
        )
        assert abs(tau) <= abs(best) + abs(wish) / 4000 + 1e-12
        assert abs(tau - best) <= abs(wish) / 4000 + 1e-9 or used_up > 0.8


@PARTS
def test_towards_the_target_the_distance_never_grows(moves_scale):
    batch = family_batch("float64")
    new, record = step(batch, moves_scale)
    for index in np.flatnonzero(record.mode == Mode.TARGET):
        problem = lane(batch, index)
        before = objective(problem, problem.old_mean, problem.old_chol, "target")
        assert objective(
            problem, new.mean[index], new.chol[index], "target"
        ) <= before * (1 + 1e-12)


@pytest.mark.slow
def test_a_mean_step_reaches_most_of_the_improvement_of_the_full_solve_and_never_more_while_v_lb_is_kept():
    batch = family_batch("float64")
    closed, record = step(batch, False)
    solved, _ = run("bound", batch)
    shares = []
    for index in np.flatnonzero(record.mode == Mode.TARGET):
        problem = lane(batch, index)
        ends = [(r.mean[index], r.chol[index]) for r in (closed, solved)]
        before = objective(problem, problem.old_mean, problem.old_chol, "target")
        gains = [before - objective(problem, *end, "target") for end in ends]
        if gains[1] > 1e-6 * before:
            shares.append(gains[0] / gains[1])
            kept = performance(problem, *ends[0]) >= problem.performance_bound
            assert shares[-1] <= 1 + 1e-6 or not kept
    assert len(shares) > 30
    assert np.median(shares) > 0.95
    assert np.quantile(shares, 0.1) > 0.75


@PARTS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_target_within_reach_is_returned_exactly_whatever_its_shape(
    moves_scale, dtype
):
    batch = problem_batch(dtype)
    near = 0.02 * np.diagonal(batch.old_chol, axis1=1, axis2=2)
    batch = batch._replace(
        target_mean=batch.old_mean + near,
        target_chol=batch.old_chol + 0.01 * near[:, :, None] * np.eye(3, dtype=dtype),
        performance_bound=batch.performance_bound - 100,
        std_floor=np.zeros_like(batch.std_floor),
        max_kl=np.full(LANES, 0.05, dtype),
    )
    new, _ = step(batch, moves_scale)
    np.testing.assert_array_equal(new.mean, batch.target_mean)
    np.testing.assert_array_equal(new.chol, batch.target_chol)


def test_a_target_within_reach_that_loses_v_lb_is_approached_only_as_far_as_v_lb_is_kept():
    batch = problem_batch("float64")
    down = [
        -0.1 * slopes(lane(batch, i))[0] / np.linalg.norm(slopes(lane(batch, i))[0])
        for i in range(LANES)
    ]
    bound = [batch.values[i][batch.mask[i]].mean() - 1e-3 for i in range(LANES)]
    batch = batch._replace(
        target_mean=batch.old_mean
        + (batch.old_chol @ np.array(down)[..., None])[..., 0],
        target_chol=batch.old_chol,
        performance_bound=np.array(bound),
        max_kl=np.full(LANES, 0.05),
    )
    new, _ = step(batch, False)
    for index in range(LANES):
        slope, _ = slopes(lane(batch, index))
        d = np.linalg.solve(
            batch.old_chol[index], new.mean[index] - batch.old_mean[index]
        )
        if (
            performance(
                lane(batch, index), batch.target_mean[index], batch.target_chol[index]
            )
            < bound[index]
        ):
            np.testing.assert_allclose(
                d @ slope,
                max(-1e-3, -0.1 * np.linalg.norm(slope)),
                rtol=1e-6,
                atol=1e-9,
            )
        else:
            np.testing.assert_array_equal(new.mean[index], batch.target_mean[index])
