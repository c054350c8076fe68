"""PPO on probe environments with known values and actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents import PPO
from tests.agents.learning import train
from tests.probe import ConstantReward, DelayedReward, EndlessReward, MatchContext

SMALL = PPO(num_envs=32, num_steps=16, num_minibatches=8, num_epochs=4, hidden=(32,), learning_rate=3e-3, discount=0.9)


def test_the_value_of_a_constant_reward_is_that_reward(key):
    state, _ = train(SMALL, ConstantReward(), key, 30)
    np.testing.assert_allclose(SMALL.value(state, jnp.array([[0.3, 0.0], [-0.8, 0.0]])), 1.0, atol=0.03)


def test_a_delayed_reward_is_discounted_once(key):
    state, _ = train(SMALL, DelayedReward(), key, 40)
    np.testing.assert_allclose(SMALL.value(state, jnp.array([[0.3, 0.0], [0.3, 1.0]])), [0.9, 1.0], atol=0.04)


CUT = np.mean([(1 - 0.9**steps) / 0.1 for steps in range(1, 6)])  # the observation does not tell the time


@pytest.mark.parametrize(("bootstrap", "expected"), [(True, 10.0), (False, CUT)])
def test_a_time_limit_bootstraps_or_ends_as_the_setting_says(key, bootstrap, expected):
    agent = SMALL.replace(bootstrap_time_limit=bootstrap, learning_rate=1e-2)
    state, _ = train(agent, EndlessReward(), key, 60)
    assert float(agent.value(state, jnp.zeros(2))) == pytest.approx(expected, rel=0.06)


def test_the_policy_learns_the_action_that_the_context_asks_for(key):
    state, metrics = train(SMALL.replace(learning_rate=1e-3), MatchContext(), key, 200)
    observation = jnp.array([[-0.8, 0.0], [0.0, 0.0], [0.8, 0.0]])
    actions = jax.vmap(lambda k: SMALL.act(state, MatchContext(), k, observation))(
        jax.random.split(jax.random.fold_in(key, 4), 400)
    )
    np.testing.assert_allclose(actions.mean(0)[:, 0], [-0.4, 0.0, 0.4], atol=0.05)
    assert float(metrics.policy_std[-1]) < 0.1


def test_the_gradient_norm_is_clipped_as_a_global_norm(key):
    env = ConstantReward()
    still = SMALL.replace(max_grad_norm=0.0)
    start = still.init(jax.random.fold_in(key, 1), env)
    state, _ = train(still, env, key, 1)
    for before, after in zip(jax.tree.leaves(start.params), jax.tree.leaves(state.params), strict=True):
        np.testing.assert_array_equal(before, after)


def test_initial_networks_are_as_published(key):
    params = PPO().init(key, ConstantReward()).params
    kernels = [leaf for leaf in jax.tree.leaves(params["policy"]) if leaf.ndim == 2]
    assert sorted(k.shape for k in kernels) == [(2, 64), (64, 1), (64, 64)]
    hidden = next(k for k in kernels if k.shape == (64, 64))
    np.testing.assert_allclose(hidden @ hidden.T, 2 * np.eye(64), atol=1e-5)
    output = next(k for k in kernels if k.shape == (64, 1))
    assert float(jnp.linalg.norm(output)) == pytest.approx(0.01, rel=1e-4)
    np.testing.assert_array_equal(params["policy"]["params"]["log_std"], 0.0)


def test_a_batch_that_minibatches_do_not_divide_is_one_sentence():
    with pytest.raises(ValueError, match=r"^agent.num_minibatches must divide num_envs \* num_steps = 2048, got 31$"):
        PPO(num_minibatches=31).check()
