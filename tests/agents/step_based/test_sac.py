"""SAC: probe environments with known values and actions, both critics, the replay buffer's ring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from spjax.agents.step_based import SAC
from spjax.agents.step_based.networks import squashed_sample
from spjax.agents.step_based.replay import Replay
from spjax.agents.step_based.sac import Rows, _Learner
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
ENV = ConstantReward()
COLD = {
    "initial_temperature": 1e-6,
    "target_entropy": -20.0,
}  # so low an entropy that the temperature stays at zero


def q_at(agent, state, observation, action):
    return agent._action_value(
        state.params["q1"], jnp.asarray(observation), jnp.asarray(action)
    )


@pytest.mark.slow
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
    np.testing.assert_allclose(
        q_at(agent, state, [[0.3, 0.0], [0.3, 1.0]], [[0.0], [0.0]]),
        [0.9, 1.0],
        atol=0.06,
    )
    if critic == "state-value":
        np.testing.assert_allclose(
            agent.value(state, jnp.array([[0.3, 0.0], [0.3, 1.0]])),
            [0.9, 1.0],
            atol=0.06,
        )


def test_the_soft_value_holds_the_entropy_that_the_return_does_not(key):
    agent = SMALL.replace(
        initial_temperature=1.0, target_entropy=0.69, learning_rate=3e-3
    )
    state, metrics = train(agent, ConstantReward(), key, 8)
    temperature, entropy = float(metrics.temperature[-1]), float(metrics.entropy[-1])
    soft = float(agent.value(state, jnp.array([0.0, 0.0])))
    assert temperature * entropy > 0.2
    assert soft == pytest.approx(
        1 + temperature * entropy, abs=0.1
    )  # which is why V_LB reads sample returns


CUT = 1 / (
    1 - 0.9 * 4 / 5
)  # the observation does not tell the time: four steps in five go on


@pytest.mark.parametrize(("bootstrap", "expected"), [(True, 10.0), (False, CUT)])
def test_a_time_limit_bootstraps_or_ends_as_the_setting_says(key, bootstrap, expected):
    agent = SMALL.replace(bootstrap_time_limit=bootstrap, **COLD)
    state, _ = train(agent, EndlessReward(), key, 30)
    assert float(agent.value(state, jnp.zeros(2))) == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
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
    for a, b in zip(
        jax.tree.leaves(before.params), jax.tree.leaves(state.params), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    actions = np.asarray(state.replay.rows[: int(state.replay.count), 2])
    assert abs(actions.mean()) < 0.1
    assert actions.std() == pytest.approx(1 / np.sqrt(3), abs=0.05)


def test_one_gradient_step_follows_every_control_step_of_all_slots(key):
    agent = SMALL.replace(updates_per_step=3)
    _, metrics = train(agent, ConstantReward(), key, 2)
    np.testing.assert_array_equal(
        metrics.num_updates, [3 * (64 - 24), 3 * 64]
    )  # 4 x 25 steps reach the start


def drawn(agent, key):
    """Returns a state all of whose networks differ, also the slow copies, and rows and noise for its loss."""
    state = agent.init(jax.random.fold_in(key, 0), ENV)
    number = iter(range(10, 100))

    def disturbed(leaf):
        return leaf + 0.3 * jax.random.normal(
            jax.random.fold_in(key, next(number)), leaf.shape
        )

    state = state.replace(
        params=jax.tree.map(disturbed, state.params),
        target=jax.tree.map(lambda leaf: 2 * disturbed(leaf), state.target),
    )
    observation, next_observation = jax.random.normal(
        jax.random.fold_in(key, 1), (2, 16, 2)
    )
    rows = Rows(
        observation=observation,
        action=jax.random.uniform(jax.random.fold_in(key, 2), (16, 1), minval=-1.0),
        reward=jax.random.normal(jax.random.fold_in(key, 3), (16,)),
        next_observation=next_observation,
        goes_on=(jnp.arange(16) % 3 > 0).astype(float),
    )
    count = 1 if agent.critic == "state-value" else 2
    return state, rows, jax.random.normal(jax.random.fold_in(key, 4), (count, 16, 1))


def by_hand(agent, state, rows, noise):
    """Returns the losses of the article, (5), (7), (12) and that of the temperature, from the networks' outputs in NumPy."""
    params, slow = state.params, state.target
    temperature = np.exp(float(params["log_temperature"]))

    def policy(observation, draw):
        action, log_prob = squashed_sample(
            draw,
            *agent._policy(params["policy"], ENV, observation),
            exact=agent.critic == "twin-q",
        )
        return action, np.asarray(log_prob)

    def q(networks, name, observation, action):
        return np.asarray(agent._action_value(networks[name], observation, action))

    action, log_prob = policy(rows.observation, noise[0])
    q1, q2 = (q(params, name, rows.observation, action) for name in ("q1", "q2"))
    value_loss = 0.0
    if agent.critic == "state-value":
        climbed = q1
        values = np.asarray(agent._value(params["value"], rows.observation))
        value_loss = (
            0.5 * ((values - (np.minimum(q1, q2) - temperature * log_prob)) ** 2).mean()
        )
        following = np.asarray(agent._value(slow["value"], rows.next_observation))
    else:
        climbed = np.minimum(q1, q2)
        later, later_log_prob = policy(rows.next_observation, noise[1])
        slow_values = [
            q(slow, name, rows.next_observation, later) for name in ("q1", "q2")
        ]
        following = np.minimum(*slow_values) - temperature * later_log_prob
    backup = (
        np.asarray(rows.reward) + agent.discount * np.asarray(rows.goes_on) * following
    )
    errors = [
        q(params, name, rows.observation, rows.action) - backup for name in ("q1", "q2")
    ]
    q_loss = sum(0.5 * (error**2).mean() for error in errors)
    policy_loss = (temperature * log_prob - climbed).mean()
    wanted = -1.0 if agent.target_entropy is None else agent.target_entropy
    temperature_loss = -float(params["log_temperature"]) * (log_prob + wanted).mean()
    return policy_loss, q_loss, value_loss, temperature_loss, -log_prob.mean()


@pytest.mark.slow
@pytest.mark.parametrize("target_entropy", [None, 0.4])
@pytest.mark.parametrize("critic", ["state-value", "twin-q"])
def test_the_losses_are_those_of_the_equations(critic, target_entropy, key):
    agent = SMALL.replace(critic=critic, target_entropy=target_entropy)
    state, rows, noise = drawn(agent, key)
    total, losses = agent.loss(state.params, state.target, ENV, rows, noise)
    policy_loss, q_loss, value_loss, temperature_loss, entropy = by_hand(
        agent, state, rows, noise
    )
    assert float(losses.policy_loss) == pytest.approx(policy_loss, rel=1e-4, abs=1e-5)
    assert float(losses.q_loss) == pytest.approx(q_loss, rel=1e-4)
    assert float(losses.value_loss) == pytest.approx(value_loss, rel=1e-4)
    assert float(losses.entropy) == pytest.approx(entropy, rel=1e-4)
    assert float(total) == pytest.approx(
        policy_loss + q_loss + value_loss + temperature_loss, rel=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["state-value", "twin-q"])
def test_each_loss_reaches_its_own_parameters_only(key, critic):
    """The gradient of each network is that of its own loss, every other network held fixed."""
    agent = SMALL.replace(critic=critic)
    state, rows, noise = drawn(agent, key)

    def gradient(params, rows, target):
        return jax.grad(lambda p: agent.loss(p, target, ENV, rows, noise)[0])(params)

    def moved_by(params=None, rows=rows, target=None):
        after = gradient(params or state.params, rows, target or state.target)
        return {
            name
            for name in first
            if any(
                bool((a != b).any())
                for a, b in zip(
                    jax.tree.leaves(first[name]),
                    jax.tree.leaves(after[name]),
                    strict=True,
                )
            )
        }

    def disturbed(networks, name):
        return {**networks, name: jax.tree.map(lambda leaf: leaf + 0.1, networks[name])}

    first = gradient(state.params, rows, state.target)
    assert moved_by(rows=rows.replace(reward=2 * rows.reward)) == {"q1", "q2"}
    if critic == "state-value":
        assert moved_by(disturbed(state.params, "q1")) == {"policy", "q1", "value"}
        assert moved_by(disturbed(state.params, "q2")) == {"q2", "value"}
        assert moved_by(disturbed(state.params, "value")) == {"value"}
        assert moved_by(target=disturbed(state.target, "value")) == {"q1", "q2"}
    else:
        assert moved_by(disturbed(state.params, "q1")) == {"policy", "q1"}
        assert moved_by(disturbed(state.params, "q2")) == {"policy", "q2"}
        for name in ("q1", "q2"):
            assert moved_by(target=disturbed(state.target, name)) == {"q1", "q2"}


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["state-value", "twin-q"])
def test_a_gradient_step_is_one_of_adam_and_the_slow_copies_follow_the_new_networks(
    key, critic
):
    agent = SMALL.replace(critic=critic, target_rate=0.25)
    state, rows, noise = drawn(agent, key)
    flat, unravel = ravel_pytree(state.params)
    learner = _Learner(params=flat, target=state.target, optimiser=state.optimiser)
    after, _ = agent._gradient_step(learner, unravel, ENV, rows, noise)
    gradient = jax.grad(
        lambda p: agent.loss(unravel(p), state.target, ENV, rows, noise)[0]
    )(flat)
    expected = agent.learning_rate * np.asarray(gradient) / (np.abs(gradient) + 1e-8)
    np.testing.assert_allclose(flat - after.params, expected, rtol=1e-3, atol=1e-6)
    params = unravel(after.params)
    for name, slow in state.target.items():
        mixed = jax.tree.map(
            lambda old, new: 0.75 * old + 0.25 * new, slow, params[name]
        )
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
            after.target[name],
            mixed,
        )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [0.0, 3.0, 7.0, 12.0, 20.0])
def test_the_log_density_of_a_squashed_action_is_exact_however_far_out_and_so_is_its_gradient(
    size, sign
):
    """In float64 log(1 - tanh(u)^2) = -2 log cosh(u), whose derivative is -2 tanh(u)."""
    raw, log_std, noise = sign * size, -0.4, 0.7
    mean = raw - np.exp(log_std) * noise

    def log_prob(mean, log_std):
        return squashed_sample(jnp.array([noise]), mean[None], log_std[None])[1]

    value, slopes = jax.value_and_grad(log_prob, argnums=(0, 1))(
        jnp.asarray(mean), jnp.asarray(log_std)
    )
    log_cosh = np.logaddexp(raw, -raw) - np.log(2)
    expected = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) + 2 * log_cosh
    assert float(value) == pytest.approx(expected, rel=3e-7, abs=3e-6)
    assert float(slopes[0]) == pytest.approx(2 * np.tanh(raw), rel=1e-5, abs=1e-6)
    assert float(slopes[1]) == pytest.approx(
        2 * np.tanh(raw) * np.exp(log_std) * noise - 1, rel=1e-5, abs=1e-6
    )


def test_the_published_critic_keeps_the_published_density_and_twin_q_has_the_exact_one(
    key,
):
    """A policy whose pre-tanh mean is about 12: the published 1e-6 hides 9.2 nats an action dimension."""
    env, observation = ConstantReward(), jnp.zeros((8, 2))
    rows = Rows(observation, jnp.zeros((8, 1)), jnp.ones(8), observation, jnp.zeros(8))
    noise = jnp.zeros((2, 8, 1))
    entropies = {}
    for critic in ("state-value", "twin-q"):
        agent = SMALL.replace(critic=critic)
        state = agent.init(jax.random.clone(key), env)
        output = state.params["policy"]["params"]["MLP_0"]["Dense_1"]
        output["kernel"], output["bias"] = (
            jnp.zeros_like(output["kernel"]),
            jnp.array([12.0, 0.0]),
        )
        entropies[critic] = float(
            agent.loss(state.params, state.target, env, rows, noise)[1].entropy
        )
    normal = 0.5 * np.log(2 * np.pi)
    # tanh(12) may be rounded to 1 or to a neighbour of it, which is 2.4e-7 beside the 1e-6
    assert entropies["state-value"] == pytest.approx(normal + np.log(1e-6), abs=0.4)
    assert entropies["twin-q"] == pytest.approx(normal - 2 * (12 - np.log(2)), abs=1e-5)


@pytest.mark.slow
def test_the_slow_copy_follows_at_its_rate(key):
    agent = SMALL.replace(target_rate=0.0)
    before = agent.init(jax.random.fold_in(key, 1), ConstantReward())
    state, _ = train(agent, ConstantReward(), key, 2)
    for a, b in zip(
        jax.tree.leaves(before.target), jax.tree.leaves(state.target), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    state, _ = train(SMALL.replace(target_rate=1.0), ConstantReward(), key, 2)
    for a, b in zip(
        jax.tree.leaves(state.params["value"]),
        jax.tree.leaves(state.target["value"]),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_replay_buffer_is_a_ring_of_the_newest_rows():
    buffer = Replay.empty(6, jnp.zeros((1, 2)))
    for start in (0, 2, 4, 6):
        buffer = buffer.add(jnp.arange(start, start + 2.0)[:, None] * jnp.ones((1, 2)))
    np.testing.assert_array_equal(buffer.rows[:, 0], [6, 7, 2, 3, 4, 5])
    assert int(buffer.count) == 8
    np.testing.assert_array_equal(
        buffer.sample(jnp.array([0.0, 0.99, 0.999999]))[:, 0], [6, 5, 5]
    )


def test_a_buffer_that_is_not_full_gives_only_rows_that_it_holds():
    buffer = Replay.empty(100, jnp.zeros((1, 1))).add(jnp.array([[1.0], [2.0]]))
    drawn = np.asarray(buffer.sample(jnp.linspace(0, 0.999, 50)))[:, 0]
    np.testing.assert_array_equal(np.unique(drawn), [1, 2])


def test_a_replay_buffer_that_slots_do_not_divide_is_one_sentence():
    with pytest.raises(
        ValueError,
        match=r"^agent.replay_size must be a multiple of num_envs = 5, got 999$",
    ):
        SAC(replay_size=999).check()


@pytest.mark.slow
def test_actions_fill_the_box_of_the_task(key):
    env = PointMass(dimensions=2)
    agent = SAC(hidden=(8,))
    state = agent.init(jax.random.fold_in(key, 0), env)
    actions = agent.act(
        state, env, jax.random.fold_in(key, 1), jnp.zeros((500, env.observation_size))
    )
    assert 8 < float(jnp.abs(actions).max()) <= 10
