"""Derivatives of the update against central differences, in double precision."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from spjax.contexts import Gaussian, kl_divergence
from spjax.self_paced import update_context
from spjax.solvers.augmented_lagrangian import DEFAULT_CONFIG

INPUTS = ("values", "contexts", "setting", "max_kl", "old", "target")


@functools.cache
def compiled(rule, direction, config=DEFAULT_CONFIG):
    def loss(inputs):
        setting = inputs["setting"]
        rules = {
            "proportion": {"alpha": setting},
            "bound": {"performance_bound": setting, "reached": False},
        }
        new, record = update_context(
            inputs["old"],
            inputs["target"],
            inputs["contexts"],
            inputs["values"],
            jnp.ones(20, bool),
            max_kl=inputs["max_kl"],
            kl_direction=direction,
            config=config,
            **rules[rule],
        )
        value = (
            new.mean @ jnp.array([1.0, 2.0])
            + (new.chol * jnp.array([[1.0, 0.0], [3.0, 2.0]])).sum()
        )
        return value, (new, record)

    update, gradient = jax.jit(loss), jax.jit(jax.grad(loss, has_aux=True))
    return update, lambda inputs: gradient(inputs)[0]


def make_inputs(rule, active):
    rng = np.random.default_rng(1)
    old = Gaussian(jnp.array([2.0, 4.0]), jnp.array([[2.0, 0.0], [0.4, 1.5]]))
    contexts = old.mean[None] + jnp.asarray(rng.normal(size=(20, 2))) @ old.chol.T
    values = 5 + jnp.tanh(contexts[:, 0] - 2) + 0.1 * jnp.asarray(rng.normal(size=20))
    close = Gaussian(old.mean + 0.05, old.chol * 0.97)
    far = Gaussian(jnp.array([2.5, 0.5]), jnp.diag(jnp.array([0.2, 0.1])))
    setting = {"proportion": 0.02 if active else 400.0, "bound": values.mean() - 0.02}[
        rule
    ]
    return {
        "old": old,
        "target": far if active else close,
        "contexts": contexts,
        "values": values,
        "setting": jnp.asarray(setting),
        "max_kl": jnp.asarray(0.05),
    }


def directional(rule, direction, inputs, name, seed=0):
    """Returns the derivative of the loss along a random direction of one input, and its central difference."""
    loss, gradient = compiled(rule, direction)
    flat, unflatten = ravel_pytree(inputs[name])
    along = np.random.default_rng(seed).normal(size=flat.shape) * np.where(
        np.asarray(flat) == 0, 0.0, 1.0
    )
    step = 1e-5 * max(1e-3, float(np.abs(flat).max()))
    ends = [
        loss(inputs | {name: unflatten(flat + sign * step * along)})[0]
        for sign in (1, -1)
    ]
    computed = ravel_pytree(gradient(inputs)[name])[0] @ along
    return float(computed), float((ends[0] - ends[1]) / (2 * step))


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(
    ("rule", "direction"), [("proportion", "old-new"), ("bound", "new-old")]
)
def test_derivatives_at_an_active_trust_region_equal_central_differences(
    rule, direction, name
):
    with jax.enable_x64(True):
        computed, difference = directional(
            rule, direction, make_inputs(rule, active=True), name
        )
    assert difference != 0
    np.testing.assert_allclose(computed, difference, rtol=1e-4)


def attained(rule, inputs, new):
    """Returns the objective of an update: what is gained, or how near the target is."""
    ratios = jnp.exp(
        jax.vmap(lambda c: new.log_prob(c) - inputs["old"].log_prob(c))(
            inputs["contexts"]
        )
    )
    distance = kl_divergence(new, inputs["target"])
    if rule == "bound":
        return -float(distance)
    return float((ratios * inputs["values"]).mean() - inputs["setting"] * distance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "direction"), [("proportion", "old-new"), ("bound", "new-old")]
)
def test_shadow_prices_are_what_the_objective_gains(rule, direction):
    update = compiled(rule, direction)[0]
    with jax.enable_x64(True):
        inputs = make_inputs(rule, active=True)
        _, (_, record) = update(inputs)

        def slope(name, step):
            ends = [
                attained(rule, moved, update(moved)[1][0])
                for moved in (inputs | {name: inputs[name] + s} for s in (step, -step))
            ]
            return (ends[0] - ends[1]) / (2 * step)

        assert float(record.kl_price) == pytest.approx(slope("max_kl", 1e-5), rel=1e-3)
        if rule == "bound":
            assert float(record.bound_price) == pytest.approx(
                -slope("setting", 1e-5), rel=1e-3, abs=1e-6
            )


@pytest.mark.parametrize("name", ["values", "setting", "target"])
def test_derivatives_inside_the_trust_region_equal_central_differences(name):
    with jax.enable_x64(True):
        computed, difference = directional(
            "proportion", "old-new", make_inputs("proportion", active=False), name
        )
    np.testing.assert_allclose(computed, difference, rtol=1e-4)


def test_the_derivative_to_an_inactive_trust_region_is_zero():
    with jax.enable_x64(True):
        gradient = compiled("proportion", "old-new")[1](
            make_inputs("proportion", active=False)
        )
    assert abs(float(gradient["max_kl"])) < 1e-6


def test_a_lane_with_nan_values_has_finite_derivatives_and_those_of_the_old_distribution_pass_through():
    with jax.enable_x64(True):
        inputs = make_inputs("proportion", active=True)
        gradient = compiled("proportion", "old-new")[1](
            inputs | {"values": inputs["values"].at[3].set(jnp.nan)}
        )
        np.testing.assert_array_equal(gradient["values"], 0.0)
        np.testing.assert_allclose(gradient["old"].mean, [1.0, 2.0])


@pytest.mark.slow
def test_batched_derivatives_equal_single_ones_in_every_mode():
    with jax.enable_x64(True):
        inputs = make_inputs("bound", active=True)
        gradient = compiled("bound", "new-old")[1]
        bounds = inputs["setting"] + jnp.array([0.0, 1.0])  # reached and not reached
        together = jax.vmap(lambda bound: gradient(inputs | {"setting": bound}))(bounds)
        for index in range(2):
            alone = gradient(inputs | {"setting": bounds[index]})
            for left, right in zip(
                jax.tree.leaves(together), jax.tree.leaves(alone), strict=True
            ):
                assert np.all(np.isfinite(right))
                np.testing.assert_allclose(left[index], right, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_the_memory_of_a_gradient_does_not_grow_with_the_iterations():
    def arrays(iterations):
        """Returns the types of all arrays of the traced gradient, those inside loops too."""
        gradient = compiled(
            "proportion",
            "old-new",
            dataclasses.replace(DEFAULT_CONFIG, max_iterations=iterations),
        )[1]
        traced = jax.make_jaxpr(gradient)(make_inputs("proportion", active=True))
        return re.findall(r"[a-z]+\d+\[[\d,]*\]", str(traced))

    few, many = arrays(10), arrays(1234)
    assert len(few) > 1000
    assert few == many
