"""The point mass against an independent NumPy integration, and the published acceptance numbers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import catalogue
from spjax.envs.point_mass import PointMass
from spjax.envs.vectors import norm


def reference_step(state, force, noise, context, gain=1.5):
    """One control step, substep by substep, in NumPy; returns the state and whether it crashed."""
    x, vx, y, vy = (float(v) for v in state)
    friction = context[2] if len(context) == 3 else 0.0
    force = np.clip(force, -10, 10)
    for push in noise:
        next_x, next_y = np.clip(x + 0.01 * vx, -4, 4), np.clip(y + 0.01 * vy, -4, 4)
        next_vx = vx + 0.01 * (gain * force[0] - friction * vx + push[0])
        next_vy = vy + 0.01 * (gain * force[1] - friction * vy + push[1])
        if y >= 0 > next_y or y <= 0 < next_y:
            share = y / (y - next_y)
            crossing = x + share * (next_x - x)
            if abs(crossing - context[0]) > context[1] / 2:
                return np.array([crossing, 0, 0, 0]), True
        x, vx, y, vy = next_x, next_vx, next_y, next_vy
    return np.array([x, vx, y, vy]), False


@pytest.mark.parametrize("name", ["point-mass-3d", "point-mass-2d"])
def test_control_steps_agree_with_a_substep_by_substep_integration(name, key):
    env = catalogue.make("task", name)
    random = np.random.default_rng(0)
    step = jax.jit(env.step)
    crashes = 0
    for case in range(60):
        context = random.uniform(
            env.context_space.lower, env.context_space.upper
        ).astype(np.float32)
        physics = np.array([*random.uniform(-4, 4, 1), *random.uniform(-8, 8, 1), *random.uniform(-0.7, 0.7, 1),
                            *random.uniform(-12, 12, 1)], np.float32)  # fmt: skip
        state = env.reset(key, jnp.asarray(context)).replace(
            physics=jnp.asarray(physics)
        )
        force = random.uniform(-14, 14, 2).astype(np.float32)
        noise = 0.05 * np.asarray(
            jax.random.normal(jax.random.fold_in(key, case), (10, 2))
        )
        after = step(jax.random.fold_in(key, case), state, jnp.asarray(force))
        expected, crashed = reference_step(physics, force, noise, context)
        crashes += crashed
        assert bool(after.terminated) == crashed
        np.testing.assert_allclose(after.physics, expected, rtol=2e-5, atol=2e-5)
        distance = np.hypot(expected[0], expected[2] + 3)
        np.testing.assert_allclose(after.reward, np.exp(-0.6 * distance), rtol=1e-5)
    assert 5 <= crashes <= 50


def discounted_return(env, controller, context, key):
    state, total = env.reset(key, jnp.asarray(context)), 0.0
    step = jax.jit(env.step)
    for t in range(env.horizon):
        state = step(jax.random.fold_in(key, t), state, controller(state.physics))
        total += 0.95**t * float(state.reward)
        if bool(state.terminated | state.truncated):
            break
    return total, state


def test_doing_nothing_on_the_target_returns_the_published_0_54(key):
    total, state = discounted_return(
        PointMass(dimensions=3), lambda s: jnp.zeros(2), (2.5, 0.5, 0.0), key
    )
    assert total == pytest.approx(0.54, abs=0.02)
    assert bool(state.truncated)
    assert not bool(state.terminated)
    assert int(state.time_step) == 100


def test_going_through_the_gate_by_hand_earns_about_ten_and_counts_as_success(key):
    def controller(physics):
        x, vx, y, vy = physics
        above = y > 0.05
        goal_x = jnp.where(above, 2.5, 0.0)
        goal_y = jnp.where(
            above & (jnp.abs(x - 2.5) > 0.2), 1.0, jnp.where(above, -0.5, -3.0)
        )
        return jnp.stack([8 * (goal_x - x) - 5 * vx, 8 * (goal_y - y) - 5 * vy])

    total, state = discounted_return(
        PointMass(dimensions=3), controller, (2.5, 0.5, 0.0), key
    )
    assert 5 < total < 11
    assert bool(state.success)


def test_a_crash_on_the_last_step_is_terminal_and_not_truncated(key):
    env = PointMass(dimensions=3)
    state = env.reset(key, jnp.array([2.5, 0.5, 0.0]))
    state = state.replace(
        physics=jnp.array([0.0, 0.0, 0.01, -5.0]), time_step=jnp.asarray(99, jnp.int32)
    )
    after = env.step(key, state, jnp.zeros(2))
    assert int(after.time_step) == 100
    assert bool(after.terminated)
    assert not bool(after.truncated)
    np.testing.assert_array_equal(after.physics[1:], 0.0)


def test_the_wall_stops_an_upward_crossing_too(key):
    env = PointMass(dimensions=2)
    state = env.reset(key, jnp.array([0.0, 1.0])).replace(
        physics=jnp.array([0.6, 0.0, -0.01, 5.0])
    )
    after = env.step(key, state, jnp.zeros(2))
    assert bool(after.terminated)
    assert float(after.physics[0]) == pytest.approx(0.6, abs=1e-4)
    through = env.step(
        jax.random.fold_in(key, 1),
        state.replace(physics=jnp.array([0.4, 0.0, -0.01, 5.0])),
        jnp.zeros(2),
    )
    assert not bool(through.terminated)


def test_the_printed_dynamics_have_no_gain_and_no_noise(key):
    env = PointMass(dimensions=3, force_gain=1.0, noise_std=0.0)
    state = env.reset(key, jnp.array([0.0, 8.0, 0.0]))
    after = env.step(key, state, jnp.array([5.0, 0.0]))
    assert float(after.physics[1]) == pytest.approx(0.5, rel=1e-5)
    published = PointMass(noise_std=0.0).step(
        jax.random.fold_in(key, 1), state, jnp.array([5.0, 0.0])
    )
    assert float(published.physics[1]) == pytest.approx(0.75, rel=1e-5)


@pytest.mark.parametrize("name", ["point-mass-3d", "point-mass-2d"])
def test_the_reward_is_flat_at_the_goal_and_has_its_slope_of_0_6_right_beside_it(
    name, key
):
    env = dataclasses.replace(catalogue.make("task", name), noise_std=0.0)
    state = env.reset(key, env.target.mean)

    @jax.jit
    def reward(x):
        physics = jnp.stack([x, jnp.zeros(()), jnp.asarray(-3.0), jnp.zeros(())])
        return env.step(
            jax.random.clone(key), state.replace(physics=physics), jnp.zeros(2)
        ).reward

    value, slope = jax.value_and_grad(reward)(0.0)
    assert (float(value), float(slope)) == (1.0, 0.0)
    for x in (1e-30, 1e-22, 1e-18):
        assert np.isfinite(jax.grad(reward)(x))
    for x in (1e-6, -1e-6):
        assert float(jax.grad(reward)(x)) == pytest.approx(-0.6 * np.sign(x), rel=1e-5)


def test_a_length_is_that_of_jax_bit_for_bit_and_its_gradient_is_the_direction(key):
    vectors = jnp.asarray(10.0) ** jax.random.uniform(
        key, (500, 1), minval=-9, maxval=9
    ) * jnp.asarray([[3.0, -4.0]])
    lengths, directions = jax.jit(jax.vmap(jax.value_and_grad(norm)))(vectors)
    np.testing.assert_array_equal(lengths, jax.jit(jax.vmap(jnp.linalg.norm))(vectors))
    np.testing.assert_allclose(directions, np.tile([0.6, -0.8], (500, 1)), rtol=1e-6)
    np.testing.assert_array_equal(jax.grad(norm)(jnp.zeros(3)), 0.0)
    np.testing.assert_allclose(
        jax.hessian(norm)(jnp.asarray([3.0, 4.0])),
        np.array([[16, -12], [-12, 9]]) / 125,
        rtol=1e-6,
    )
