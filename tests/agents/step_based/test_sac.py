"""SAC: probe environments with known values and actions, both critics, the replay buffer's ring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based import SAC
from spjax.agents.step_based.networks import squashed_sample
from spjax.agents.step_based.replay import Replay
from spjax.agents.step_based.sac import Rows
from spjax.envs.point_mass import PointMass
from tests.agents.step_based.learning import train
from tests.probe import ConstantReward, DelayedReward, EndlessReward, MatchContext

SMALL = SAC(
    num_envs=4,
    num_steps=64,
    hidden=(16,),
    batch_size=32,
    replay_size=4000,
    learning_starts=100,
    learning_rate=3e-3,
    discount=0.9,
    target_rate=0.05,
)
COLD = {"initial_temperature": 1e-6, "target_entropy": -20.0}  # so low an entropy that the temperature stays at zero


def q_at(agent, state, observation, action):
    return agent._action_value(state.params["q1"], jnp.asarray(observation), jnp.asarray(action))


@pytest.mark.parametrize("critic", ["state-value", "twin-q"])
def test_the_value_of_a_constant_reward_is_that_reward(key, critic):
    agent = SMALL.replace(critic=critic)
    state, _ = train(agent, ConstantReward(), key, 8)
    values = q_at(agent, state, [[0.3, 0.0], [-0.8, 0.0]], [[0.5], [-0.5]])
    np.testing.assert_allclose(values, 1.0, atol=0.05)


@pytest.mark.parametrize("critic", ["state-value", "twin-q"])
def test_without_entropy_a_delayed_reward_is_discounted_once(key, critic):
    agent = SMALL.replace(critic=critic, **COLD)
    state, _ = train(agent, DelayedReward(), key, 12)
    np.testing.assert_allclose(q_at(agent, state, [[0.3, 0.0], [0.3, 1.0]], [[0.0], [0.0]]), [0.9, 1.0], atol=0.06)
    if critic == "state-value":
        np.testing.assert_allclose(agent.value(state, jnp.array([[0.3, 0.0], [0.3, 1.0]])), [0.9, 1.0], atol=0.06)


def test_the_soft_value_holds_the_entropy_that_the_return_does_not(key):
    agent = SMALL.replace(initial_temperature=1.0, target_entropy=0.69, learning_rate=3e-3)
    state, metrics = train(agent, ConstantReward(), key, 8)
    temperature, entropy = float(metrics.temperature[-1]), float(metrics.entropy[-1])
    soft = float(agent.value(state, jnp.array([0.0, 0.0])))
    assert temperature * entropy > 0.2
    assert soft == pytest.approx(1 + temperature * entropy, abs=0.1)  # which is why V_LB reads sample returns


CUT = 1 / (1 - 0.9 * 4 / 5)  # the observation does not tell the time: four steps in five go on


@pytest.mark.parametrize(("bootstrap", "expected"), [(True, 10.0), (False, CUT)])
def test_a_time_limit_bootstraps_or_ends_as_the_setting_says(key, bootstrap, expected):
    agent = SMALL.replace(bootstrap_time_limit=bootstrap, **COLD)
    state, _ = train(agent, EndlessReward(), key, 30)
    assert float(agent.value(state, jnp.zeros(2))) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("critic", ["state-value", "twin-q"])
def test_the_policy_learns_the_action_that_the_context_asks_for(key, critic):
    agent = SMALL.replace(critic=critic, target_entropy=-3.0)
    state, _ = train(agent, MatchContext(), key, 15)
    observation = jnp.array([[-0.8, 0.0], [0.0, 0.0], [0.8, 0.0]])
    actions = jax.vmap(lambda k: agent.act(state, MatchContext(), k, observation))(
        jax.random.split(jax.random.fold_in(key, 4), 400)
    )
    np.testing.assert_allclose(actions.mean(0)[:, 0], [-0.4, 0.0, 0.4], atol=0.08)


def test_the_temperature_is_learned_until_the_entropy_is_the_wanted_one(key):
    agent = SMALL.replace(target_entropy=-1.0, initial_temperature=0.1)
    _, metrics = train(agent, MatchContext(), key, 40)
    assert float(metrics.entropy[0]) > 0
    assert float(metrics.entropy[-5:].mean()) == pytest.approx(-1.0, abs=0.2)


def test_until_learning_starts_actions_are_uniform_and_nothing_learns(key):
    agent = SMALL.replace(learning_starts=10_000)
    before = agent.init(jax.random.fold_in(key, 1), ConstantReward())
    state, metrics = train(agent, ConstantReward(), key, 2)
    np.testing.assert_array_equal(metrics.num_updates, 0)
    for a, b in zip(jax.tree.leaves(before.params), jax.tree.leaves(state.params), strict=True):
        np.testing.assert_array_equal(a, b)
    actions = np.asarray(state.replay.rows[: int(state.replay.count), 2])
    assert abs(actions.mean()) < 0.1
    assert actions.std() == pytest.approx(1 / np.sqrt(3), abs=0.05)


def test_one_gradient_step_follows_every_control_step_of_all_slots(key):
    agent = SMALL.replace(updates_per_step=3)
    _, metrics = train(agent, ConstantReward(), key, 2)
    np.testing.assert_array_equal(metrics.num_updates, [3 * (64 - 24), 3 * 64])  # 4 x 25 steps reach the start


def test_each_loss_reaches_its_own_parameters_only(key):
    agent, env = SMALL, ConstantReward()
    state = agent.init(jax.random.fold_in(key, 0), env)
    rows = Rows(
        observation=jax.random.normal(jax.random.fold_in(key, 1), (8, 2)),
        action=jnp.zeros((8, 1)),
        reward=jnp.ones(8),
        next_observation=jnp.zeros((8, 2)),
        goes_on=jnp.zeros(8),
    )
    noise = jax.random.normal(jax.random.fold_in(key, 2), (1, 8, 1))

    def gradient(rewards):
        changed = rows.replace(reward=rewards)
        return jax.grad(lambda p: agent.loss(p, state.target, env, changed, noise)[0])(state.params)

    ones, twos = gradient(jnp.ones(8)), gradient(2 * jnp.ones(8))
    moved = {
        name: any(
            bool((a != b).any()) for a, b in zip(jax.tree.leaves(ones[name]), jax.tree.leaves(twos[name]), strict=True)
        )
        for name in ones
    }
    assert moved == {"policy": False, "q1": True, "q2": True, "value": False, "log_temperature": False}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [0.0, 3.0, 7.0, 12.0, 20.0])
def test_the_log_density_of_a_squashed_action_is_exact_however_far_out_and_so_is_its_gradient(size, sign):
    """In float64 log(1 - tanh(u)^2) = -2 log cosh(u), whose derivative is -2 tanh(u)."""
    raw, log_std, noise = sign * size, -0.4, 0.7
    mean = raw - np.exp(log_std) * noise

    def log_prob(mean, log_std):
        return squashed_sample(jnp.array([noise]), mean[None], log_std[None])[1]

    value, slopes = jax.value_and_grad(log_prob, argnums=(0, 1))(jnp.asarray(mean), jnp.asarray(log_std))
    log_cosh = np.logaddexp(raw, -raw) - np.log(2)
    expected = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) + 2 * log_cosh
    assert float(value) == pytest.approx(expected, rel=3e-7, abs=3e-6)
    assert float(slopes[0]) == pytest.approx(2 * np.tanh(raw), rel=1e-5, abs=1e-6)
    assert float(slopes[1]) == pytest.approx(2 * np.tanh(raw) * np.exp(log_std) * noise - 1, rel=1e-5, abs=1e-6)


def test_the_published_critic_keeps_the_published_density_and_twin_q_has_the_exact_one(key):
    """A policy whose pre-tanh mean is about 12: the published 1e-6 hides 9.2 nats an action dimension."""
    env, observation = ConstantReward(), jnp.zeros((8, 2))
    rows = Rows(observation, jnp.zeros((8, 1)), jnp.ones(8), observation, jnp.zeros(8))
    noise = jnp.zeros((2, 8, 1))
    entropies = {}
    for critic in ("state-value", "twin-q"):
        agent = SMALL.replace(critic=critic)
        state = agent.init(jax.random.clone(key), env)
        output = state.params["policy"]["params"]["MLP_0"]["Dense_1"]
        output["kernel"], output["bias"] = jnp.zeros_like(output["kernel"]), jnp.array([12.0, 0.0])
        entropies[critic] = float(agent.loss(state.params, state.target, env, rows, noise)[1].entropy)
    normal = 0.5 * np.log(2 * np.pi)
    assert entropies["state-value"] == pytest.approx(normal + np.log(1e-6), abs=1e-3)
    assert entropies["twin-q"] == pytest.approx(normal - 2 * (12 - np.log(2)), abs=1e-5)


def test_the_slow_copy_follows_at_its_rate(key):
    agent = SMALL.replace(target_rate=0.0)
    before = agent.init(jax.random.fold_in(key, 1), ConstantReward())
    state, _ = train(agent, ConstantReward(), key, 2)
    for a, b in zip(jax.tree.leaves(before.target), jax.tree.leaves(state.target), strict=True):
        np.testing.assert_array_equal(a, b)
    state, _ = train(SMALL.replace(target_rate=1.0), ConstantReward(), key, 2)
    for a, b in zip(jax.tree.leaves(state.params["value"]), jax.tree.leaves(state.target["value"]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_replay_buffer_is_a_ring_of_the_newest_rows():
    buffer = Replay.empty(6, jnp.zeros((1, 2)))
    for start in (0, 2, 4, 6):
        buffer = buffer.add(jnp.arange(start, start + 2.0)[:, None] * jnp.ones((1, 2)))
    np.testing.assert_array_equal(buffer.rows[:, 0], [6, 7, 2, 3, 4, 5])
    assert int(buffer.count) == 8
    np.testing.assert_array_equal(buffer.sample(jnp.array([0.0, 0.99, 0.999999]))[:, 0], [6, 5, 5])


def test_a_buffer_that_is_not_full_gives_only_rows_that_it_holds():
    buffer = Replay.empty(100, jnp.zeros((1, 1))).add(jnp.array([[1.0], [2.0]]))
    drawn = np.asarray(buffer.sample(jnp.linspace(0, 0.999, 50)))[:, 0]
    np.testing.assert_array_equal(np.unique(drawn), [1, 2])


def test_a_replay_buffer_that_slots_do_not_divide_is_one_sentence():
    with pytest.raises(ValueError, match=r"^agent.replay_size must be a multiple of num_envs = 5, got 999$"):
        SAC(replay_size=999).check()


def test_actions_fill_the_box_of_the_task(key):
    env = PointMass(dimensions=2)
    agent = SAC(hidden=(8,))
    state = agent.init(jax.random.fold_in(key, 0), env)
    actions = agent.act(state, env, jax.random.fold_in(key, 1), jnp.zeros((500, env.observation_size)))
    assert 8 < float(jnp.abs(actions).max()) <= 10
