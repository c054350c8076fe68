"""The gate against an independent NumPy rollout, and the published acceptance numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import catalogue, settings
from spjax.agents.episodic.policy import sample_inside
from spjax.envs.gate import NOISE_STD, Gate

# gains, offsets, set-point of both controllers, two parameters without effect
STRAIGHT_DOWN = [2, 0, 0, 2, -5, -1, 0, 2, 0, 0, 2, -5, 1, 0, 0, 0]


def reference_rollout(theta, context, noise):
    """One rollout, step by step, in NumPy; returns reward, success and whether the mass crashed."""
    x, y, cost, passed, crashed = 0.0, 5.0, 0.0, False, False
    for push in noise:
        passed = passed or y - 2.5 < 0.01
        part = theta[7:14] if passed else theta[:7]
        gain, offset = part[:4].reshape(2, 2), part[4:6]
        action = gain @ (np.array([part[6], 0.0 if passed else 2.5]) - [x, y]) + offset
        cost += action @ action
        new_x, new_y = np.array([x, y]) + 0.05 * (action + np.array([5, -1]) + push)
        if y >= 2.5 > new_y:
            share = (2.5 - y) / (new_y - y)
            crossing = share * new_x + (1 - share) * x
            if abs(crossing - context[0]) > context[1]:
                x, y, crashed = crossing, 2.5, True
                break
        x, y = new_x, new_y
    distance = np.hypot(x, y)
    return (
        100 + max(-100, 10 * np.exp(-min(300, distance)) - 1e-4 * cost),
        distance < 0.05,
        crashed,
    )


@pytest.fixture(scope="module")
def rollouts():
    task = Gate(case="precision")
    return jax.jit(jax.vmap(task.rollout))


def repeated(rollouts, key, theta, context, count=100):
    theta, context = (
        jnp.tile(jnp.asarray(theta, float), (count, 1)),
        jnp.tile(jnp.asarray(context, float), (count, 1)),
    )
    return rollouts(jax.random.split(key, count), theta, context)


def test_rollouts_agree_with_a_step_by_step_one(rollouts, key):
    random = np.random.default_rng(0)
    count = 200
    contexts = random.uniform([-5, 0.1], [5, 0.5], (count, 2))
    thetas = random.normal(size=(count, 16)) * 1.5 + np.array(STRAIGHT_DOWN)
    thetas[::2, 6] = contexts[::2, 0]  # half of them aim at the gate
    thetas[::2, :6] = STRAIGHT_DOWN[:6]
    keys = jax.random.split(key, count)
    outcome = rollouts(
        keys, jnp.asarray(thetas, jnp.float32), jnp.asarray(contexts, jnp.float32)
    )
    noise = NOISE_STD * np.asarray(
        jax.vmap(lambda k: jax.random.normal(k, (100, 2)))(jax.random.clone(keys))
    )
    expected = [
        reference_rollout(*row) for row in zip(thetas, contexts, noise, strict=True)
    ]
    rewards, successes, crashes = map(np.array, zip(*expected, strict=True))
    assert 20 < crashes.sum() < 180
    np.testing.assert_allclose(outcome.reward, rewards, atol=2e-3)
    assert (
        np.asarray(outcome.success) == successes
    ).mean() > 0.99  # a distance may round across the threshold


def test_a_straight_policy_through_a_gate_at_the_origin_earns_109_6_and_succeeds(
    rollouts, key
):
    outcome = repeated(rollouts, key, STRAIGHT_DOWN, (0.0, 0.25))
    assert float(outcome.reward.mean()) == pytest.approx(109.6, abs=0.06)
    assert bool(outcome.success.all())


def test_crashing_above_the_origin_earns_the_local_optimum_of_100_7_to_100_8(
    rollouts, key
):
    outcome = repeated(rollouts, key, STRAIGHT_DOWN, (-4.0, 0.2))
    assert 100.7 < float(outcome.reward.mean()) < 100.8
    assert not bool(outcome.success.any())


@pytest.mark.slow
def test_the_initial_policy_earns_57_on_average_two_fifths_of_it_at_the_floor(key):
    task = Gate(case="precision")
    count = 4000
    key_contexts, key_thetas, key_rollouts = jax.random.split(key, 3)
    space = task.context_space
    contexts = jnp.tile(task.initial.mean, (count, 1))
    contexts = sample_inside(
        key_contexts, contexts, task.initial.chol, space.lower, space.upper
    )
    bounds = task.parameter_lower, task.parameter_upper
    thetas = sample_inside(
        key_thetas, jnp.zeros((count, 16)), 10 * jnp.eye(16), *bounds
    )
    outcome = jax.vmap(task.rollout)(
        jax.random.split(key_rollouts, count), thetas, contexts
    )
    assert float(outcome.reward.mean()) == pytest.approx(57, abs=2.5)
    assert float((outcome.reward == 0).mean()) == pytest.approx(0.42, abs=0.03)
    assert not bool(outcome.success.any())


def test_unstable_controllers_get_the_floor_and_never_a_reward_that_is_not_finite(
    rollouts, key
):
    extreme = 1e9 * jax.random.rademacher(jax.random.fold_in(key, 0), (64, 16), float)
    contexts = jnp.tile(jnp.array([0.0, 0.25]), (64, 1))
    outcome = rollouts(
        jax.random.split(jax.random.fold_in(key, 1), 64), extreme, contexts
    )
    assert bool(jnp.isfinite(outcome.reward).all())
    assert float(outcome.reward.min()) == 0.0
    assert not bool(outcome.success.any())


def test_the_last_two_of_sixteen_parameters_have_no_effect(key):
    theta = jnp.asarray(STRAIGHT_DOWN, float)
    context = jnp.array([0.0, 0.25])
    with_two = Gate(num_parameters=16).rollout(key, theta.at[14:].set(7.0), context)
    without = Gate(num_parameters=14).rollout(
        jax.random.clone(key), theta[:14], context
    )
    assert float(with_two.reward) == float(without.reward)
    assert Gate(num_parameters=14).parameter_size == 14


def test_the_trace_ends_where_the_reward_says_and_stops_at_the_wall(key):
    task, theta = Gate(case="precision"), jnp.asarray(STRAIGHT_DOWN, float)

    def path(key, context):
        return jax.vmap(task.trace)(task.states(key, theta, jnp.array(context)))

    through = path(key, [0.0, 0.25])
    assert through.shape == (101, 2)
    np.testing.assert_array_equal(through[0], [0.0, 5.0])
    assert float(jnp.linalg.norm(through[-1])) < 0.05
    crashed = path(jax.random.fold_in(key, 1), [-4.0, 0.2])
    assert float(crashed[-1, 1]) == 2.5
    assert abs(float(crashed[-1, 0])) < 0.2
    (left, right) = task.scenery((-4.0, 0.2))
    assert left[1] == (-4.2, 2.5)
    assert right[0] == (-3.8, 2.5)


def test_the_settings_have_the_published_distributions():
    precision, everywhere = Gate(case="precision"), Gate(case="global")
    assert (precision.name, everywhere.name) == ("gate-precision", "gate-global")
    np.testing.assert_allclose(precision.target.mean, [-4.0, 0.2])
    np.testing.assert_allclose(
        precision.target.covariance, [[0.1, 0], [0, 0.001]], rtol=1e-6
    )
    np.testing.assert_allclose(
        everywhere.target.covariance, [[7, 0], [0, 0.003]], rtol=1e-6
    )
    np.testing.assert_allclose(
        precision.initial.covariance, everywhere.initial.covariance
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"case": "wide"}, r"^task.case must be global or precision, got 'wide'$"),
        ({"num_parameters": 15}, r"^task.num_parameters must be 14 or 16, got 15$"),
    ],
)
def test_a_gate_that_does_not_exist_is_answered_in_words(arguments, message):
    with pytest.raises(ValueError, match=message):
        settings.check("task", Gate(**arguments))


def test_an_unknown_gate_is_answered_with_the_nearest():
    with pytest.raises(
        ValueError,
        match=r"^unknown task 'gate-precison'; did you mean 'gate-precision'\?$",
    ):
        catalogue.make("task", "gate-precison")
