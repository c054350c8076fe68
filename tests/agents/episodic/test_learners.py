"""C-REPS and SPRL on a task whose answer is known."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import settings
from spjax.agents.episodic import CREPS, SPRL
from spjax.contexts import Gaussian
from spjax.self_paced.schedules import Proportion
from spjax.solvers.augmented_lagrangian import Result
from spjax.teachers import SelfPacedJoint, Target
from tests.agents.episodic.tasks import Aim
from tests.agents.episodic.training import experiment, train

LEARNER = SPRL(max_kl=0.3, num_samples=30, buffer_size=4)
RULE = Proportion(zeta=0.5, offset=11, max_alpha=5.0, negative_return="absolute")
TEACHER = SelfPacedJoint(schedule=RULE, std_floor=0.0)
SELF_PACED = experiment(Aim(), LEARNER, TEACHER)
ITERATIONS = 60


@jax.jit
def learn(setup, learned, batch):
    """Returns policy and contexts after the batch is learned from, the metrics, and alpha."""
    agent, contexts = learned
    after, metrics, fit = setup.agent.learn(
        agent, batch, setup.teacher.problem(contexts)
    )
    return after, fit.distribution, metrics, fit.alpha


@pytest.fixture(scope="module")
def self_paced():
    return train(SELF_PACED, jax.random.key(1), ITERATIONS)


def changed(learner=LEARNER, teacher=TEACHER, rule=RULE, **settings):
    """Returns the experiment with these settings of the learner, the teacher or the schedule."""
    parts = [
        dataclasses.replace(
            part,
            **{name: settings[name] for name in settings if name in part.declared()},
        )
        for part in (learner, teacher, rule)
    ]
    return experiment(Aim(), parts[0], dataclasses.replace(parts[1], schedule=parts[2]))


def performance(setup, state, key):
    """Returns mean reward and success rate of 200 rollouts in target contexts."""
    key_contexts, key_rollouts = jax.random.split(key)
    outcome, _ = setup.play(
        state, key_rollouts, setup.target_contexts(key_contexts, 200)
    )
    return float(outcome.discounted_return.mean()), float(
        outcome.success.mean(dtype=float)
    )


def at(states, index):
    """Returns one state of many."""
    return jax.tree.map(lambda leaf: leaf[index], states)


def learned_at(states, index):
    """Returns what agent and teacher knew, and the first batch in the buffer."""
    state = at(states, index)
    return (state.agent_state, state.teacher_state), at(state.agent_state.buffer, 0)


@pytest.mark.slow
def test_sprl_learns_the_best_parameters_and_ends_at_the_target_contexts(
    self_paced, key
):
    _, states, metrics = self_paced
    final = at(states, -1)
    contexts = final.teacher_state.distribution
    np.testing.assert_allclose(contexts.mean, [2.0], atol=0.1)
    np.testing.assert_allclose(contexts.std, [0.1], rtol=0.3)
    reward, success_rate = performance(SELF_PACED, final, key)
    assert reward > 9.8
    assert success_rate > 0.95
    assert (
        float(metrics.teacher.kl_to_target[0])
        > 100
        > 1
        > float(metrics.teacher.kl_to_target[-1])
    )


@pytest.mark.slow
def test_creps_learns_on_the_target_contexts(key):
    setup = experiment(
        Aim(), CREPS(max_kl=0.3, num_samples=30, buffer_size=4), Target()
    )
    _, states, metrics = train(setup, jax.random.fold_in(key, 0), ITERATIONS)
    assert performance(setup, at(states, -1), jax.random.fold_in(key, 1))[0] > 9.8
    seen = np.asarray(states.agent_state.buffer.contexts[-1])
    assert seen.mean() == pytest.approx(2.0, abs=0.05)
    assert seen.std() == pytest.approx(0.1, rel=0.3)
    assert metrics.teacher is None


def test_alpha_is_zero_in_the_first_k_alpha_iterations(self_paced):
    alpha = np.asarray(self_paced[2].teacher.alpha)
    assert (alpha[:11] == 0).all()
    assert (alpha[11:] > 0).all()
    assert alpha.max() <= 5.0


def test_no_iteration_moves_policy_and_contexts_further_than_allowed(self_paced):
    first, states, metrics = self_paced
    firsts, laters = (
        (s.agent_state.policy, s.teacher_state.distribution) for s in (first, states)
    )
    olds = jax.tree.map(
        lambda a, b: np.concatenate([np.asarray(a)[None], np.asarray(b)[:-1]]),
        firsts,
        laters,
    )
    buffers = np.asarray(states.agent_state.buffer.contexts, float)
    for t in range(0, ITERATIONS, 3):
        old, new = (
            jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t], float), tree)
            for tree in (olds, laters)
        )
        contexts = buffers[t].reshape(-1, 1)
        one = np.ones_like(contexts)
        features = np.concatenate([one, contexts], axis=1)
        total = divergence(old[0].gain, old[0].chol, new[0].gain, new[0].chol, features)
        total += divergence(
            *(
                part
                for pair in (old, new)
                for part in (pair[1].mean[:, None], pair[1].chol)
            ),
            one,
        )
        assert total <= 0.3 * (1 + 1e-3)
        assert total == pytest.approx(float(metrics.agent.kl[t]), rel=1e-2, abs=1e-4)
        assert bool(metrics.agent.moved[t])


def divergence(old_gain, old_chol, new_gain, new_chol, features):
    old, new = old_chol @ old_chol.T, new_chol @ new_chol.T
    shifts = features @ (new_gain - old_gain).T
    inverse = np.linalg.inv(new)
    quadratic = np.einsum("ni,ij,nj->n", shifts, inverse, shifts).mean()
    return 0.5 * (
        np.trace(inverse @ old)
        - len(old)
        + np.linalg.slogdet(new)[1]
        - np.linalg.slogdet(old)[1]
        + quadratic
    )


def test_the_buffer_starts_filled_but_for_the_batch_of_the_first_iteration(self_paced):
    first, later = self_paced[0].agent_state.buffer, self_paced[1].agent_state.buffer
    assert (np.asarray(first.rewards[1:]) > 0).all()
    assert (np.asarray(first.rewards[0]) == 0).all()
    np.testing.assert_array_equal(later.thetas[0][1:], first.thetas[1:])
    assert (np.asarray(later.rewards[0][0]) > 0).all()


@pytest.mark.slow
def test_runs_side_by_side_are_the_runs_one_by_one_and_their_draws_are_independent(
    self_paced,
):
    seeds = jnp.array([1, 2])
    first, _, metrics = jax.jit(
        jax.vmap(lambda seed: train(SELF_PACED, jax.random.key(seed), 12))
    )(seeds)
    rewards, thetas = metrics.discounted_return.value, first.agent_state.buffer.thetas
    np.testing.assert_allclose(
        rewards[0][:5], self_paced[2].discounted_return.value[:5], rtol=1e-3
    )
    np.testing.assert_allclose(
        thetas[0], self_paced[0].agent_state.buffer.thetas, rtol=1e-5, atol=1e-5
    )
    a, b = np.asarray(thetas)[:, 1:].reshape(2, -1)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.2
    assert not np.array_equal(rewards[0], rewards[1])


@pytest.mark.slow
def test_other_traced_settings_need_no_other_program(self_paced):
    learned, batch = learned_at(self_paced[1], 20)
    other = changed(max_kl=0.01, zeta=0.2, offset=31, max_alpha=1.0, ridge=1e-4)
    _, _, before, alpha = learn(SELF_PACED, learned, batch)
    size = learn._cache_size()
    _, _, after, none = learn(other, learned, batch)
    assert learn._cache_size() == size
    assert float(after.kl) <= 0.01 * (1 + 1e-3) < float(before.kl)
    assert float(none) == 0.0 < float(alpha)


@pytest.mark.slow
def test_when_nothing_ever_succeeds_neither_policy_nor_contexts_are_moved_by_noise():
    learner = SPRL(max_kl=0.35, num_samples=16, buffer_size=5)
    rule = Proportion(zeta=3.0, offset=2, max_alpha=10.0, negative_return="absolute")
    setup = experiment(
        Aim(size=15, sparse=True), learner, SelfPacedJoint(schedule=rule)
    )
    first, states, metrics = train(setup, jax.random.key(3), 5)
    final = at(states, -1)
    jax.tree.map(
        np.testing.assert_array_equal,
        final.agent_state.policy,
        first.agent_state.policy,
    )
    jax.tree.map(
        np.testing.assert_array_equal,
        final.teacher_state.distribution,
        first.teacher_state.distribution,
    )
    assert (metrics.teacher.alpha == 0).all()
    assert (metrics.success_rate.value == 0).all()

    # the metrics say so too
    fit = metrics.agent
    assert not fit.moved.any()
    np.testing.assert_array_equal(fit.kl, 0.0)
    np.testing.assert_array_equal(fit.eta, jnp.inf)
    np.testing.assert_allclose(
        fit.effective_sample_size, 16 * 5, rtol=1e-4
    )  # the weights are uniform
    assert (fit.dual_result == Result.CONVERGED).all()


def test_equal_rewards_leave_the_policy_alone_while_alpha_moves_the_contexts_and_the_kl_is_theirs(
    self_paced,
):
    (state, curriculum), _ = learned_at(self_paced[1], 20)
    equal = dataclasses.replace(
        state.buffer, rewards=jnp.full_like(state.buffer.rewards, 3.0)
    )
    state = dataclasses.replace(state, buffer=equal)
    after, contexts, metrics, alpha = learn(
        SELF_PACED, (state, curriculum), at(equal, 0)
    )
    assert float(alpha) > 0
    jax.tree.map(np.testing.assert_array_equal, after.policy, state.policy)
    assert not bool(metrics.moved)
    one = np.ones((1, 1))
    old, new = (
        jax.tree.map(lambda leaf: np.asarray(leaf, float), d)
        for d in (curriculum.distribution, contexts)
    )
    expected = divergence(old.mean[:, None], old.chol, new.mean[:, None], new.chol, one)
    assert expected > 1e-3
    assert float(metrics.kl) == pytest.approx(expected, rel=1e-3)
    assert np.isfinite(metrics.eta)


def test_an_update_of_which_nothing_is_taken_reports_no_penalty_and_no_divergence(
    self_paced,
):
    """The weights are equal and alpha is zero, but the fit to the buffer, which others drew, would have moved the policy."""
    (state, curriculum), _ = learned_at(self_paced[1], 20)
    equal = jnp.full_like(state.buffer.rewards, 3.0)
    state = dataclasses.replace(
        state, buffer=dataclasses.replace(state.buffer, rewards=equal)
    )
    setup = changed(offset=10**6)
    after, contexts, metrics, alpha = learn(
        setup, (state, curriculum), at(state.buffer, 0)
    )
    assert float(alpha) == 0
    jax.tree.map(np.testing.assert_array_equal, after.policy, state.policy)
    jax.tree.map(np.testing.assert_array_equal, contexts, curriculum.distribution)
    assert (float(metrics.kl), float(metrics.eta)) == (0.0, np.inf)
    assert not bool(metrics.moved)
    samples = equal.size  # of equal weight
    assert float(metrics.effective_sample_size) == pytest.approx(samples, rel=1e-4)


def test_a_reward_that_is_not_finite_keeps_the_distributions_and_is_reported(
    self_paced,
):
    learned, batch = learned_at(self_paced[1], -1)
    spoiled = dataclasses.replace(batch, rewards=batch.rewards.at[3].set(-jnp.inf))
    after, contexts, metrics, _ = learn(SELF_PACED, learned, spoiled)
    jax.tree.map(np.testing.assert_array_equal, after.policy, learned[0].policy)
    jax.tree.map(np.testing.assert_array_equal, contexts, learned[1].distribution)
    assert int(metrics.dual_result) == Result.NOT_FINITE
    assert (float(metrics.kl), float(metrics.eta), bool(metrics.moved)) == (
        0.0,
        np.inf,
        False,
    )
    assert np.isfinite(after.minimiser.chi).all()


def test_the_fit_may_be_tighter_than_the_dual(self_paced):
    learned, batch = learned_at(self_paced[1], 20)
    loose = learn(SELF_PACED, learned, batch)[2]
    tight = learn(changed(fit_max_kl=0.01), learned, batch)[2]
    assert float(tight.kl) <= 0.01 * (1 + 1e-3) < float(loose.kl)
    assert float(tight.effective_sample_size) == pytest.approx(
        float(loose.effective_sample_size), rel=1e-5
    )


@pytest.mark.slow
def test_the_distributions_to_start_from_and_to_end_at_may_be_the_users(key):
    initial, target = (
        Gaussian.from_std((-1.0,), (0.5,)),
        Gaussian.from_std((1.0,), (0.2,)),
    )
    setup = changed(initial=initial, target=target)
    state = setup.init(key)
    problem = setup.teacher.problem(state.teacher_state)
    np.testing.assert_array_equal(problem.old.mean, [-1.0])
    np.testing.assert_array_equal(problem.target.mean, [1.0])
    contexts = np.asarray(state.agent_state.buffer.contexts[1:])
    assert abs(contexts.mean() + 1.0) < 0.2


@pytest.mark.slow
def test_a_floor_keeps_the_contexts_wide_until_they_are_near_the_target():
    _, states, metrics = train(
        changed(std_floor=(0.5,), floor_kl=20.0), jax.random.key(6), ITERATIONS
    )
    far = np.asarray(metrics.teacher.kl_to_target) > 20
    std = np.asarray(states.teacher_state.distribution.chol)[:, 0, 0]
    assert far.any()
    assert not far[-1]
    assert (std[far] >= 0.5 * (1 - 1e-5)).all()
    assert std[-1] < 0.2


def test_sprl_without_a_teacher_that_states_its_problem_says_what_it_needs(self_paced):
    state, batch = learned_at(self_paced[1], 20)
    with pytest.raises(
        ValueError,
        match=r"^SPRL needs a teacher whose contexts are fitted .*: self-paced-joint",
    ):
        LEARNER.learn(state[0], batch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_kl": 0.0}, "agent.max_kl must be positive and finite, got 0.0"),
        ({"ridge": -1.0}, "agent.ridge must be positive and finite, got -1.0"),
        ({"num_samples": 0}, "agent.num_samples must be at least 1, got 0"),
        ({"std_floor": (-0.2,)}, "teacher.std_floor must be at least 0, got -0.2"),
        (
            {"std_floor": (0.2, 0.3)},
            "teacher.std_floor needs 1 value (place) or one for all, got 2",
        ),
        (
            {"max_alpha": float("inf")},
            "teacher.schedule.max_alpha must be finite, got inf",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(change, message):
    def check(setup):
        settings.check("agent", setup.agent)
        settings.check("teacher", setup.teacher)
        setup.teacher.check(Aim().context_space)

    check(SELF_PACED)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(changed(**change))
