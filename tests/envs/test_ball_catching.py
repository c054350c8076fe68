"""The ball-catching task: published catch rates of holding still, reward, observation, ends."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import settings
from spjax.envs.ball_catching import BallCatching

ENV = BallCatching()
NUM_THROWS = 300


@pytest.fixture(scope="module")
def hold():
    """Plays throws with the zero action; returns catches, discounted returns and last states."""

    def play(key, distribution):
        key_context, key_reset, key_step = jax.random.split(key, 3)
        draws = jax.vmap(distribution.sample)(jax.random.split(key_context, NUM_THROWS))
        states = jax.vmap(ENV.reset)(
            jax.random.split(key_reset, NUM_THROWS), ENV.context_space.clip(draws)
        )
        keys = jax.random.split(key_step, NUM_THROWS)

        def control_step(carry, time):
            states, total, ended = carry
            after = jax.vmap(ENV.step)(keys, states, jnp.zeros((NUM_THROWS, 5)))
            total = total + jnp.where(
                ended, 0.0, 0.995 ** time.astype(float) * after.reward
            )
            return (after, total, ended | after.terminated | after.truncated), None

        start = (states, jnp.zeros(NUM_THROWS), jnp.zeros(NUM_THROWS, bool))
        (states, total, ended), _ = jax.lax.scan(
            control_step, start, jnp.arange(ENV.horizon)
        )
        return states.success, total, ended

    return jax.jit(play)


@pytest.mark.slow
def test_holding_still_catches_most_balls_of_the_initial_distribution_and_hardly_any_of_the_target(
    hold, key
):
    """82 % and about 1 %, and a return of about 20 without a catch; bands of four binomial standard errors."""
    caught, _, ended = hold(jax.random.fold_in(key, 0), ENV.initial)
    assert float(caught.mean()) == pytest.approx(0.82, abs=0.09)
    assert bool(ended.all())
    caught, total, ended = hold(jax.random.fold_in(key, 1), ENV.target)
    assert float(caught.mean()) < 0.035
    assert bool(ended.all())
    assert float(total[~caught].mean()) == pytest.approx(20, abs=0.7)


@pytest.mark.slow
def test_the_observation_holds_desired_and_true_joints_ball_and_velocities(key):
    state = ENV.reset(key, ENV.initial.mean)
    np.testing.assert_array_equal(
        state.observation[:5], state.observation[5:10]
    )  # desired starts at the true posture
    np.testing.assert_allclose(state.observation[5:10], [0.4, 1.5, 0, 0, 0], atol=0.05)
    np.testing.assert_allclose(state.observation[10:13], state.physics.qpos[7:])
    assert float(state.observation[10]) == pytest.approx(0.85)
    moved = ENV.step(key, state, jnp.asarray([1.0, -1.0, 0.5, 0.0, 2.0]))
    np.testing.assert_allclose(
        moved.observation[:5] - state.observation[:5],
        0.01 * jnp.asarray([1.0, -1.0, 0.5, 0.0, 2.0]),
        atol=1e-6,
    )


def test_an_action_costs_its_square_after_clipping_to_the_box(key):
    state = ENV.reset(key, ENV.target.mean)
    assert float(ENV.step(key, state, jnp.zeros(5)).reward) == pytest.approx(0.275)
    action = jnp.asarray([100.0, 1.0, -1.0, 0.0, 0.0])
    assert float(ENV.step(key, state, action).reward) == pytest.approx(
        0.275 - 0.005 * (3.97**2 + 2), rel=1e-5
    )


@pytest.mark.parametrize(
    ("normal", "expected"),
    [("third-row", (-0.946, -0.323, 0.0)), ("axis", (-1.0, 0.0, 0.0))],
)
def test_a_catch_pays_by_the_angle_between_normal_and_velocity(normal, expected, key):
    """The ball is put in front of the net at the home posture, flying straight at it."""
    env = dataclasses.replace(ENV, normal=normal)
    state = env.reset(key, ENV.initial.mean)
    physics = state.physics
    home = jnp.asarray([0.0, 0.4, 0.0, 1.5, 0.0, 0.0, 0.0, 0.035, -0.696, 1.330])
    velocity = jnp.zeros(10).at[7:].set(jnp.asarray([-2.0, 0.0, 0.0]))
    state = state.replace(
        physics=physics.replace(
            qpos=home, qvel=velocity, act=home[jnp.asarray([1, 3, 4, 5, 6])]
        )
    )
    after = env.step(key, state, jnp.zeros(5))
    assert bool(after.success)
    assert bool(after.terminated)
    cosine = float(np.dot(expected, [-1.0, 0.0, 0.0]))
    assert float(after.reward) == pytest.approx(0.275 + 50 + 25 * cosine**5, abs=0.4)


def test_a_ball_on_the_ground_ends_the_episode_without_success(key):
    state = ENV.reset(key, ENV.initial.mean)
    physics = state.physics
    state = state.replace(physics=physics.replace(qpos=physics.qpos.at[9].set(0.019)))
    after = ENV.step(key, state, jnp.zeros(5))
    assert bool(after.terminated)
    assert not bool(after.success)
    assert float(after.reward) == pytest.approx(0.275)


def test_contexts_are_clipped_and_the_published_distributions_have_variances_for_widths():
    state = ENV.reset(jax.random.key(0), jnp.asarray([5.0, 0.0, 9.0]))
    np.testing.assert_allclose(state.context, [np.pi / 2, 0.6, 4.0], rtol=1e-6)
    np.testing.assert_allclose(ENV.initial.std, [0.0316, 0.0316, 0.316], atol=3e-4)
    np.testing.assert_allclose(ENV.target.std, [0.793, 0.387, 1.0], atol=6e-4)


def test_a_wrong_engine_or_normal_is_one_sentence():
    with pytest.raises(
        ValueError, match=r"^task.engine must be native, mjx or warp, got 'mujoco'$"
    ):
        settings.check("task", BallCatching(engine="mujoco"))
    with pytest.raises(
        ValueError, match=r"^task.normal must be third-row or axis, got 'row'$"
    ):
        settings.check("task", BallCatching(normal="row"))


def test_the_reward_of_a_catch_has_a_finite_gradient_where_the_ball_stands_still(key):
    physics = ENV.reset(key, ENV.initial.mean).physics

    def reward(velocity):
        return ENV._catch_reward(
            physics.replace(qvel=physics.qvel.at[7:].set(velocity))
        )

    value, slope = jax.value_and_grad(reward)(jnp.zeros(3))
    assert float(value) == 50.0
    np.testing.assert_array_equal(slope, 0.0)
