"""An update that is frozen: the old distribution is passed on, and so are its derivatives alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.self_paced import Mode, update_context


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_what_is_lost_again_keeps_the_distribution_and_depends_on_nothing_else(
    precision,
):
    mean_weights, chol_weights = jnp.array([1.0, 2.0]), jnp.array([[1, 0], [3, 2.0]])
    contexts = jnp.asarray(np.random.default_rng(0).normal(size=(8, 2)), jnp.float32)

    def loss(inputs):
        new, update = update_context(
            inputs["old"],
            inputs["target"],
            contexts,
            inputs["values"],
            jnp.ones(8, bool),
            max_kl=inputs["max_kl"],
            performance_bound=inputs["bound"],
            reached=True,
            precision=precision,
        )
        value = new.mean @ mean_weights + (new.chol * chol_weights).sum()
        return value, (new, update)

    inputs = {
        "old": Gaussian(jnp.array([0.3, -0.2]), jnp.array([[1.0, 0.0], [0.2, 0.8]])),
        "target": Gaussian(jnp.array([3.0, 1.0]), 0.1 * jnp.eye(2)),
        "values": jnp.arange(8.0),
        "max_kl": jnp.asarray(0.05),
        "bound": jnp.asarray(100.0),
    }
    slopes, (new, update) = jax.jit(jax.grad(loss, has_aux=True))(inputs)
    assert update.mode == Mode.FROZEN
    jax.tree.map(np.testing.assert_array_equal, new, inputs["old"])
    np.testing.assert_allclose(slopes["old"].mean, mean_weights, rtol=1e-5)
    np.testing.assert_allclose(slopes["old"].chol, chol_weights, rtol=1e-5)
    for name in ("target", "values", "max_kl", "bound"):
        for leaf in jax.tree.leaves(slopes[name]):
            np.testing.assert_array_equal(leaf, 0.0)
