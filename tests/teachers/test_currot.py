"""CURROT: how far particles go, where they stop, where they start anew; against SciPy where it solves the same problem."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, minimize
from scipy.spatial.distance import cdist

from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.point_mass import PointMass
from spjax.episodes import Episodes
from spjax.teachers import CURROT
from spjax.teachers.currot import _shares_of_way
from tests.teachers.checks import check

SPACE = ContextSpace(("mass", "length"), ("kg", "m"), (-4.0, 0.0), (4.0, 2.0))
WIDTH = np.array([8.0, 2.0])
TEACHER = CURROT(
    initial=Gaussian.from_std((-2.0, 0.5), (0.4, 0.1)),
    target=Gaussian.from_std((3.0, 1.6), (0.2, 0.05)),
    num_particles=40,
    performance_bound=1.0,
    max_distance=0.1,
    min_episodes=40,
)


@pytest.fixture(scope="module")
def iterate():
    """One iteration of 64 episodes, half of which finish; in one program."""

    def run(state, key, returns_of):
        contexts = TEACHER.sample_many(state, key, SPACE, 64)
        slope, offset = returns_of
        share = (contexts - jnp.array(SPACE.lower)[None]) / jnp.array(WIDTH)[None]
        returns = offset + slope * share[:, 0]
        rows = Episodes(
            mask=jnp.arange(64) % 2 == 0,
            context=contexts,
            first_observation=jnp.zeros((64, 1)),
            episode_return=returns,
            discounted_return=returns,
            length=jnp.ones(64, jnp.int32),
            success=jnp.zeros(64, bool),
            ticket=(),
        )
        return TEACHER.update(state, jax.random.fold_in(key, 1), rows, lambda x: x)

    return jax.jit(run)


def play(iterate, returns_of, iterations):
    """The states from the first on, and the metrics."""
    states, metrics = [TEACHER.init(jax.random.key(0), SPACE)], []
    for number in range(iterations):
        state, metric = iterate(states[-1], jax.random.key(number), returns_of)
        states.append(state)
        metrics.append(metric)
    return states, metrics


def distance(a, b):
    """The exact Wasserstein distance of two sets of particles."""
    cost = cdist(a, b, "sqeuclidean")
    return np.sqrt(cost[linear_sum_assignment(cost)].mean())


def test_shares_of_the_ways_are_those_that_scipy_finds():
    rng = np.random.default_rng(1)
    for most in (0.05, 0.2, 2.0):
        way, caps = rng.normal(size=(8, 2)), rng.uniform(size=8) * rng.integers(0, 2, 8)
        squares = (way**2).sum(axis=1)
        found = _shares_of_way(jnp.asarray(way), jnp.asarray(caps), most)
        reference = minimize(
            lambda x, squares=squares: ((1 - x) ** 2 * squares).mean(),
            np.zeros(8),
            method="SLSQP",
            bounds=[(0.0, cap) for cap in caps],
            constraints={
                "type": "ineq",
                "fun": lambda x, squares=squares, most=most: (
                    most**2 - (x**2 * squares).mean()
                ),
            },
            options={"ftol": 1e-12},
        )
        np.testing.assert_allclose(found, reference.x, atol=2e-4)
        assert np.sqrt((np.asarray(found) ** 2 * squares).mean()) <= most


@pytest.mark.slow
def test_particles_go_to_the_target_in_steps_of_at_most_epsilon(iterate):
    states, metrics = play(iterate, (0.0, 2.0), 24)
    assert [int(m.updates) for m in metrics[:4]] == [0, 1, 1, 2]  # 32 episodes each
    np.testing.assert_array_equal(states[1].particles, states[0].particles)
    for old, new, metric in zip(states[:-1], states[1:], metrics, strict=True):
        assert distance(old.particles, new.particles) <= 0.1
        assert float(metric.step_distance) <= 0.1
    assert float(metrics[1].step_distance) > 0.099
    goals = np.asarray(TEACHER.target.sample_many(jax.random.key(9), SPACE, 40))
    goals = (goals - np.array(SPACE.lower)) / WIDTH
    assert distance(states[-1].particles, goals) < 0.03
    assert distance(states[0].particles, goals) > 0.7
    np.testing.assert_allclose(metrics[-1].context_mean, (3.0, 1.6), atol=0.15)


@pytest.mark.slow
def test_particles_stop_where_the_expected_return_would_fall_below_delta(iterate):
    states, metrics = play(iterate, (-2.0, 2.0), 30)  # below 1 from the middle on
    last = np.asarray(states[-1].particles)
    assert last[:, 0].max() < 0.65
    assert last[:, 0].mean() > 0.4
    assert float(metrics[-1].expected_return) == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_without_a_success_particles_search_around_the_better_half(iterate):
    states, metrics = play(iterate, (0.5, 0.0), 12)  # a return of 1 is out of reach
    assert float(states[0].particles[:, 0].mean()) == pytest.approx(0.25, abs=0.03)
    assert float(states[-1].particles[:, 0].mean()) > 0.4
    assert int(states[-1].successes.count) == 0
    assert float(metrics[-1].able_fraction) == 0.0
    assert np.all((states[-1].particles >= 0) & (states[-1].particles <= 1))


@pytest.mark.slow
def test_expected_returns_are_means_weighted_by_a_normal_kernel(iterate):
    (*_, state), _ = play(iterate, (-2.0, 2.0), 2)
    points = jax.random.uniform(jax.random.key(5), (7, 2))
    known, returns = [], []
    for history in (state.successes, state.failures):
        count = min(int(history.count), 40)
        known.append(np.asarray(history.contexts).T[:count])
        returns.append(np.asarray(history.returns)[:count])
    weights = np.exp(-50.0 * cdist(points, np.concatenate(known), "sqeuclidean"))
    expected = weights @ np.concatenate(returns) / weights.sum(axis=1)
    np.testing.assert_allclose(TEACHER._expected(state, points), expected, rtol=1e-3)


def test_particles_start_all_over_the_space_where_nothing_else_is_said():
    task = PointMass(dimensions=2)
    teacher = CURROT().bound_to(task)
    check(teacher, task.context_space)
    start = teacher.init(jax.random.key(0), task.context_space)
    np.testing.assert_allclose(start.particles.mean(axis=0), (0.5, 0.5), atol=0.06)
    assert teacher.aims_at is not None
    contexts = teacher.sample_many(start, jax.random.key(1), task.context_space, 8)
    for context in np.asarray(contexts).tolist():
        task.context_space.check(context)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_particles": 1}, "teacher.num_particles must be at least 2, got 1"),
        ({"max_distance": 0.0}, "teacher.max_distance must be positive and finite"),
        ({"bandwidth": -0.1}, "teacher.bandwidth must be positive and finite"),
        ({"min_episodes": 0}, "teacher.min_episodes must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_named(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check(TEACHER.replace(**change), SPACE)
