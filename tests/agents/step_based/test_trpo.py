"""TRPO: probe environments with known values and actions, and the trust region itself."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
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


def test_what_is_not_set_is_as_in_stable_baselines_2():
    agent = TRPO()
    agent.check()
    assert (agent.max_kl, agent.cg_iterations, agent.cg_damping) == (0.01, 10, 0.01)
    critic = (agent.value_epochs, agent.value_batch, agent.value_learning_rate)
    assert critic == (3, 128, 3e-4)
    assert (agent.fisher_stride, agent.kl_tolerance) == (5, 1.5)
    assert agent.line_search_steps == 10


@pytest.mark.slow
def test_the_policy_learns_the_action_that_the_context_asks_for(key):
    agent = SMALL.replace(max_kl=0.03)
    state, metrics = train(agent, MatchContext(), key, 120)
    mean, _ = agent.policy(
        state.params["policy"],
        MatchContext(),
        jnp.array([[-0.8, 0.0], [0.0, 0.0], [0.8, 0.0]]),
    )
    np.testing.assert_allclose(mean[:, 0], [-0.4, 0.0, 0.4], atol=0.05)
    assert float(metrics.policy_std[-1]) < 0.2


@pytest.mark.slow
def test_every_accepted_step_keeps_the_kl_limit_and_improves_the_surrogate_on_the_point_mass(
    key,
):
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
            state, world, _, metrics = agent.iterate(
                state, Slots(env, slots, assign), iteration_key
            )
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
    action = mean + jnp.exp(log_std)[None] * jax.random.normal(
        jax.random.fold_in(key, 2), mean.shape
    )
    return Batch(
        observation=observation,
        action=action,
        log_prob=gaussian_log_prob(mean, log_std, action),
        advantage=advantage(action[:, 0]),
        target=jnp.zeros(64),
    )


@pytest.mark.slow
def test_without_advantages_nothing_moves_and_nothing_is_nan(key):
    env = ConstantReward()
    params = SMALL.init(jax.random.fold_in(key, 0), env).params["policy"]
    after, step = SMALL.step_policy(
        params, env, batch_of(SMALL, params, env, key, jnp.zeros_like)
    )
    assert not bool(step.accepted)
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_where_no_step_is_good_enough_the_parameters_keep_their_bits(key):
    env = ConstantReward()
    agent = SMALL.replace(
        max_kl=100.0, kl_tolerance=1.0, line_search_steps=1
    )  # a step far outside the quadratic's reach
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    after, step = agent.step_policy(
        params, env, batch_of(agent, params, env, key, lambda a: -(a**2))
    )
    assert not bool(step.accepted)
    assert int(step.halvings) == -1
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_step_that_makes_the_surrogate_worse_is_not_taken_however_much_divergence_is_allowed(
    key,
):
    """The policy narrows so far that it finds none of the actions again: its surrogate is zero, and its entropy lost."""
    env = ConstantReward()
    agent = SMALL.replace(
        max_kl=100.0,
        kl_tolerance=float("inf"),
        line_search_steps=1,
        entropy_coefficient=0.01,
    )
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    batch = batch_of(agent, params, env, key, lambda a: -(a**2))
    assert not bool(agent.step_policy(params, env, batch)[1].accepted)
    assert bool(
        agent.replace(line_search_steps=20).step_policy(params, env, batch)[1].accepted
    )


@pytest.mark.slow
def test_a_small_step_is_the_natural_gradient_as_long_as_the_limit_allows(key):
    """Against an explicit Fisher matrix: direction F^-1 g, KL divergence max_kl, and the surrogate's own first-order gain."""
    env = MatchContext()
    agent = SMALL.replace(
        hidden=(4,),
        max_kl=1e-4,
        cg_damping=0.02,
        cg_iterations=60,
        entropy_coefficient=0.1,
    )
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    batch = batch_of(
        agent, params, env, jax.random.fold_in(key, 1), lambda a: 5 + 3 * a
    )
    start, unravel = ravel_pytree(params)
    agent = dataclasses.replace(agent, num_envs=1, num_steps=64)

    def surrogate(flat):
        mean, log_std = agent.policy(unravel(flat), env, batch.observation)
        ratio = jnp.exp(gaussian_log_prob(mean, log_std, batch.action) - batch.log_prob)
        advantage = (batch.advantage - batch.advantage.mean()) / batch.advantage.std()
        return (ratio * advantage).mean() + 0.1 * (
            log_std + 0.5 * np.log(2 * np.pi * np.e)
        ).sum()

    def kl(flat):
        old = agent.policy(params, env, batch.observation)
        return gaussian_kl(
            *old, *agent.policy(unravel(flat), env, batch.observation)
        ).mean()

    gradient = np.asarray(jax.jit(jax.grad(surrogate))(start), float)
    fisher = np.asarray(jax.jit(jax.hessian(kl))(start), float) + 0.02 * np.eye(
        len(start)
    )
    natural = np.linalg.solve(fisher, gradient)
    expected = np.sqrt(2e-4 / (natural @ fisher @ natural)) * natural

    after, step = jax.jit(lambda batch: agent.step_policy(params, env, batch))(batch)
    moved = np.asarray(ravel_pytree(after)[0] - start, float)
    assert bool(step.accepted)
    assert int(step.halvings) == 0
    np.testing.assert_allclose(
        moved, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max()
    )
    assert float(step.surrogate) == pytest.approx(gradient @ moved, rel=0.05)
    assert 0.5e-4 < float(step.kl) <= 1.05e-4


@pytest.mark.slow
def test_the_line_search_halves_the_step_until_the_limit_holds(key):
    env = ConstantReward()
    agent = SMALL.replace(max_kl=0.5, kl_tolerance=1.0)
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    batch = batch_of(agent, params, env, key, lambda a: a + 2)
    steps = {
        n: agent.replace(line_search_steps=n).step_policy(params, env, batch)[1]
        for n in range(1, 11)
    }
    taken = steps[10]
    assert bool(taken.accepted)
    assert 0 < int(taken.halvings) < 9
    assert float(taken.kl) <= 0.5
    _, loose = agent.replace(kl_tolerance=20.0).step_policy(params, env, batch)
    assert int(loose.halvings) < int(
        taken.halvings
    )  # the tolerance counts, not the limit alone
    assert 0.5 < float(loose.kl) <= 10
    for (
        n,
        step,
    ) in (
        steps.items()
    ):  # the first that holds is taken, and not one attempt more is made than allowed
        assert bool(step.accepted) == (n > int(taken.halvings))


def test_the_divergence_of_gaussians_is_that_of_the_textbook():
    mean, old_mean, std, old_std = 0.3, -0.4, np.array([0.5, 1.3]), np.array([0.8, 1.3])
    expected = (
        np.log(std / old_std)
        + (old_std**2 + (old_mean - mean) ** 2) / (2 * std**2)
        - 0.5
    )
    found = gaussian_kl(
        jnp.full(2, old_mean), jnp.log(old_std), jnp.full(2, mean), jnp.log(std)
    )
    assert float(found) == pytest.approx(expected.sum(), rel=1e-5)


def test_the_critic_is_fitted_by_adam_to_the_mean_squared_error(key):
    """One minibatch of one epoch, against the first step of Adam by hand."""
    env = ConstantReward()
    agent = SMALL.replace(num_envs=1, num_steps=64, value_batch=64, value_epochs=1)
    state = agent.init(jax.random.fold_in(key, 0), env)
    batch = batch_of(agent, state.params["policy"], env, key, lambda a: a).replace(
        target=jnp.linspace(-1, 2, 64)
    )
    value, _, error = agent._fit_critic(state, jax.random.fold_in(key, 9), batch)

    def loss(params):
        return ((agent.critic(params, batch.observation) - batch.target) ** 2).mean()

    assert float(error) == pytest.approx(float(loss(state.params["value"])), rel=1e-5)
    gradient, _ = ravel_pytree(jax.grad(loss)(state.params["value"]))
    moved = ravel_pytree(state.params["value"])[0] - ravel_pytree(value)[0]
    expected = (
        agent.value_learning_rate * np.asarray(gradient) / (np.abs(gradient) + 1e-8)
    )
    np.testing.assert_allclose(moved, expected, rtol=1e-3, atol=1e-6)


def test_the_reported_error_of_the_critic_is_that_of_its_last_epoch(key):
    """Of one minibatch an epoch: the second begins where a fit of one epoch ends."""
    env = ConstantReward()
    agent = SMALL.replace(
        num_envs=1, num_steps=64, value_batch=64, value_learning_rate=3e-2
    )
    state = agent.init(jax.random.fold_in(key, 0), env)
    batch = batch_of(agent, state.params["policy"], env, key, lambda a: a).replace(
        target=jnp.linspace(-1, 2, 64)
    )
    once, twice = (
        agent.replace(value_epochs=epochs)._fit_critic(
            state, jax.random.fold_in(key, 9), batch
        )
        for epochs in (1, 2)
    )
    after_one = ((agent.critic(once[0], batch.observation) - batch.target) ** 2).mean()
    assert float(after_one) < 0.9 * float(once[2])
    assert float(twice[2]) == pytest.approx(float(after_one), rel=1e-5)


def test_equal_advantages_leave_the_step_to_the_entropy(key):
    env = ConstantReward()
    agent = SMALL.replace(entropy_coefficient=0.1)
    params = agent.init(jax.random.fold_in(key, 0), env).params["policy"]
    batch = batch_of(agent, params, env, key, lambda a: jnp.full_like(a, 3.0))
    after, step = agent.step_policy(params, env, batch)
    assert bool(step.accepted)
    assert float(step.surrogate) > 0
    assert (after["params"]["log_std"] > params["params"]["log_std"]).all()


def test_the_reported_spread_is_the_mean_over_the_actions(key):
    @struct.dataclass
    class ThreeActions(ConstantReward):
        action_lower = (-1.0, -1.0, -1.0)
        action_upper = (1.0, 1.0, 1.0)

    state, metrics = train(SMALL, ThreeActions(), key, 1)
    stds = np.exp(np.asarray(state.params["policy"]["params"]["log_std"], float))
    assert stds.shape == (3,)
    assert float(metrics.policy_std[0]) == pytest.approx(stds.mean(), rel=1e-5)


@pytest.mark.slow
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
        np.testing.assert_array_equal(
            agent.fisher_rows(), np.arange(0, 250 * num_envs, 5)
        )


def test_conjugate_gradient_solves_a_small_system_and_stops_at_zero(key):
    factor = jax.random.normal(key, (5, 5))
    matrix = factor @ factor.T + jnp.eye(5)
    target = jnp.arange(5.0)
    np.testing.assert_allclose(
        conjugate_gradient(lambda v: matrix @ v, target, 20),
        np.linalg.solve(matrix, target),
        rtol=1e-3,
        atol=1e-4,
    )
    np.testing.assert_array_equal(
        conjugate_gradient(lambda v: matrix @ v, jnp.zeros(5), 20), 0.0
    )


def test_the_critic_takes_its_steps_from_the_value_settings_alone(key):
    env = ConstantReward()
    still = SMALL.replace(value_learning_rate=0.0)
    before = still.init(jax.random.fold_in(key, 1), env)
    after, metrics = train(still, env, key, 2)
    for a, b in zip(
        jax.tree.leaves(before.params["value"]),
        jax.tree.leaves(after.params["value"]),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert float(metrics.value_loss[-1]) > 0


def test_a_critic_batch_larger_than_an_iteration_is_one_sentence():
    with pytest.raises(
        ValueError,
        match=r"^agent.value_batch must be at most num_envs \* num_steps = 64, got 128$",
    ):
        dataclasses.replace(TRPO(), num_envs=4, num_steps=16).check()
