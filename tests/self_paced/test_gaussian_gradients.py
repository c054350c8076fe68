"""Derivatives of the closed-form update against central differences, in double precision."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from spjax.contexts import Gaussian
from spjax.self_paced.closed_form import update_gaussian
from tests.self_paced.gaussian_problems import PARTS


def gradient_inputs(moves_scale, case):
    """Two-dimensional inputs in which nothing, the trust region, V_LB, both, or the reward direction decides."""
    rng = np.random.default_rng(1)
    old = Gaussian(jnp.array([2.0, 4.0]), jnp.array([[2.0, 0.0], [0.4, 1.5]]))
    whitened = rng.normal(size=(20, 2))
    contexts = old.mean[None] + jnp.asarray(whitened) @ old.chol.T
    slope = whitened[:, 1] if not moves_scale else 0.5 * (whitened**2).sum(axis=1)
    values = 5 - 5 * whitened.mean(axis=0) @ whitened.T + 0.9 * jnp.asarray(slope)
    scale, shift = {"inside": (0.98, 0.05), "bound inside": (0.98, -0.05)}.get(
        case, (0.1, -2.0)
    )
    mean = old.mean + (
        jnp.array([0.1, 0.05])
        if moves_scale
        else shift * old.chol @ jnp.array([0.5, 1.0])
    )
    slack = {
        "inside": 2.0,
        "bound inside": 0.001,
        "border": 2.0,
        "both": 0.05,
        "reward": -1.0,
    }[case]
    return {
        "old": old,
        "target": Gaussian(mean, scale * old.chol if moves_scale else 3.0 * old.chol),
        "contexts": contexts,
        "values": values,
        "performance_bound": values.mean() - slack,
        "max_kl": jnp.asarray(0.05),
    }


@functools.cache
def loss_and_gradient(moves_scale):
    def loss(inputs):
        new, _ = update_gaussian(
            inputs["old"],
            inputs["target"],
            inputs["contexts"],
            inputs["values"],
            jnp.ones(20, bool),
            moves_scale=moves_scale,
            max_kl=inputs["max_kl"],
            performance_bound=inputs["performance_bound"],
            reached=False,
        )
        return (
            new.mean @ jnp.array([1.0, 2.0])
            + (new.chol * jnp.array([[1.0, 0.0], [3.0, 2.0]])).sum()
        )

    return jax.jit(loss), jax.jit(jax.grad(loss))


@pytest.mark.slow
@PARTS
@pytest.mark.parametrize("case", ["inside", "bound inside", "border", "both", "reward"])
def test_derivatives_equal_central_differences(moves_scale, case):
    loss, gradient = loss_and_gradient(moves_scale)
    with jax.enable_x64(True):
        inputs = gradient_inputs(moves_scale, case)
        computed = gradient(inputs)
        for name, value in inputs.items():
            flat, unflatten = ravel_pytree(value)
            along = np.random.default_rng(0).normal(size=flat.shape) * np.where(
                np.asarray(flat) == 0, 0.0, 1.0
            )
            ends = [
                loss(inputs | {name: unflatten(flat + sign * 1e-6 * along)})
                for sign in (1, -1)
            ]
            expected = float(ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(
                ravel_pytree(computed[name])[0] @ along, expected, rtol=1e-5, atol=1e-7
            )


@PARTS
def test_derivatives_are_finite_at_nan_values_at_a_trust_region_of_zero_and_at_the_target(
    moves_scale,
):
    _, gradient = loss_and_gradient(moves_scale)
    with jax.enable_x64(True):
        inputs = gradient_inputs(moves_scale, "border")
        poisoned = gradient(inputs | {"values": inputs["values"].at[3].set(jnp.nan)})
        np.testing.assert_array_equal(poisoned["values"], 0.0)
        np.testing.assert_allclose(poisoned["old"].mean, [1.0, 2.0])
        for changed in (
            {"max_kl": jnp.asarray(0.0)},
            {"target": inputs["old"]},
            {"values": jnp.zeros(20)},
        ):
            for leaf in jax.tree.leaves(gradient(inputs | changed)):
                assert np.all(np.isfinite(leaf))
