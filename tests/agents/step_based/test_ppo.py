"""PPO on probe environments with known values and actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from spjax.agents.base import Slots
from spjax.agents.step_based import PPO
from spjax.agents.step_based.networks import gaussian_log_prob
from spjax.agents.step_based.on_policy import Batch
from spjax.agents.step_based.rollout import init_slots
from tests.agents.step_based.learning import train, uniform
from tests.probe import ConstantReward, MatchContext

SMALL = PPO(
    num_envs=32,
    num_steps=16,
    num_minibatches=8,
    num_epochs=4,
    hidden=(32,),
    learning_rate=3e-3,
    discount=0.9,
)

ENV = ConstantReward()


@pytest.mark.slow
def test_the_policy_learns_the_action_that_the_context_asks_for(key):
    state, metrics = train(SMALL.replace(learning_rate=1e-3), MatchContext(), key, 200)
    observation = jnp.array([[-0.8, 0.0], [0.0, 0.0], [0.8, 0.0]])
    actions = jax.vmap(lambda k: SMALL.act(state, MatchContext(), k, observation))(
        jax.random.split(jax.random.fold_in(key, 4), 400)
    )
    np.testing.assert_allclose(actions.mean(0)[:, 0], [-0.4, 0.0, 0.4], atol=0.05)
    assert float(metrics.policy_std[-1]) < 0.1


def minibatch(agent, params, key):
    """Returns 64 rows whose actions come from another policy, so that ratios lie inside and outside the clip range."""
    observation = jax.random.normal(jax.random.fold_in(key, 1), (64, 2))
    action = 1.5 * jax.random.normal(jax.random.fold_in(key, 2), (64, 1))
    mean, log_std = agent.policy(params["policy"], ENV, observation)
    old = gaussian_log_prob(mean + 0.3, log_std + 0.1, action)
    advantage = 3 * jax.random.normal(jax.random.fold_in(key, 3), (64,)) + 2
    return Batch(
        observation,
        action,
        old,
        advantage,
        target=jax.random.normal(jax.random.fold_in(key, 4), (64,)) - 1,
    )


def test_the_loss_is_the_clipped_surrogate_with_value_error_and_entropy_bonus(key):
    """Equations (7) and (9) in NumPy, in float64."""
    agent = SMALL.replace(
        clip_range=0.2, value_coefficient=0.7, entropy_coefficient=0.3
    )
    params = agent.init(jax.random.fold_in(key, 0), ENV).params
    batch = minibatch(agent, params, jax.random.fold_in(key, 1))
    total, losses = agent.loss(params, ENV, batch)

    rows = jax.tree.map(lambda leaf: np.asarray(leaf, float), batch)
    mean, log_std = (
        np.asarray(moment, float)
        for moment in agent.policy(params["policy"], ENV, batch.observation)
    )
    log_prob = stats.norm.logpdf(rows.action, mean, np.exp(log_std)).sum(axis=1)
    ratio = np.exp(log_prob - rows.log_prob)
    advantage = (rows.advantage - rows.advantage.mean()) / rows.advantage.std()
    gains = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    errors = (
        np.asarray(agent.critic(params["value"], batch.observation), float)
        - rows.target
    )
    entropy = stats.norm.entropy(scale=np.exp(log_std)).sum()
    assert (gains < ratio * advantage - 1e-3).sum() > 5  # or clipping would not show

    assert float(losses.policy) == pytest.approx(-gains.mean(), rel=1e-4)
    assert float(losses.value) == pytest.approx(0.5 * (errors**2).mean(), rel=1e-5)
    assert float(losses.clip_fraction) == pytest.approx(
        (np.abs(ratio - 1) > 0.2).mean()
    )
    assert float(losses.approximate_kl) == pytest.approx(
        0.5 * ((log_prob - rows.log_prob) ** 2).mean(), rel=1e-4
    )
    expected = -gains.mean() + 0.7 * 0.5 * (errors**2).mean() - 0.3 * entropy
    assert float(total) == pytest.approx(expected, rel=1e-4)


def test_a_clipped_value_errs_by_itself_or_by_the_value_near_the_one_before(key):
    """Rows on both sides of the clip, of which one is nearer to its target than the clipped value, and one further."""
    agent = SMALL.replace(clip_value=0.2, value_coefficient=0.7)
    params = agent.init(jax.random.fold_in(key, 0), ENV).params
    batch = minibatch(agent, params, jax.random.fold_in(key, 1))
    value = np.asarray(agent.critic(params["value"], batch.observation), float)
    before = value + np.resize([0.1, -0.1, 1.0, 1.0, -1.0, -1.0], 64)
    target = before + np.resize([0.5, -0.3, -2.0, 2.0, 0.3, -0.3], 64)
    batch = batch.replace(
        target=jnp.asarray(target, jnp.float32),
        advantage=jnp.asarray(target - before, jnp.float32),
    )
    total, losses = agent.loss(params, ENV, batch)
    without, plain = agent.replace(clip_value=None).loss(params, ENV, batch)

    near = np.clip(value, before - 0.2, before + 0.2)
    errors = np.maximum((value - target) ** 2, (near - target) ** 2)
    assert ((near - target) ** 2 > (value - target) ** 2 + 0.1).any()  # clipping shows
    assert ((value - target) ** 2 > (near - target) ** 2 + 0.1).any()
    assert float(losses.value) == pytest.approx(0.5 * errors.mean(), rel=1e-4)
    assert float(plain.value) == pytest.approx(
        0.5 * ((value - target) ** 2).mean(), rel=1e-4
    )
    difference = 0.7 * float(losses.value - plain.value)
    assert float(total - without) == pytest.approx(difference, rel=1e-3)


def test_a_clipped_value_that_is_nearer_to_its_target_than_the_clip_has_no_gradient(
    key,
):
    agent = SMALL.replace(clip_value=0.2)
    params = agent.init(jax.random.fold_in(key, 0), ENV).params
    batch = minibatch(agent, params, jax.random.fold_in(key, 1))
    value = agent.critic(params["value"], batch.observation)
    # it has gone from 1 below to where it is, towards a target above; the clip stops at 0.8 below
    batch = batch.replace(target=value + 0.5, advantage=jnp.full(64, 1.5))

    def gradient(agent):
        loss = lambda params: agent.loss(params, ENV, batch)[0]  # noqa: E731
        return ravel_pytree(jax.grad(loss)(params)["value"])[0]

    np.testing.assert_array_equal(gradient(agent), 0.0)
    assert jnp.abs(gradient(agent.replace(clip_value=None))).max() > 0.01


@pytest.mark.slow
def test_the_gradient_is_clipped_by_one_norm_of_all_parameters_of_both_networks(key):
    """One minibatch of one epoch: Adam's first moment is a tenth of the gradient that it was given."""
    agent = SMALL.replace(num_epochs=1, num_minibatches=1, entropy_coefficient=0.1)
    state = agent.init(jax.random.fold_in(key, 0), ENV)
    batch = jax.tree.map(
        lambda leaf: jnp.tile(leaf, (8, *[1] * (leaf.ndim - 1))),
        minibatch(agent, state.params, jax.random.fold_in(key, 1)),
    )
    gradient, _ = ravel_pytree(
        jax.grad(lambda params: agent.loss(params, ENV, batch)[0])(state.params)
    )
    norm = float(jnp.linalg.norm(gradient))
    for limit in (0.1 * norm, 10 * norm):
        clipped = agent.replace(max_grad_norm=limit)
        after, _ = clipped._update(state, ENV, jax.random.fold_in(key, 2), batch)
        given = 10 * np.asarray(after.optimiser.mu)
        np.testing.assert_allclose(
            given, min(1.0, limit / norm) * gradient, rtol=2e-3, atol=1e-5 * norm
        )
        moved = ravel_pytree(state.params)[0] - ravel_pytree(after.params)[0]
        expected = agent.learning_rate * given / (np.abs(given) + 1e-5)
        np.testing.assert_allclose(
            moved, expected, rtol=2e-3, atol=1e-3 * agent.learning_rate
        )


def test_an_iteration_takes_every_row_once_an_epoch_in_another_order(key):
    agent = SMALL.replace(num_epochs=3, num_minibatches=4)
    state = agent.init(jax.random.fold_in(key, 0), ENV)
    batch = jax.tree.map(
        lambda leaf: jnp.tile(leaf, (8, *[1] * (leaf.ndim - 1))),
        minibatch(agent, state.params, jax.random.fold_in(key, 1)),
    )
    after, losses = agent._update(state, ENV, jax.random.fold_in(key, 2), batch)
    assert losses.policy.shape == (3, 4)
    assert int(after.optimiser.count) == 12
    still = agent.replace(learning_rate=0.0)
    _, losses = still._update(state, ENV, jax.random.fold_in(key, 3), batch)
    np.testing.assert_allclose(
        losses.value.mean(axis=1), losses.value.mean(), rtol=1e-5
    )
    assert len(np.unique(np.asarray(losses.value).round(6))) > 8


@pytest.mark.slow
def test_metrics_are_those_of_the_rollout_s_own_update_and_of_its_last_epoch(key):
    agent = SMALL.replace(num_epochs=3, learning_rate=3e-2)
    state = agent.init(jax.random.fold_in(key, 0), ENV)
    slots = init_slots(ENV, jax.random.fold_in(key, 1), agent.num_envs, uniform, ())
    key_iteration = jax.random.fold_in(key, 2)
    after, _, episodes, metrics = agent.iterate(
        state, Slots(ENV, slots, uniform), jax.random.clone(key_iteration)
    )

    key_rollout, key_update = jax.random.split(key_iteration)
    _, _, batch, same, _ = agent.collect(state, Slots(ENV, slots, uniform), key_rollout)
    expected, losses = agent._update(state, ENV, key_update, batch)
    jax.tree.map(np.testing.assert_array_equal, (after, episodes), (expected, same))
    first, last = (float(losses.approximate_kl[epoch].mean()) for epoch in (0, -1))
    assert abs(first - last) > 0.2 * last
    assert float(metrics.approximate_kl) == pytest.approx(
        float(losses.approximate_kl[-1].mean()), rel=1e-6
    )
    assert float(metrics.clip_fraction) == pytest.approx(
        float(losses.clip_fraction[-1].mean()), rel=1e-6
    )
    assert float(metrics.policy_loss) == pytest.approx(
        float(losses.policy.mean()), rel=1e-5
    )
    assert float(metrics.value_loss) == pytest.approx(
        float(losses.value.mean()), rel=1e-5
    )
    log_std = after.params["policy"]["params"]["log_std"]
    assert float(metrics.policy_std) == pytest.approx(
        float(jnp.exp(log_std).mean()), rel=1e-6
    )


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
    with pytest.raises(
        ValueError,
        match=r"^agent.num_minibatches must divide num_envs \* num_steps = 2048, got 31$",
    ):
        PPO(num_minibatches=31).check()
