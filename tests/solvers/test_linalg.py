import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.solvers.linalg import cholesky, solve_lower, solve_positive


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 9, 51])
def test_a_positive_definite_system_is_solved_to_machine_precision(size):
    rng = np.random.default_rng(size)
    factor = rng.normal(size=(size, size)) * 10.0 ** rng.uniform(-3, 3, size=(size, 1))
    matrix = factor @ factor.T + 1e-3 * np.diag(np.diagonal(factor @ factor.T))
    solution = rng.normal(size=(size, 2))
    with jax.enable_x64(True):
        found = solve_positive(jnp.asarray(matrix), jnp.asarray(matrix @ solution))
    np.testing.assert_allclose(matrix @ np.asarray(found), matrix @ solution, rtol=1e-9)


def test_an_indefinite_system_still_gives_a_direction_of_descent():
    matrix = np.array([[-2.0, 1.0, 0.5], [1.0, 0.0, -3.0], [0.5, -3.0, 4.0]])
    assert np.linalg.eigvalsh(matrix)[0] < 0
    for gradient in np.eye(3):
        step = -np.asarray(solve_positive(jnp.asarray(matrix), jnp.asarray(gradient)))
        assert step @ gradient < 0


@pytest.mark.parametrize("size", [5, 40])
def test_triangular_solve_and_cholesky_agree_with_numpy(size):
    rng = np.random.default_rng(0)
    matrix = np.cov(rng.normal(size=(size, 10 * size)))
    with jax.enable_x64(True):
        factor, positive = cholesky(jnp.asarray(matrix))
        inverse = solve_lower(factor, jnp.eye(size))
    assert bool(positive)
    np.testing.assert_allclose(
        factor, np.linalg.cholesky(matrix), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        np.asarray(inverse) @ np.linalg.cholesky(matrix), np.eye(size), atol=1e-12
    )


@pytest.mark.parametrize("size", [2, 20])
def test_cholesky_flags_an_indefinite_matrix_under_jit(size):
    factor, positive = jax.jit(cholesky)(2.0 - jnp.eye(size))
    assert not bool(positive)
    assert np.all(np.isfinite(factor))


def test_a_pivot_of_zero_counts_as_a_millionth_of_a_millionth_of_the_largest_entry():
    with jax.enable_x64(True):
        found = solve_positive(jnp.diag(jnp.array([4.0, 0.0])), jnp.array([1.0, 1.0]))
    np.testing.assert_allclose(found, [0.25, 1e12 / 4], rtol=1e-12)
