"""Policies of a step-based task as parameters of an episodic one: against NumPy and against stepping by hand."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import settings
from spjax.agents.episodic import SPRL
from spjax.envs.adapters.policy_search import PolicySearch
from spjax.envs.gate import Gate
from spjax.envs.point_mass import PointMass
from spjax.self_paced.schedules import Proportion
from spjax.teachers import SelfPacedJoint
from tests.agents.episodic.training import experiment, train

TASK = PolicySearch(of=PointMass(dimensions=2), hidden=5)
COUNT = 12  # of rollouts side by side
WIDE, NARROW = (0.0, 8.0), (2.5, 0.5)  # gates: one that cannot be missed, the target


def push(force):
    """Returns parameters of a policy that pushes with the same force for ever."""
    first, second = np.zeros((5, 6)), np.zeros((2, 5))
    first[0, 5] = 100.0  # saturated by the gate's width: this unit is 1
    second[:, 0] = force
    return jnp.asarray(np.concatenate([first.ravel(), second.ravel()]), jnp.float32)


@pytest.fixture(scope="module")
def play():
    """Returns outcomes and paths of COUNT rollouts."""

    @jax.jit
    def function(keys, thetas, contexts):
        outcomes = jax.vmap(TASK.rollout)(jax.random.clone(keys), thetas, contexts)
        states = jax.vmap(TASK.states)(keys, thetas, contexts)
        return outcomes, jax.vmap(jax.vmap(TASK.trace))(states)

    return function


def repeat(play, key, theta, context):
    """Returns outcome and path of a rollout that noise hardly matters to."""
    played = play(
        jax.random.split(key, COUNT),
        jnp.tile(theta, (COUNT, 1)),
        jnp.tile(jnp.asarray(context), (COUNT, 1)),
    )
    return jax.tree.map(lambda leaf: leaf[0], played)


def step_by_hand(env, keys, thetas, contexts):
    """Returns the states after each step, and points [T + 1, N, 2], of N episodes that nothing ends; the network is NumPy's."""
    key_reset, key_steps = jax.vmap(jax.random.split, out_axes=1)(keys)
    state = jax.vmap(env.reset)(key_reset, contexts)

    @jax.jit
    def step(keys, time, state, actions):
        return jax.vmap(env.step)(
            jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, time), state, actions
        )

    states, points = [], [np.asarray(jax.vmap(env.trace)(state))]
    first, second = thetas[:, :30].reshape(-1, 5, 6), thetas[:, 30:].reshape(-1, 2, 5)
    for time in range(env.horizon):
        hidden = np.tanh(np.einsum("nij,nj->ni", first, np.asarray(state.observation)))
        state = step(key_steps, time, state, np.einsum("nij,nj->ni", second, hidden))
        states.append(jax.tree.map(np.asarray, state))
        points.append(np.asarray(jax.vmap(env.trace)(state)))
    return states, np.array(points)


@pytest.mark.parametrize(("dimensions", "size"), [(2, 168), (3, 189)])
def test_the_network_has_the_published_number_of_weights_and_no_biases(
    dimensions, size
):
    task = PolicySearch(of=PointMass(dimensions))
    assert task.parameter_size == size
    assert task.parameter_std == (1.0,) * size
    np.testing.assert_array_equal(
        task.act(jnp.ones(size), jnp.zeros(task.of.observation_size)), [0.0, 0.0]
    )


@pytest.mark.parametrize("output", ["linear", "tanh"])
def test_the_action_is_that_of_a_numpy_forward_pass(output):
    task = PolicySearch(of=PointMass(dimensions=3), output=output)
    random = np.random.default_rng(1)
    theta, observation = random.normal(size=189), random.normal(size=7)
    activations = np.tanh(theta[:147].reshape(21, 7) @ observation)
    expected = theta[147:].reshape(2, 21) @ activations
    expected = expected if output == "linear" else 10 * np.tanh(expected)
    action = task.act(
        jnp.asarray(theta, jnp.float32), jnp.asarray(observation, jnp.float32)
    )
    np.testing.assert_allclose(action, expected, rtol=1e-4)


@pytest.mark.slow
def test_rollouts_agree_with_stepping_the_task_by_hand(play, key):
    env, random = PointMass(dimensions=2), np.random.default_rng(2)
    thetas = random.normal(size=(COUNT, 40)).astype(np.float32)
    contexts = random.uniform((-2, 0.5), (2, 8), (COUNT, 2)).astype(np.float32)
    keys = jax.random.split(key, COUNT)
    states, points = step_by_hand(env, jax.random.clone(keys), thetas, contexts)
    outcome, paths = play(keys, thetas, contexts)
    assert paths.shape == (COUNT, 101, 2)
    crashes = 0
    for n in range(COUNT):
        length = next(
            t + 1
            for t, state in enumerate(states)
            if state.terminated[n] or state.truncated[n]
        )
        crashes += int(states[length - 1].terminated[n])
        total = sum(
            0.95**t * state.reward[n] for t, state in enumerate(states[:length])
        )
        assert int(outcome.length[n]) == length
        assert bool(outcome.success[n]) == bool(states[length - 1].success[n])
        np.testing.assert_allclose(outcome.reward[n], total, rtol=1e-3)
        np.testing.assert_allclose(
            paths[n, : length + 1], points[: length + 1, n], atol=5e-3
        )
        np.testing.assert_array_equal(
            paths[n, length:], np.broadcast_to(paths[n, length], (101 - length, 2))
        )
    assert 2 <= crashes <= 10


def test_a_crash_ends_the_return_at_the_wall(play, key):
    outcome, path = repeat(play, key, push((0.0, -10.0)), NARROW)
    # 15 m/s^2 for t^2 = 2 * 3 m / (15 m/s^2): the wall is hit after 0.63 s, in the seventh step
    assert int(outcome.length) == 7
    assert not bool(outcome.success)
    falls = 3 - 15 * 0.5 * (0.1 * np.arange(1, 7)) * (
        0.1 * np.arange(1, 7) - 0.01
    )  # explicit Euler
    rewards = np.exp(-0.6 * np.append(falls + 3, 3.0))
    np.testing.assert_allclose(
        outcome.reward, (0.95 ** np.arange(7)) @ rewards, rtol=0.01
    )
    np.testing.assert_allclose(path[-1], [0.0, 0.0], atol=0.01)


def test_doing_nothing_has_the_known_return_and_lasts_the_whole_horizon(play, key):
    outcome, _ = repeat(play, key, jnp.zeros(40), NARROW)
    assert int(outcome.length) == 100
    np.testing.assert_allclose(
        outcome.reward, np.exp(-3.6) * (1 - 0.95**100) / 0.05, rtol=0.01
    )


def test_without_discount_the_rewards_are_summed(key):
    task = dataclasses.replace(TASK, discount=1.0)
    outcome = jax.jit(task.rollout)(key, jnp.zeros(40), jnp.asarray(NARROW))
    np.testing.assert_allclose(outcome.reward, 100 * np.exp(-3.6), rtol=0.02)


def test_actions_outside_the_bounds_are_those_at_the_bounds(play, key):
    far, at = (
        repeat(play, jax.random.clone(key), push((0.0, force)), WIDE)[0]
        for force in (-1e4, -10.0)
    )
    assert float(far.reward) == float(at.reward)
    assert int(far.length) == 100  # pressed against the room's border beyond the gate
    squashed = dataclasses.replace(TASK, output="tanh")
    assert (
        float(
            squashed.act(
                push((0.0, -1e4)), jnp.asarray([0, 0, 3, 0, *WIDE], jnp.float32)
            )[1]
        )
        == -10.0
    )


def test_everything_else_is_that_of_the_step_based_task():
    env = PointMass(dimensions=2)
    for field in (
        "name",
        "horizon",
        "control_period",
        "goal",
        "plane",
        "scenery_name",
        "context_space",
    ):
        assert getattr(TASK, field) == getattr(env, field)
    np.testing.assert_array_equal(TASK.initial.mean, [0.0, 4.25])
    np.testing.assert_array_equal(TASK.target.mean, [2.5, 0.5])
    assert (TASK.initial.outside, TASK.target.outside) == ("redraw", "redraw")
    np.testing.assert_allclose(
        TASK.initial.covariance, np.diag([4.0, 1.875**2]), rtol=1e-6
    )
    np.testing.assert_allclose(TASK.target.std, [0.004, 0.00375], rtol=1e-6)
    assert TASK.scenery(NARROW) == env.scenery(NARROW)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 0}, "task.hidden must be at least 1, got 0"),
        ({"output": "relu"}, "task.output must be linear or tanh, got 'relu'"),
        ({"discount": 1.5}, "task.discount must be at most 1, got 1.5"),
        ({"of": Gate()}, "task.of must be a task of class Env, got the task Gate"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_answered_in_words(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        settings.check("task", dataclasses.replace(TASK, **change))


@pytest.mark.slow
def test_a_short_training_of_sprl_improves_the_return():
    learner = SPRL(max_kl=0.5, fit_max_kl=0.2, num_samples=25, buffer_size=4)
    setup = experiment(TASK, learner, SelfPacedJoint(schedule=Proportion(offset=1000)))
    _, _, metrics = train(setup, jax.random.key(3), 40)
    rewards = metrics.discounted_return.value
    assert float(rewards[-10:].mean()) > 2 * float(rewards[:5].mean())
    np.testing.assert_allclose(metrics.agent.kl, 0.2, rtol=2e-3)


@pytest.mark.slow
def test_a_simulator_that_fails_ends_the_rollout_with_what_was_earned_before(
    key, monkeypatch
):
    step = PointMass.step

    def failing(env, key, state, action):
        after = step(env, key, state, action)
        return dataclasses.replace(
            after, reward=jnp.where(state.time_step >= 3, jnp.nan, 1.0)
        )

    monkeypatch.setattr(PointMass, "step", failing)
    outcome = jax.jit(TASK.rollout)(key, push(0.0), jnp.asarray(WIDE))
    np.testing.assert_allclose(outcome.reward, 1 + 0.95 + 0.95**2, rtol=1e-6)
    assert (int(outcome.length), bool(outcome.success)) == (3, False)
