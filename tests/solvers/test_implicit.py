"""The linear system behind the derivatives of a solution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.solvers.implicit import _solve_kkt


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_system_is_solved_however_scaled_where_only_the_constraint_makes_a_minimum(
    scale, size
):
    """H is negative along the one active constraint; the other, inactive one is as if it were not there."""
    hessian = size * np.array([[-5.0, 0.2], [0.2, 3.0]])
    jacobian = scale * np.array([[10.0, 1.0], [4.0, 7.0]])
    z_bar, multipliers_bar = np.array([0.3, -2.0]), np.array([1.7, 9.0])
    across = np.array([1.0, -10.0])
    assert across @ hessian @ across > 0 > hessian[0, 0]
    full = np.block([[hessian, jacobian[:1].T], [jacobian[:1], np.zeros((1, 1))]])
    expected = np.linalg.solve(full, [*z_bar, multipliers_bar[0]])

    with jax.enable_x64(True):
        active = jnp.array([True, False])
        direction, multiplier_direction = _solve_kkt(
            jnp.asarray(hessian),
            jnp.where(active[:, None], jnp.asarray(jacobian), 0.0),
            active,
            jnp.asarray(z_bar),
            jnp.asarray(multipliers_bar),
        )
    np.testing.assert_allclose(direction, expected[:2], rtol=1e-8)
    np.testing.assert_allclose(multiplier_direction, [expected[2], 0.0], rtol=1e-8)
