"""What episodic learners share: their settings where none are given, and rollouts told as episodes."""

import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.episodic import CREPS, SPRL
from spjax.agents.episodic.base import whole_episodes
from tests.agents.episodic.tasks import Aim


@pytest.mark.parametrize("agent", [CREPS(), SPRL()], ids=["c-reps", "sprl"])
def test_what_is_not_set_is_as_published_for_the_global_gate(agent):
    assert (agent.max_kl, agent.fit_max_kl) == (0.25, None)
    assert agent.num_rollouts(Aim()) == 100
    assert (agent.buffer_size, agent.ridge) == (10, 1e-5)


def test_rollouts_are_episodes_of_one_reward_without_observations():
    rewards = jnp.array([1.0, -2.0, 3.0])
    episodes = whole_episodes(
        contexts=jnp.arange(6.0).reshape(3, 2),
        rewards=rewards,
        successes=jnp.array([True, False, True]),
        lengths=jnp.array([4, 5, 6]),
        tickets=(),
    )
    assert episodes.first_observation.shape == (3, 0)
    assert np.asarray(episodes.mask).all()
    for told in (episodes.episode_return, episodes.discounted_return):
        np.testing.assert_array_equal(told, rewards)
    np.testing.assert_array_equal(episodes.length, [4, 5, 6])
    np.testing.assert_array_equal(episodes.success, [True, False, True])
