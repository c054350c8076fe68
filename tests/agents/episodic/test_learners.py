"""C-REPS and SPRL on a task whose answer is known."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.episodic import CREPS, SPRL
from spjax.agents.episodic.sprl import alpha_of
from spjax.contexts import Gaussian
from spjax.solvers.augmented_lagrangian import Result
from tests.agents.episodic.tasks import Aim

SELF_PACED = SPRL(
    max_kl=0.3, num_samples=30, buffer_size=4, kl_proportion=0.5, offset=10, max_alpha=5.0, std_floor=(0.0,)
)
ITERATIONS = 60


@functools.partial(jax.jit, static_argnames=("task", "iterations"))
def train(learner, task, key, iterations=ITERATIONS):
    """Returns the first state, and all later ones and metrics stacked along a leading axis."""
    key_init, key_run = jax.random.split(key)
    first = learner.init(key_init, task)

    def iteration(state, t):
        state, metrics = learner.iterate(state, task, jax.random.fold_in(key_run, t))
        return state, (state, metrics)

    _, history = jax.lax.scan(iteration, first, jnp.arange(iterations))
    return first, *history


@jax.jit
def learn(learner, state, batch):
    return learner.learn(state, Aim(), batch)


@pytest.fixture(scope="module")
def self_paced():
    return train(SELF_PACED, Aim(), jax.random.key(1))


def performance(learner, state, key):
    """Returns mean reward and success rate of 200 rollouts in target contexts."""
    key_contexts, key_rollouts = jax.random.split(key)
    contexts = learner.test_contexts(state.target, Aim(), key_contexts, 200)
    batch = learner.collect(state, Aim(), key_rollouts, contexts)
    return float(batch.rewards.mean()), float(batch.successes.mean(dtype=float))


def last(states):
    return jax.tree.map(lambda leaf: leaf[-1], states)


def test_sprl_learns_the_best_parameters_and_ends_at_the_target_contexts(self_paced, key):
    _, states, metrics = self_paced
    final = last(states)
    np.testing.assert_allclose(final.contexts.mean, [2.0], atol=0.1)
    np.testing.assert_allclose(final.contexts.std, [0.1], rtol=0.3)
    reward, success_rate = performance(SELF_PACED, final, key)
    assert reward > 9.8
    assert success_rate > 0.95
    assert float(metrics.curriculum.kl_to_target[0]) > 100 > 1 > float(metrics.curriculum.kl_to_target[-1])


def test_creps_learns_on_the_target_contexts(key):
    learner = CREPS(max_kl=0.3, num_samples=30, buffer_size=4)
    _, states, metrics = train(learner, Aim(), jax.random.fold_in(key, 0))
    assert performance(learner, last(states), jax.random.fold_in(key, 1))[0] > 9.8
    np.testing.assert_allclose(last(states).contexts.mean, [2.0])
    assert metrics.curriculum is None


def test_alpha_is_zero_in_the_first_k_alpha_plus_one_iterations(self_paced):
    alpha = np.asarray(self_paced[2].curriculum.alpha)
    assert (alpha[:11] == 0).all()
    assert (alpha[11:] > 0).all()
    assert alpha.max() <= 5.0


def test_alpha_is_a_capped_proportion_of_the_absolute_mean_reward():
    rule = functools.partial(alpha_of, jnp.asarray(11), zeta=1.6, offset=10, cap=1e5)
    assert float(rule(jnp.asarray(5.0), jnp.asarray(2.0))) == pytest.approx(4.0)
    assert float(rule(jnp.asarray(-3.0), jnp.asarray(2.0))) == pytest.approx(2.4)
    for kl in (0.0, -1e-9, -2.0, 1e-30):
        assert float(rule(jnp.asarray(5.0), jnp.asarray(kl))) == 1e5
    assert float(alpha_of(jnp.asarray(10), jnp.asarray(5.0), jnp.asarray(2.0), 1.6, 10, 1e5)) == 0.0


def test_no_iteration_moves_policy_and_contexts_further_than_allowed(self_paced):
    first, states, metrics = self_paced
    olds = jax.tree.map(lambda a, b: np.concatenate([np.asarray(a)[None], np.asarray(b)[:-1]]), first, states)
    for t in range(0, ITERATIONS, 3):
        old, new = (jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t], float), tree) for tree in (olds, states))
        contexts = new.buffer.contexts.reshape(-1, 1)
        features = np.concatenate([np.ones_like(contexts), contexts], axis=1)
        total = divergence(old.policy.gain, old.policy.chol, new.policy.gain, new.policy.chol, features)
        one = np.ones_like(contexts)
        total += divergence(*(part for s in (old, new) for part in (s.contexts.mean[:, None], s.contexts.chol)), one)
        assert total <= 0.3 * (1 + 1e-3)
        assert total == pytest.approx(float(metrics.kl[t]), rel=1e-2, abs=1e-4)
        assert bool(metrics.moved[t])


def divergence(old_gain, old_chol, new_gain, new_chol, features):
    old, new = old_chol @ old_chol.T, new_chol @ new_chol.T
    shifts = features @ (new_gain - old_gain).T
    inverse = np.linalg.inv(new)
    quadratic = np.einsum("ni,ij,nj->n", shifts, inverse, shifts).mean()
    return 0.5 * (
        np.trace(inverse @ old) - len(old) + np.linalg.slogdet(new)[1] - np.linalg.slogdet(old)[1] + quadratic
    )


def test_the_buffer_starts_filled_but_for_the_batch_of_the_first_iteration(self_paced):
    first, states, _ = self_paced
    assert (np.asarray(first.buffer.rewards[1:]) > 0).all()
    assert (np.asarray(first.buffer.rewards[0]) == 0).all()
    np.testing.assert_array_equal(states.buffer.thetas[0][1:], first.buffer.thetas[1:])
    assert (np.asarray(states.buffer.rewards[0][0]) > 0).all()


def test_runs_side_by_side_are_the_runs_one_by_one_and_their_draws_are_independent(self_paced):
    seeds = jnp.array([1, 2])
    first, _, metrics = jax.jit(jax.vmap(lambda seed: train(SELF_PACED, Aim(), jax.random.key(seed), 12)))(seeds)
    np.testing.assert_allclose(metrics.reward[0][:5], self_paced[2].reward[:5], rtol=1e-3)
    np.testing.assert_allclose(first.buffer.thetas[0], self_paced[0].buffer.thetas, rtol=1e-5, atol=1e-5)
    a, b = np.asarray(first.buffer.thetas)[:, 1:].reshape(2, -1)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.2
    assert not np.array_equal(metrics.reward[0], metrics.reward[1])


def test_other_traced_settings_need_no_other_program(self_paced):
    state = jax.tree.map(lambda leaf: leaf[20], self_paced[1])
    batch = jax.tree.map(lambda leaf: leaf[0], state.buffer)
    changed = dataclasses.replace(SELF_PACED, max_kl=0.01, kl_proportion=0.2, offset=30, max_alpha=1.0, ridge=1e-4)
    before = learn(SELF_PACED, state, batch)[1]
    size = learn._cache_size()
    after = learn(changed, state, batch)[1]
    assert learn._cache_size() == size
    assert float(after.kl) <= 0.01 * (1 + 1e-3) < float(before.kl)
    assert float(after.curriculum.alpha) == 0.0 < float(before.curriculum.alpha)


def test_when_nothing_ever_succeeds_neither_policy_nor_contexts_are_moved_by_noise():
    sparse = Aim(size=15, sparse=True)
    learner = SPRL(max_kl=0.35, num_samples=16, buffer_size=5, offset=1, kl_proportion=3.0, max_alpha=10.0)
    first, states, metrics = train(learner, sparse, jax.random.key(3), 5)
    jax.tree.map(np.testing.assert_array_equal, last(states).policy, first.policy)
    jax.tree.map(np.testing.assert_array_equal, last(states).contexts, first.contexts)
    assert (metrics.curriculum.alpha == 0).all()
    assert (metrics.success_rate == 0).all()

    # the metrics say so too
    assert not metrics.moved.any()
    np.testing.assert_array_equal(metrics.kl, 0.0)
    np.testing.assert_array_equal(metrics.eta, jnp.inf)
    np.testing.assert_allclose(metrics.effective_sample_size, 16 * 5, rtol=1e-4)  # the weights are uniform
    assert (metrics.dual_result == Result.CONVERGED).all()


def test_equal_rewards_leave_the_policy_alone_while_alpha_moves_the_contexts_and_the_kl_is_theirs(self_paced):
    state = jax.tree.map(lambda leaf: leaf[20], self_paced[1])
    equal = dataclasses.replace(state.buffer, rewards=jnp.full_like(state.buffer.rewards, 3.0))
    state = dataclasses.replace(state, buffer=equal)
    batch = jax.tree.map(lambda leaf: leaf[0], equal)
    after, metrics = learn(SELF_PACED, state, batch)
    assert float(metrics.curriculum.alpha) > 0
    jax.tree.map(np.testing.assert_array_equal, after.policy, state.policy)
    assert not bool(metrics.moved)
    one = np.ones((1, 1))
    old, new = (jax.tree.map(lambda leaf: np.asarray(leaf, float), s.contexts) for s in (state, after))
    expected = divergence(old.mean[:, None], old.chol, new.mean[:, None], new.chol, one)
    assert expected > 1e-3
    assert float(metrics.kl) == pytest.approx(expected, rel=1e-3)
    assert np.isfinite(metrics.eta)


def test_a_reward_that_is_not_finite_keeps_the_distributions_and_is_reported(self_paced):
    state = last(self_paced[1])
    batch = jax.tree.map(lambda leaf: leaf[0], state.buffer)
    spoiled = dataclasses.replace(batch, rewards=batch.rewards.at[3].set(-jnp.inf))
    after, metrics = learn(SELF_PACED, state, spoiled)
    jax.tree.map(np.testing.assert_array_equal, after.policy, state.policy)
    jax.tree.map(np.testing.assert_array_equal, after.contexts, state.contexts)
    assert int(metrics.dual_result) == Result.NOT_FINITE
    assert (float(metrics.kl), float(metrics.eta), bool(metrics.moved)) == (0.0, np.inf, False)
    assert np.isfinite(after.minimiser.chi).all()


def test_the_fit_may_be_tighter_than_the_dual(self_paced):
    state = jax.tree.map(lambda leaf: leaf[20], self_paced[1])
    batch = jax.tree.map(lambda leaf: leaf[0], state.buffer)
    loose = learn(SELF_PACED, state, batch)[1]
    tight = learn(dataclasses.replace(SELF_PACED, fit_max_kl=0.01), state, batch)[1]
    assert float(tight.kl) <= 0.01 * (1 + 1e-3) < float(loose.kl)
    assert float(tight.effective_sample_size) == pytest.approx(float(loose.effective_sample_size), rel=1e-5)


def test_the_distributions_to_start_from_and_to_end_at_may_be_the_users(key):
    initial, target = Gaussian.from_std((-1.0,), (0.5,)), Gaussian.from_std((1.0,), (0.2,))
    state = SELF_PACED.init(key, Aim(), initial, target)
    np.testing.assert_array_equal(state.contexts.mean, [-1.0])
    np.testing.assert_array_equal(state.target.mean, [1.0])
    contexts = np.asarray(state.buffer.contexts[1:])
    assert abs(contexts.mean() + 1.0) < 0.2


def test_a_floor_keeps_the_contexts_wide_until_they_are_near_the_target():
    floored = dataclasses.replace(SELF_PACED, std_floor=(0.5,), floor_kl=20.0)
    _, states, metrics = train(floored, Aim(), jax.random.key(6))
    far = np.asarray(metrics.curriculum.kl_to_target) > 20
    std = np.asarray(states.contexts.chol)[:, 0, 0]
    assert far.any()
    assert (std[far] >= 0.5 * (1 - 1e-5)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_kl": 0.0}, "agent.max_kl must be positive and finite, got 0.0"),
        ({"ridge": -1.0}, "agent.ridge must be positive and finite, got -1.0"),
        ({"num_samples": 0}, "agent.num_samples must be at least 1, got 0"),
        ({"std_floor": (-0.2,)}, r"agent.std_floor needs finite values of at least 0, got \(-0.2,\)"),
        ({"max_alpha": float("inf")}, "agent.max_alpha must be finite, got inf"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(settings, message):
    SELF_PACED.check()
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SELF_PACED, **settings).check()
