"""The small problem of an update in the coordinates of the Gaussian, against textbook formulas and automatic derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from spjax.contexts import Gaussian
from spjax.contexts.chart import LocalProblem, local_functions

MAX_KL = 0.3
SLACK, SLACK_SCALE = 0.4, 2.5
DIRECTIONS = pytest.mark.parametrize("direction", ["old-new", "new-old"])


def gaussian(mean, chol):
    return Gaussian(jnp.asarray(mean), jnp.asarray(chol))


def problem_of(bounded):
    """A problem far from the origin, with a floor on the first dimension alone."""
    random = np.random.default_rng(0)
    old = gaussian([3.0, -2.0], [[2.0, 0.0], [0.5, 1.5]])
    target = gaussian([1.0, 4.0], [[0.7, 0.0], [-0.2, 0.4]])
    contexts = jnp.asarray(random.normal([3.0, -2.0], 2.0, (7, 2)))
    data = old.chart.prepare(old, target, contexts, jnp.ones(7, bool))
    data = old.chart.with_floor(data, jnp.array([1.2, 0.0]))
    number = jnp.asarray
    return (
        contexts,
        LocalProblem(
            old=old,
            data=data,
            weights=jnp.asarray(random.normal(size=7)),
            performance_weight=number(0.8),
            target_weight=number(0.3),
            max_kl=number(MAX_KL),
            radius=number(np.sqrt(2 * MAX_KL)),
            slack=number(SLACK),
            slack_scale=number(SLACK_SCALE),
            bounded=number(bounded),
        ),
        target,
    )


def unknown(seed):
    return jnp.asarray(0.2 * np.random.default_rng(seed).normal(size=5))


def kl(p, q):
    """KL(p || q) by the textbook."""
    covariances = [np.asarray(one.chol @ one.chol.T) for one in (p, q)]
    inverse = np.linalg.inv(covariances[1])
    shift = np.asarray(q.mean - p.mean)
    log_dets = [np.linalg.slogdet(covariance)[1] for covariance in covariances]
    trace = np.trace(inverse @ covariances[0])
    return 0.5 * (trace + shift @ inverse @ shift - 2 + log_dets[1] - log_dets[0])


def gain_at(contexts, problem, new):
    """Returns how much the importance-weighted performance is above the old one."""
    new_log, old_log = (
        stats.multivariate_normal.logpdf(
            np.asarray(contexts), one.mean, one.chol @ one.chol.T
        )
        for one in (new, problem.old)
    )
    return np.asarray(problem.weights) @ (np.exp(new_log - old_log) - 1)


@DIRECTIONS
@pytest.mark.parametrize("bounded", [False, True])
def test_objective_and_constraints_are_those_of_the_textbook(bounded, direction):
    with jax.enable_x64(True):
        contexts, problem, target = problem_of(bounded)
        chart = problem.old.chart
        objective, constraints, _ = local_functions(chart, direction)
        y = unknown(1)
        z = problem.radius * y
        new = chart.at(problem.data, z)
        gain = gain_at(contexts, problem, new)
        to_target = kl(new, target) - kl(problem.old, target)
        assert float(objective(y, problem)) == pytest.approx(
            0.3 * to_target - 0.8 * gain, rel=1e-9
        )
        pair = (problem.old, new) if direction == "old-new" else (new, problem.old)
        shortfall = -(SLACK + gain) / SLACK_SCALE if bounded else -1.0
        # the standard deviation of 2 may fall to 1.2: W may grow by 2 / 1.2 - 1
        limit = (float(z[0]) - (2.0 / 1.2 - 1.0)) / np.sqrt(2 * MAX_KL)
        np.testing.assert_allclose(
            constraints(y, problem),
            [kl(*pair) / MAX_KL - 1, shortfall, limit, -1 / np.sqrt(2 * MAX_KL)],
            rtol=1e-8,
        )
        np.testing.assert_allclose(
            chart.coordinates(problem.data, new), z, rtol=1e-9, atol=1e-12
        )


@DIRECTIONS
def test_without_a_trust_region_nothing_is_violated_and_nothing_is_divided_by_zero(
    direction,
):
    _, problem, _ = problem_of(True)
    problem = problem.replace(radius=0 * problem.radius)
    _, constraints, _ = local_functions(problem.old.chart, direction)
    found = constraints(jnp.full(5, 0.7), problem)
    np.testing.assert_allclose(found, [-1, -SLACK / SLACK_SCALE, -1, -1], rtol=1e-5)


@pytest.mark.slow
@DIRECTIONS
@pytest.mark.parametrize("bounded", [False, True])
def test_hand_written_derivatives_are_the_automatic_ones(bounded, direction):
    with jax.enable_x64(True):
        _, problem, _ = problem_of(bounded)
        objective, constraints, derivatives = local_functions(
            problem.old.chart, direction
        )
        multipliers = jnp.array([0.7, 1.1, 0.5, 0.2])

        def lagrangian(y, problem):
            return objective(y, problem) + multipliers @ constraints(y, problem)

        @jax.jit
        def both(y):
            model = derivatives.model(y, problem)
            return (
                (model.value, objective(y, problem)),
                (model.constraints, constraints(y, problem)),
                (model.gradient, jax.grad(objective)(y, problem)),
                (model.jacobian, jax.jacrev(constraints)(y, problem)),
                (
                    derivatives.hessian(y, problem, multipliers),
                    jax.hessian(lagrangian)(y, problem),
                ),
            )

        for y in (unknown(2), jnp.zeros(5)):
            for ours, automatic in both(y):
                np.testing.assert_allclose(ours, automatic, rtol=1e-9, atol=1e-11)
