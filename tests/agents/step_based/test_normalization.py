"""Normalised observations and rewards: the statistics are NumPy's, live in the agent's state, and the task does not see them."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest
from flax import struct

from spjax.agents.step_based.normalization import (
    Moments,
    Normalizer,
    normalized_rollout,
)
from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.training.run_folder import read_config
from spjax.training.train import restore
from tests.agents.step_based import test_ppo, test_trpo
from tests.agents.step_based.learning import train, uniform
from tests.probe import EndlessReward, MatchContext
from tests.training.conftest import TINY, tiny
from tests.training.runs import check_lanes_and_resume

pytestmark = pytest.mark.usefixtures("compiled_once")

BOTH = {"normalize_observations": True, "normalize_rewards": True}
DISCOUNT = 0.9


@struct.dataclass
class FarAway(EndlessReward):
    """Observations far from 0 and on two scales, rewards in the hundreds; cut every five steps."""

    def observe(self, context, time):
        return jnp.stack([1000 + 20 * context[0], 0.01 * time])

    def reward(self, state, action):
        return 100 * state.context[0] + 300


ENV = FarAway()


def blind(key, observation):
    """Acts without looking, so that what happens does not depend on how observations are normalised."""
    return jax.random.normal(key, (1,)), observation


def numpys(rows):
    """Returns mean and variance of all rows, in double precision."""
    rows = np.asarray(rows, np.float64)
    return rows.mean(axis=0), rows.var(axis=0)


def assert_moments(moments, rows, rtol=1e-4):
    mean, variance = numpys(rows)
    assert float(moments.count) == len(rows)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(moments.variance, variance, rtol=rtol, atol=1e-9)


def test_moments_that_were_joined_are_those_of_all_rows_far_from_the_origin():
    rng = np.random.default_rng(0)
    parts = [
        np.float32(rng.normal([1e4, -3.0, 0.0], [2.0, 1e-2, 1e3], size=(size, 3)))
        for size in (1, 7, 40, 2)
    ]
    joined = Moments.empty((3,))
    for part in parts:
        joined = joined.joined(Moments.of(jnp.asarray(part)))
    assert_moments(joined, np.concatenate(parts))


def test_moments_of_nothing_change_nothing_and_equal_rows_have_no_variance():
    seen = Moments.of(jnp.array([[1.0, 1000.1], [2.0, 1000.1]]))
    for joined in (Moments.empty((2,)).joined(seen), seen.joined(Moments.empty((2,)))):
        jax.tree.map(np.testing.assert_array_equal, joined, seen)
    for _ in range(100):
        seen = seen.joined(Moments.of(jnp.full((3, 2), 1000.1)))
    assert (float(seen.mean[1]), float(seen.variance[1])) == (np.float32(1000.1), 0.0)
    nothing = Moments.empty((2,))
    jax.tree.map(
        np.testing.assert_array_equal, nothing.joined(Moments.empty((2,))), nothing
    )


def test_single_precision_keeps_up_with_a_drift_over_three_million_observations():
    """Far from the origin, where one more observation no longer changes a sum of single precision."""
    rng = np.random.default_rng(1)
    parts = np.float32(
        1e3 + np.linspace(0, 4, 850)[:, None] + rng.normal(size=(850, 3600))
    )

    def join(moments, part):
        return moments.joined(Moments.of(part)), None

    joined, _ = jax.lax.scan(join, Moments.empty(()), jnp.asarray(parts))
    mean, variance = numpys(parts.reshape(-1))
    assert float(joined.count) == parts.size
    assert float(joined.mean) == pytest.approx(mean, abs=2e-3)
    assert float(joined.variance) == pytest.approx(variance, rel=2e-3)


def played(key, num_steps=12, iterations=2):
    """Returns what `normalized_rollout` and `rollout` make of the same draws, an entry an iteration."""
    slots = init_slots(ENV, jax.random.fold_in(key, 0), 3, uniform, ())
    plain_slots, normalizer = slots, Normalizer.empty(2, 3, True, True)
    found = []
    for iteration in range(1, iterations + 1):
        keys = jax.random.fold_in(key, iteration)
        slots, *normalised, normalizer = normalized_rollout(
            ENV, keys, slots, blind, uniform, num_steps, DISCOUNT, normalizer
        )
        plain_slots, *plain = rollout(
            ENV,
            jax.random.clone(keys),
            plain_slots,
            blind,
            uniform,
            num_steps,
            DISCOUNT,
        )
        found.append((normalised, plain, normalizer))
        jax.tree.map(np.testing.assert_array_equal, slots, plain_slots)
    return found


def test_the_statistics_are_those_of_every_observation_that_was_acted_on(key):
    seen = []
    for _, (plain, _, _), normalizer in played(key):
        seen.append(np.asarray(plain.observation).reshape(-1, 2))
        assert_moments(normalizer.observations, np.concatenate(seen))


def test_the_statistics_of_rewards_are_those_of_running_returns_that_end_with_an_episode(
    key,
):
    running, returns, expected = np.zeros(3), [], []
    for (normalised, _, _), (plain, _, _), normalizer in played(key):
        reward = np.asarray(plain.reward, np.float64)
        ended = np.asarray(plain.terminated | plain.truncated)
        expected = []
        for t in range(len(reward)):
            running = DISCOUNT * running + reward[t]
            returns.append(running)
            scale = np.sqrt(np.var(returns) + 1e-8)
            expected.append(np.clip(reward[t] / scale, -10, 10))
            running = np.where(ended[t], 0.0, running)
        assert ended.any()
        np.testing.assert_allclose(normalised.reward, expected, rtol=1e-3)
        np.testing.assert_allclose(normalizer.running, running, rtol=1e-5)
        np.testing.assert_allclose(
            float(normalizer.returns.variance), np.var(returns), rtol=1e-4
        )
        assert float(normalizer.returns.count) == np.size(returns)


def test_an_observation_is_normalised_by_all_up_to_its_own_step_and_clipped(key):
    seen = np.zeros((0, 2))
    for (normalised, _, _), (plain, _, _), _ in played(key):
        raw = np.asarray(plain.observation, np.float64)
        following = np.asarray(plain.next_observation, np.float64)
        ended = np.asarray(plain.terminated | plain.truncated)
        for t in range(len(raw)):
            seen = np.concatenate([seen, raw[t]])
            scale = np.sqrt(seen.var(axis=0) + 1e-8)
            shown = np.clip((raw[t] - seen.mean(axis=0)) / scale, -10, 10)
            np.testing.assert_allclose(
                normalised.observation[t], shown, rtol=1e-3, atol=2e-3
            )
            if t + 1 == len(raw):
                continue
            # within an episode bit for bit what is seen next, at its end by the same statistics
            goes_on = ~ended[t]
            np.testing.assert_array_equal(
                normalised.next_observation[t][goes_on],
                normalised.observation[t + 1][goes_on],
            )
            later = np.concatenate([seen, raw[t + 1]])
            scale = np.sqrt(later.var(axis=0) + 1e-8)
            last = np.clip((following[t] - later.mean(axis=0)) / scale, -10, 10)
            np.testing.assert_allclose(
                normalised.next_observation[t], last, rtol=1e-3, atol=2e-3
            )
    assert np.abs(normalised.observation).max() <= 10


def test_what_the_policy_sees_is_what_the_batch_holds_and_episodes_are_the_tasks(key):
    for (normalised, episodes, failed), (plain, same, none), _ in played(key):
        np.testing.assert_allclose(
            normalised.extras, normalised.observation, rtol=1e-5, atol=1e-5
        )
        np.testing.assert_array_equal(normalised.action, plain.action)
        jax.tree.map(np.testing.assert_array_equal, (episodes, failed), (same, none))
        kept = np.asarray(episodes.mask)
        assert (np.asarray(episodes.first_observation)[kept, 0] > 900).all()
        assert np.asarray(episodes.episode_return)[kept].max() > 1000


def test_with_nothing_to_normalise_the_rollout_is_the_plain_one(key):
    slots = init_slots(ENV, jax.random.fold_in(key, 0), 3, uniform, ())
    nothing = Normalizer.empty(2, 3, False, False)
    assert not jax.tree.leaves(nothing)
    *found, after = normalized_rollout(
        ENV, jax.random.fold_in(key, 1), slots, blind, uniform, 12, DISCOUNT, nothing
    )
    plain = rollout(
        ENV, jax.random.fold_in(key, 1), slots, blind, uniform, 12, DISCOUNT
    )
    jax.tree.map(np.testing.assert_array_equal, tuple(found), plain)
    assert after == nothing


@pytest.mark.parametrize(
    "agent", [test_ppo.SMALL, test_trpo.SMALL], ids=["ppo", "trpo"]
)
def test_an_agent_that_normalises_nothing_has_no_statistics_in_its_state(agent, key):
    state = agent.init(jax.random.fold_in(key, 0), ENV)
    assert not jax.tree.leaves(state.normalizer)
    normalising = agent.replace(**BOTH).init(jax.random.fold_in(key, 1), ENV)
    assert len(jax.tree.leaves(normalising)) == len(jax.tree.leaves(state)) + 7


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent", [test_ppo.SMALL, test_trpo.SMALL], ids=["ppo", "trpo"]
)
def test_act_and_value_speak_the_tasks_language_and_change_no_statistics(agent, key):
    agent = agent.replace(**BOTH)
    state, _ = train(agent, ENV, jax.random.fold_in(key, 0), 1)
    rows = agent.num_envs * agent.num_steps
    assert float(state.normalizer.observations.count) == rows
    assert float(state.normalizer.returns.count) == rows

    contexts = jnp.array([[-0.9], [0.0], [0.4]])
    raw = jax.vmap(ENV.observe)(contexts, jnp.array([0.0, 3.0, 4.0]))
    moments, returns = state.normalizer.observations, state.normalizer.returns
    seen = (raw - moments.mean[None]) / jnp.sqrt(moments.variance + 1e-8)[None]
    np.testing.assert_allclose(
        agent.value(state, raw),
        jnp.sqrt(returns.variance + 1e-8) * agent.critic(state.params["value"], seen),
        rtol=1e-4,
    )
    mean, log_std = agent.policy(state.params["policy"], ENV, seen)
    np.testing.assert_allclose(
        agent.deterministic_action(state, ENV, raw), mean, rtol=1e-4, atol=1e-5
    )
    noise = jax.random.normal(jax.random.fold_in(key, 3), mean.shape)
    np.testing.assert_allclose(
        agent.act(state, ENV, jax.random.fold_in(key, 3), raw),
        mean + jnp.exp(log_std)[None] * noise,
        rtol=1e-4,
        atol=1e-5,
    )


@struct.dataclass
class BadlyScaled(MatchContext):
    """The context is observed in a thousandth of its unit, 50 units from 0."""

    def observe(self, context, time):
        return jnp.stack([1000 * (context[0] + 50), time])


@pytest.mark.slow
@pytest.mark.parametrize("normalised", [True, False])
def test_badly_scaled_observations_are_learned_from_if_they_are_normalised(
    normalised, key
):
    env = BadlyScaled()
    agent = test_ppo.SMALL.replace(
        learning_rate=1e-3, entropy_coefficient=0.01, normalize_observations=normalised
    )
    state, _ = train(agent, env, key, 100)
    contexts = jnp.array([-0.8, 0.0, 0.8])
    shown = jax.vmap(env.observe)(contexts[:, None], jnp.zeros(3))
    actions = agent.deterministic_action(state, env, shown)[:, 0]
    error = float(jnp.abs(actions - 0.5 * contexts).max())
    assert error < 0.04 if normalised else error > 0.35


@struct.dataclass
class LargeReward(EndlessReward):
    """Reward 500 for ever."""

    def reward(self, state, action):
        return jnp.full((), 500.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent",
    [
        test_ppo.SMALL.replace(learning_rate=1e-2),
        test_trpo.SMALL.replace(value_learning_rate=1e-2),
    ],
    ids=["ppo", "trpo"],
)
def test_the_value_of_a_normalised_reward_is_a_return_of_the_task(agent, key):
    """Bootstrapped by the normalised critic at every time limit: 500 / (1 - gamma) = 5,000."""
    state, _ = train(agent.replace(normalize_rewards=True), LargeReward(), key, 60)
    assert float(agent.value(state, jnp.zeros(2))) == pytest.approx(5000, rel=0.06)


@pytest.mark.slow
def test_statistics_are_checkpointed_resumed_evaluated_and_each_lane_s_own(tmp_path):
    """A resumed run ends with the same bits, a lane with those that it has alone, and what is restored evaluates the same."""
    agent = TINY.replace(**BOTH)
    config = tiny(agent=agent, seeds=(1, 2), num_iterations=4)
    check_lanes_and_resume(config, tmp_path)
    folder = tmp_path / "whole"
    assert read_config(folder).agent == agent

    _, program, states = restore(folder)
    arrays = program.to_arrays(states)
    name = "agent_state/normalizer/observations"
    assert (arrays[f"{name}/count"] == 4 * TINY.steps_per_iteration).all()
    assert not np.array_equal(*arrays[f"{name}/mean"])

    chunk, _ = program.compile(config.evaluate_every)
    _, _, again = chunk(program.from_arrays(arrays), 0)
    rows = pq.read_table(folder / "evaluation").to_pylist()
    last = [row["discounted_return"] for row in rows if row["iteration"] == 4]
    np.testing.assert_array_equal(again.evaluation.discounted_return, last)

    arrays[f"{name}/variance"] = np.ones_like(arrays[f"{name}/variance"])
    _, _, others = chunk(program.from_arrays(arrays), 0)
    assert (others.evaluation.discounted_return != np.asarray(last)).any()
