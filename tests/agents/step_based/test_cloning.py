"""The "hold position" initialisation: after it the deterministic action is close to zero, and nothing else has changed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax.agents.step_based import PPO, SAC, TRPO
from spjax.agents.step_based.cloning import hold_position, resting_observations
from spjax.contexts import Gaussian
from spjax.envs.ball_catching import BallCatching
from tests.probe import MatchContext


@struct.dataclass
class WideBox(MatchContext):
    """Actions in [-10, 10], so that an untrained squashed policy is far from zero; rewards what is closest to zero."""

    action_lower = (-10.0,)
    action_upper = (10.0,)

    @property
    def initial(self):
        return Gaussian.from_std((0.2,), (0.1,))

    def reward(self, state, action):
        return -(action[0] ** 2)


ENV = WideBox()


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent",
    [PPO(), TRPO(), SAC(), PPO(normalize_observations=True)],
    ids=["ppo", "trpo", "sac", "ppo, normalised"],
)
def test_the_deterministic_action_becomes_zero_where_episodes_start_and_other_networks_stay(
    agent, key
):
    before = agent.init(jax.random.fold_in(key, 0), ENV)
    after = jax.jit(lambda state, key: hold_position(agent, state, ENV, key))(
        before, jax.random.fold_in(key, 1)
    )
    observations = resting_observations(ENV, jax.random.fold_in(key, 2))

    def size(state):
        return float(
            jnp.abs(agent.deterministic_action(state, ENV, observations)).mean()
        )

    assert size(after) < 0.05 * 10
    assert size(after) < 0.2 * size(before)
    for name in set(before.params) - {"policy"}:
        for a, b in zip(
            jax.tree.leaves(before.params[name]),
            jax.tree.leaves(after.params[name]),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
    if "log_std" in before.params["policy"]["params"]:
        np.testing.assert_array_equal(
            after.params["policy"]["params"]["log_std"], np.zeros(1)
        )


def test_resting_observations_are_those_of_the_initial_contexts(key):
    contexts = resting_observations(ENV, key)[:, 0]
    assert contexts.size == 2800
    assert float(contexts.mean()) == pytest.approx(0.2, abs=0.01)
    assert float(contexts.std()) == pytest.approx(0.1, abs=0.01)


def test_contexts_may_come_from_a_distribution_of_the_users(key):
    contexts = resting_observations(ENV, key, Gaussian.from_std((-0.5,), (0.2,)))[:, 0]
    assert float(contexts.mean()) == pytest.approx(-0.5, abs=0.02)
    assert float(contexts.std()) == pytest.approx(0.2, abs=0.02)
    assert float(contexts.min()) >= -1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("horizon", "episodes"), [(7, 400), (56, 50), (100, 28), (1000, 20)]
)
def test_episodes_are_seen_to_their_end_and_are_about_2_800_observations(
    horizon, episodes, key
):
    class Long(WideBox):
        pass

    Long.horizon = horizon
    times = np.asarray(resting_observations(Long(), key)[:, 1]).reshape(horizon, -1)
    assert times.shape == (horizon, episodes)
    np.testing.assert_array_equal(
        times, np.arange(horizon)[:, None] * np.ones(episodes)
    )


def test_ball_catching_rests_as_published_for_2_800_observations_until_the_balls_are_down(
    key,
):
    env = BallCatching()
    rows = jax.eval_shape(lambda key: resting_observations(env, key), key)
    assert rows.shape == (50 * 56, env.observation_size)


@pytest.mark.slow
def test_cloning_sees_the_contexts_of_the_given_distribution(key):
    """A policy cloned far from where it is asked is not at zero there."""
    agent = SAC(hidden=(32,))
    before = agent.init(jax.random.fold_in(key, 0), ENV)

    def size(initial, context):
        after = hold_position(agent, before, ENV, jax.random.clone(key), initial)
        observation = jnp.array([[context, 0.0]])
        return float(
            jnp.abs(agent.deterministic_action(after, ENV, observation)).mean()
        )

    left, right = (Gaussian.from_std((mean,), (0.01,)) for mean in (-0.9, 0.9))
    assert size(left, -0.9) < size(right, -0.9)
    assert size(right, 0.9) < size(left, 0.9)


def test_25_epochs_of_minibatches_of_64_see_the_same_70_percent_of_the_observations(
    key,
):
    seen = []

    class Watching(PPO):
        """Its action is 1 but for what it learns, and it remembers the observations that it is asked about."""

        def deterministic_action(self, state, env, observation):
            jax.debug.callback(
                lambda rows: seen.append(np.asarray(rows)), observation, ordered=True
            )
            return jnp.ones(len(observation)) + state.params["policy"]["bias"]

        def acquainted(self, state, observation):
            return state

    @struct.dataclass
    class State:
        params: dict

    state = State(params={"policy": {"bias": jnp.zeros(())}})
    after = hold_position(Watching(), state, ENV, key)
    jax.effects_barrier()

    assert [rows.shape for rows in seen] == [(64, 2)] * (25 * (1960 // 64))
    epochs = np.concatenate(seen).reshape(25, -1, 2)
    # 70 % of 2,800, but for contexts that are drawn twice
    assert 1955 <= len(np.unique(epochs.reshape(-1, 2), axis=0)) <= 1960
    for epoch in epochs:
        assert len(np.unique(epoch, axis=0)) >= 30 * 64 - 5
    # against a slope that hardly changes, Adam's steps are as long as its learning rate
    bias = float(after.params["policy"]["bias"])
    assert bias == pytest.approx(-1e-4 * 25 * 30, rel=0.02)
