"""What every on-policy learner must get right: probe environments with known values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based import PPO
from spjax.agents.step_based.rollout import Transitions
from tests.agents.step_based import test_ppo, test_trpo
from tests.agents.step_based.learning import train
from tests.probe import ConstantReward, DelayedReward, EndlessReward

FAST = {"ppo": {"learning_rate": 1e-2}, "trpo": {"value_learning_rate": 1e-2}}
CUT = np.mean(
    [(1 - 0.9**steps) / 0.1 for steps in range(1, 6)]
)  # the observation does not tell the time


@pytest.fixture(params=["ppo", "trpo"])
def learner(request):
    """Name and small settings of each learner."""
    return request.param, {"ppo": test_ppo.SMALL, "trpo": test_trpo.SMALL}[
        request.param
    ]


@pytest.mark.slow
def test_the_value_of_a_constant_reward_is_that_reward(learner, key):
    _, agent = learner
    state, _ = train(agent, ConstantReward(), key, 30)
    np.testing.assert_allclose(
        agent.value(state, jnp.array([[0.3, 0.0], [-0.8, 0.0]])), 1.0, atol=0.03
    )


@pytest.mark.slow
def test_a_delayed_reward_is_discounted_once(learner, key):
    _, agent = learner
    state, _ = train(agent, DelayedReward(), key, 40)
    np.testing.assert_allclose(
        agent.value(state, jnp.array([[0.3, 0.0], [0.3, 1.0]])), [0.9, 1.0], atol=0.04
    )


@pytest.mark.slow
@pytest.mark.parametrize(("bootstrap", "expected"), [(True, 10.0), (False, CUT)])
def test_a_time_limit_bootstraps_or_ends_as_the_setting_says(
    learner, key, bootstrap, expected
):
    name, agent = learner
    agent = agent.replace(bootstrap_time_limit=bootstrap, **FAST[name])
    state, _ = train(agent, EndlessReward(), key, 60)
    assert float(agent.value(state, jnp.zeros(2))) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_a_batch_has_the_advantages_and_targets_of_a_loop_backwards_through_time(
    bootstrap, key
):
    """Two slots of seven steps: an end, a time limit, and what goes on after the last step."""
    agent = PPO(
        num_envs=2,
        num_steps=7,
        hidden=(8,),
        discount=0.9,
        gae_lambda=0.8,
        bootstrap_time_limit=bootstrap,
    )
    params = agent.init_params(jax.random.fold_in(key, 0), ConstantReward())["value"]
    observation = jax.random.normal(jax.random.fold_in(key, 1), (7, 2, 2))
    following = jnp.concatenate(
        [observation[1:], jax.random.normal(jax.random.fold_in(key, 2), (1, 2, 2))]
    )
    terminated, truncated = np.zeros((7, 2), bool), np.zeros((7, 2), bool)
    terminated[2, 0] = truncated[4, 1] = True
    last = jax.random.normal(
        jax.random.fold_in(key, 3), (7, 2, 2)
    )  # of an episode, before the reset
    following = jnp.where((terminated | truncated)[..., None], last, following)
    reward = jax.random.normal(jax.random.fold_in(key, 4), (7, 2))
    action = jax.random.normal(jax.random.fold_in(key, 5), (7, 2, 1))
    log_prob = jax.random.normal(jax.random.fold_in(key, 6), (7, 2))
    transitions = Transitions(
        observation,
        action,
        reward,
        following,
        jnp.asarray(terminated),
        jnp.asarray(truncated),
        extras=log_prob,
    )
    batch = agent.batch(params, transitions)

    values, next_values = (
        np.asarray(agent.critic(params, o), float) for o in (observation, following)
    )
    advantage, expected = np.zeros(2), np.zeros((7, 2))
    for t in reversed(range(7)):
        nothing_follows = terminated[t] | (truncated[t] & (not bootstrap))
        delta = (
            np.asarray(reward[t])
            + 0.9 * np.where(nothing_follows, 0.0, next_values[t])
            - values[t]
        )
        advantage = (
            delta + np.where(terminated[t] | truncated[t], 0.0, 0.9 * 0.8) * advantage
        )
        expected[t] = advantage
    np.testing.assert_allclose(batch.advantage, expected.ravel(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        batch.target, (expected + values).ravel(), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(batch.observation, observation.reshape(14, 2))
    np.testing.assert_array_equal(batch.action, action.reshape(14, 1))
    np.testing.assert_array_equal(batch.log_prob, log_prob.ravel())
