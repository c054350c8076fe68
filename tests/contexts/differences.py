"""Gradients through many updates, against central differences."""

import jax
import jax.numpy as jnp
import numpy as np

STEP = 1e-5  # of a number, relative


def assert_gradients_are_central_differences(end, numbers):
    """Checks the gradient of ``end(numbers) -> (value, results)``; every update must have converged."""
    run = jax.jit(jax.value_and_grad(end, has_aux=True))
    (_, results), gradient = run(numbers)
    assert (results == 0).all()
    for which in range(numbers.size):
        step = STEP * numbers[which] * jnp.eye(numbers.size)[which]
        rise = run(numbers + step)[0][0] - run(numbers - step)[0][0]
        difference = rise / (2 * STEP * numbers[which])
        np.testing.assert_allclose(gradient[which], difference, rtol=1e-3)
