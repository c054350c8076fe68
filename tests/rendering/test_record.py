import jax
import jax.numpy as jnp
import numpy as np

from spjax.envs import PointMass
from spjax.envs.base import EnvState
from spjax.rendering.record import episodes
from tests.rendering.conftest import BLANK, experiment_of, recorded


def test_the_recorded_episodes_are_those_that_play_evaluates_with_the_same_key(key):
    experiment = experiment_of(PointMass(3), 4.0)
    contexts = jnp.asarray(
        [[2.5, 0.5, 0.0], [0.0, 8.0, 1.0], [-1.0, 3.0, 0.0], [0.0, 5.0, 4.0]]
    )
    seen = jax.jit(lambda: recorded(experiment, jax.random.clone(key), contexts))
    outcome, played = jax.jit(lambda: experiment.play(BLANK, key, contexts))()
    states, paths = jax.device_get(seen())
    found = episodes(states, paths, 0.9)
    np.testing.assert_array_equal([episode.length for episode in found], outcome.length)
    np.testing.assert_array_equal(
        [episode.success for episode in found], outcome.success
    )
    np.testing.assert_allclose(
        [episode.returns[-1] for episode in found], outcome.discounted_return, rtol=1e-5
    )
    np.testing.assert_allclose(
        [episode.context for episode in found], contexts, rtol=1e-6
    )
    assert len({episode.length for episode in found}) > 1
    for index, episode in enumerate(found):
        np.testing.assert_allclose(
            episode.path, played[: episode.length + 1, index], atol=1e-5
        )


def test_an_episode_is_cut_at_its_first_end_and_counts_no_reward_that_is_not_finite():
    rewards = np.array([[9.0, 1.0, np.nan, 4.0, 8.0, 16.0]]).T
    ended = np.array([[False, False, False, True, False, True]]).T
    no = np.zeros((6, 1), bool)
    states = EnvState(
        physics=np.arange(6.0)[:, None],
        observation=np.zeros((6, 1, 2)),
        reward=rewards,
        terminated=ended,
        truncated=no,
        success=np.array([[False, False, False, True, False, False]]).T,
        context=np.full((6, 1, 1), 7.0),
        time_step=np.arange(6)[:, None],
    )
    (episode,) = episodes(states, np.zeros((6, 1, 2)), 0.5)
    assert episode.length == 3
    assert episode.success
    np.testing.assert_allclose(episode.returns, [0, 1, 1, 2])
    np.testing.assert_array_equal(episode.states.physics, [0, 1, 2, 3])
    assert episode.context == (7.0,)
