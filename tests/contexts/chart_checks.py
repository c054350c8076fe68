"""What every chart must say, and gradients through many updates against central differences."""

import jax
import jax.numpy as jnp
import numpy as np

STEP = 1e-4  # of a number, relative: solves are exact to 1e-8


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


def assert_chart_speaks_of_its_distributions(old, target, contexts, z, curvature):
    """Checks every function of the chart at ``z``, and the curvature of both divergences at the old distribution."""
    chart = old.chart
    data = chart.prepare(old, target, contexts, jnp.ones(len(contexts), bool))

    @jax.jit
    def both(z):
        new = chart.at(data, z)
        ratios = jax.vmap(lambda c: new.log_prob(c) - old.log_prob(c))(contexts)
        gain = new.kl_to(target) - old.kl_to(target)
        return (
            (chart.coordinates(data, new), z),
            (chart.log_ratios(data, z), ratios),
            (chart.kl_from_old(data, z, "old-new"), old.kl_to(new)),
            (chart.kl_from_old(data, z, "new-old"), new.kl_to(old)),
            (chart.kl_to_target_gain(data, z), gain),
        )

    for said, true in both(z):
        np.testing.assert_allclose(said, true, rtol=1e-9)

    @jax.jit
    def curvatures(z):
        return [
            jax.hessian(lambda z: chart.kl_from_old(data, z, direction))(z)
            for direction in ("old-new", "new-old")
        ]

    for found in curvatures(0 * z):
        np.testing.assert_allclose(np.diagonal(found), curvature, atol=1e-9)
