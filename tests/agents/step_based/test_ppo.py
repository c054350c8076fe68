"""PPO on probe environments with known values and actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based import PPO
from tests.agents.step_based.learning import train
from tests.probe import ConstantReward, MatchContext

SMALL = PPO(num_envs=32, num_steps=16, num_minibatches=8, num_epochs=4, hidden=(32,), learning_rate=3e-3, discount=0.9)


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
