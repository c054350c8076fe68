"""Optimal transport of points against the exact assignment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from spjax.solvers.transport import transported


@pytest.mark.parametrize("seed", [0, 1])
def test_points_go_where_the_exact_assignment_takes_them(seed):
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(40, 2)).astype(np.float32)
    goals = rng.uniform(0.2, 0.9, size=(40, 2)).astype(np.float32)
    rows, columns = linear_sum_assignment(cdist(points, goals, "sqeuclidean"))
    exact = goals[columns[np.argsort(rows)]]
    found = transported(jnp.asarray(points), jnp.asarray(goals), blur=0.003)
    best = ((exact - points) ** 2).sum(axis=1).mean()
    assert ((found - points) ** 2).sum(axis=1).mean() == pytest.approx(best, rel=0.05)
    assert np.median(np.linalg.norm(found - exact, axis=1)) < 0.01
    np.testing.assert_allclose(found.mean(axis=0), goals.mean(axis=0), atol=0.01)


def test_a_shifted_set_is_shifted_and_a_set_stays_where_it_is_itself():
    points = jax.random.uniform(jax.random.key(2), (30, 3))
    np.testing.assert_allclose(
        transported(points, points, blur=0.002), points, atol=1e-3
    )
    shift = jnp.array([0.3, 0.0, -0.2])
    moved = transported(points, points + shift[None], blur=0.002)
    np.testing.assert_allclose(moved - points, jnp.tile(shift, (30, 1)), atol=5e-3)


def test_with_one_goal_all_go_there():
    points = jax.random.uniform(jax.random.key(3), (5, 2))
    goal = jnp.array([[0.5, 0.25]])
    np.testing.assert_allclose(
        transported(points, goal), jnp.tile(goal, (5, 1)), rtol=1e-6
    )
