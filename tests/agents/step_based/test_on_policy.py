"""What every on-policy learner must get right: probe environments with known values."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.agents.step_based import test_ppo, test_trpo
from tests.agents.step_based.learning import train
from tests.probe import ConstantReward, DelayedReward, EndlessReward

FAST = {"ppo": {"learning_rate": 1e-2}, "trpo": {"value_learning_rate": 1e-2}}
CUT = np.mean([(1 - 0.9**steps) / 0.1 for steps in range(1, 6)])  # the observation does not tell the time


@pytest.fixture(params=["ppo", "trpo"])
def learner(request):
    """Name and small settings of each learner."""
    return request.param, {"ppo": test_ppo.SMALL, "trpo": test_trpo.SMALL}[request.param]


def test_the_value_of_a_constant_reward_is_that_reward(learner, key):
    _, agent = learner
    state, _ = train(agent, ConstantReward(), key, 30)
    np.testing.assert_allclose(agent.value(state, jnp.array([[0.3, 0.0], [-0.8, 0.0]])), 1.0, atol=0.03)


def test_a_delayed_reward_is_discounted_once(learner, key):
    _, agent = learner
    state, _ = train(agent, DelayedReward(), key, 40)
    np.testing.assert_allclose(agent.value(state, jnp.array([[0.3, 0.0], [0.3, 1.0]])), [0.9, 1.0], atol=0.04)


@pytest.mark.parametrize(("bootstrap", "expected"), [(True, 10.0), (False, CUT)])
def test_a_time_limit_bootstraps_or_ends_as_the_setting_says(learner, key, bootstrap, expected):
    name, agent = learner
    agent = agent.replace(bootstrap_time_limit=bootstrap, **FAST[name])
    state, _ = train(agent, EndlessReward(), key, 60)
    assert float(agent.value(state, jnp.zeros(2))) == pytest.approx(expected, rel=0.06)
