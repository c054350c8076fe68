"""TRPO: probe environments with known values and actions, and the trust region itself."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from spjax.agents.base import Slots
from spjax.agents.step_based import TRPO
from spjax.agents.step_based.networks import gaussian_log_prob
from spjax.agents.step_based.on_policy import Batch
from spjax.agents.step_based.rollout import init_slots
from spjax.agents.step_based.trpo import conjugate_gradient, gaussian_kl
from spjax.envs.point_mass import PointMass
from tests.agents.step_based.learning import train
from tests.probe import ConstantReward, MatchContext

SMALL = TRPO(
    num_envs=32,
    num_steps=16,
    hidden=(32,),
    discount=0.9,
    value_learning_rate=3e-3,
    value_epochs=8,
    value_batch=64,
    fisher_stride=1,
)


def test_the_policy_learns_the_action_that_the_context_asks_for(key):
    agent = SMALL.replace(max_kl=0.03)
    state, metrics = train(agent, MatchContext(), key, 120)
    mean, _ = agent.policy(state.params["policy"], MatchContext(), jnp.array([[-0.8, 0.0], [0.0, 0.0], [0.8, 0.0]]))
    np.testing.assert_allclose(mean[:, 0], [-0.4, 0.0, 0.4], atol=0.05)
    assert float(metrics.policy_std[-1]) < 0.2


def test_every_accepted_step_keeps_the_kl_limit_and_improves_the_surrogate_on_the_point_mass(key):
    env = PointMass()
    small = TRPO(num_envs=4, num_steps=64, hidden=(16,), value_batch=64, max_kl=0.02)

    def assign(key, last):
        return env.context_space.sample_uniform(key), ()

    state = small.init(jax.random.fold_in(key, 1), env)
    slots = init_slots(env, jax.random.fold_in(key, 2), 4, assign, ())

    @jax.jit
    def run(agent):
        keys = jax.random.split(jax.random.fold_in(key, 3), 500)

        def iterate(carry, iteration_key):
            state, slots = carry
            state, world, _, metrics = agent.iterate(state, Slots(env, slots, assign), iteration_key)
            return (state, world.slots), metrics

        return jax.lax.scan(iterate, (state, slots), keys)[1]

    for tolerance in (1.0, 1.5):  # of the limit itself, and as published
        metrics = run(small.replace(kl_tolerance=tolerance))
        accepted = np.asarray(metrics.accepted)
        assert accepted.mean() > 0.9
        assert float(metrics.mean_kl.max()) <= tolerance * 0.02
        assert float(metrics.surrogate[accepted].min()) >= 0
        np.testing.assert_array_equal(metrics.mean_kl[~accepted], 0.0)


def batch_of(agent, params, env, key, advantage):
    """Returns a batch of 64 rows whose actions come from the policy."""
    observation = jax.random.normal(jax.random.fold_in(key, 1), (64, 2))
    mean, log_std = agent.policy(params, env, observation)
    action = mean + jnp.exp(log_std) * jax.random.normal(jax.random.fold_in(key, 2), mean.shape)
    return Batch(
        observation=observation,
        action=action,
        log_prob=gaussian_log_prob(mean, log_std, action),
        advantage=advantage(action[:, 0]),
        target=jnp.zeros(64),
    )


def test_without_advantages_nothing_moves_and_nothing_is_nan(key):
    env = ConstantReward()
    params = SMALL.init(jax.random.fold_in(key, 0), env).params["policy"]
    after, step = SMALL.step_policy(params, env, batch_of(SMALL, params, env, key, jnp.zeros_like))
    assert not bool(step.accepted)
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_where_no_step_is_good_enough_the_parameters_keep_their_bits(key):
    env = ConstantReward()
    agent = SMALL.replace(
        max_kl=100.0, kl_tolerance=1.0, line_search_steps=1
    )  # a step far outside the quadratic's reach
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    after, step = agent.step_policy(params, env, batch_of(agent, params, env, key, lambda a: -(a**2)))
    assert not bool(step.accepted)
    assert int(step.halvings) == -1
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_fisher_product_is_the_hessian_of_the_kl_divergence(key):
    env = MatchContext()
    agent = SMALL.replace(cg_damping=0.1)
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    start, unravel = ravel_pytree(params)
    start = start + 0.3 * jax.random.normal(jax.random.fold_in(key, 1), start.shape)
    observation = jax.random.normal(jax.random.fold_in(key, 2), (20, 2))
    old = agent.policy(unravel(start), env, observation)

    def kl(flat):
        return gaussian_kl(*old, *agent.policy(unravel(flat), env, observation)).mean()

    vector = jax.random.normal(jax.random.fold_in(key, 3), start.shape)
    expected = jax.jvp(jax.grad(kl), (start,), (vector,))[1] + 0.1 * vector
    product = agent._fisher_product(start, unravel, env, observation)
    np.testing.assert_allclose(product(vector), expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("num_envs", [1, 4, 20])
def test_fisher_products_take_every_fifth_step_of_every_slot(num_envs):
    agent = TRPO(num_envs=num_envs, num_steps=250)
    time, slot = np.divmod(agent.fisher_rows(), num_envs)
    assert len(time) == 250 * num_envs / 5
    for one in range(num_envs):
        steps = time[slot == one]
        np.testing.assert_array_equal(steps, np.arange(steps[0], 250, 5))
        assert steps[0] == one % 5
    if num_envs < 5:  # as published: every fifth row
        np.testing.assert_array_equal(agent.fisher_rows(), np.arange(0, 250 * num_envs, 5))


def test_conjugate_gradient_solves_a_small_system_and_stops_at_zero(key):
    factor = jax.random.normal(key, (5, 5))
    matrix = factor @ factor.T + jnp.eye(5)
    target = jnp.arange(5.0)
    np.testing.assert_allclose(
        conjugate_gradient(lambda v: matrix @ v, target, 20), np.linalg.solve(matrix, target), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_array_equal(conjugate_gradient(lambda v: matrix @ v, jnp.zeros(5), 20), 0.0)


def test_the_critic_takes_its_steps_from_the_value_settings_alone(key):
    env = ConstantReward()
    still = SMALL.replace(value_learning_rate=0.0)
    before = still.init(jax.random.fold_in(key, 1), env)
    after, metrics = train(still, env, key, 2)
    for a, b in zip(jax.tree.leaves(before.params["value"]), jax.tree.leaves(after.params["value"]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert float(metrics.value_loss[-1]) > 0


def test_a_critic_batch_larger_than_an_iteration_is_one_sentence():
    with pytest.raises(ValueError, match=r"^agent.value_batch must be at most num_envs \* num_steps = 64, got 128$"):
        dataclasses.replace(TRPO(), num_envs=4, num_steps=16).check()
