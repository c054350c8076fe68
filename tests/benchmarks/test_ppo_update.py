"""What an update is held against: its products, counted and computed by themselves."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed.ppo_update import SMALL, descended, operations, widths_of

LAYERS = widths_of(7, (64, 64), 2)


def test_operations_are_those_of_three_products_a_layer_less_one():
    assert LAYERS == [(7, 64), (64, 64), (64, 2)]
    first, second, third = 7 * 64, 64 * 64, 64 * 2
    assert operations(LAYERS, 10) == 2 * 10 * (2 * first + 3 * second + 3 * third)


def test_the_products_are_those_of_a_gradient():
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.normal(size=layer), jnp.float32) for layer in LAYERS]
    x = jnp.asarray(rng.normal(size=(5, 7)), jnp.float32)

    def loss(weights):
        first, second, third = weights
        return 0.5 * ((x @ first @ second @ third) ** 2).sum()

    wanted = jax.grad(loss)(weights)
    for new, old, gradient in zip(descended(weights, x), weights, wanted, strict=True):
        np.testing.assert_allclose(new, old - SMALL * gradient, rtol=1e-3, atol=1e-3)
