"""The NumPy and SciPy peer of the SPRL speed benchmark against ours."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spjax
from benchmarks.dual_problems import DualProblem, minimise_by_scipy
from benchmarks.speed.peers import sprl as peer
from benchmarks.speed.sprl import as_peer_state
from spjax.agents.episodic.buffer import Batch

CONFIG = spjax.preset("gate-precision", agent="sprl")
EXPERIMENT = CONFIG.experiment(CONFIG.lanes()[0])
LEARNER, TASK, TEACHER = EXPERIMENT.agent, EXPERIMENT.task, EXPERIMENT.teacher


@jax.jit
def learn(state, batch):
    """Returns the run after these rollouts are learned from: its policy and its contexts."""
    joint = TEACHER.problem(state.teacher_state)
    learned, _, fit = LEARNER.learn(state.agent_state, batch, joint)
    contexts = dataclasses.replace(state.teacher_state, distribution=fit.distribution)
    return dataclasses.replace(
        state,
        agent_state=learned,
        teacher_state=contexts,
        iteration=state.iteration + 1,
    )


@pytest.fixture(scope="module")
def trained():
    """One of our runs in the middle of training, with rollouts to learn from."""
    step = jax.jit(lambda state: EXPERIMENT.step(state)[0])
    state = jax.jit(EXPERIMENT.init)(jax.random.key(2))
    states = {}
    for iteration in range(161):
        if iteration in (40, 160):
            states[iteration] = state
        state = step(state)
    return states


def weights_by_scipy(rewards, features, log_ratios, alpha):
    problem = DualProblem(
        rewards, features, log_ratios, None, alpha, peer.MAX_KL, peer.RIDGE
    )
    return peer.Dual(*problem.weights(minimise_by_scipy(problem).exact), evaluations=0)


def updates(state, solve):
    """Returns the state before, and after an update by ours and by the peer from the same rollouts."""
    theirs = as_peer_state(state)
    rollouts = peer.collect(theirs, np.random.default_rng(0))
    batch = Batch(
        *(jnp.asarray(part, jnp.float32) for part in rollouts),
        successes=jnp.zeros(peer.NUM_SAMPLES, bool),
        lengths=jnp.zeros(peer.NUM_SAMPLES, jnp.int32),
    )
    ours = learn(state, batch)
    peer.learn(theirs, rollouts, solve)
    return as_peer_state(state), as_peer_state(ours), theirs


def difference(name, old, ours, theirs):
    """Relative to the change that the update made."""
    step = getattr(theirs, name) - getattr(old, name)
    return (
        np.abs(getattr(ours, name) - getattr(theirs, name)).max() / np.abs(step).max()
    )


@pytest.mark.slow
@pytest.mark.parametrize("iteration", [40, 160])
def test_with_the_dual_minimised_to_the_end_the_peer_makes_the_same_update_as_ours(
    trained, iteration
):
    states = updates(trained[iteration], weights_by_scipy)
    for name in ("gain", "covariance", "context_mean", "context_covariance"):
        assert difference(name, *states) < 1e-3


@pytest.mark.parametrize("iteration", [40, 160])
def test_with_the_published_solver_settings_the_peer_makes_nearly_the_same_update_of_the_policy(
    trained, iteration
):
    # L-BFGS-B stops short of the minimum, by more in the context weights while alpha is 0
    states = updates(trained[iteration], peer.solve_dual)
    for name in ("gain", "covariance"):
        assert difference(name, *states) < 0.1


@pytest.mark.slow
def test_the_peer_has_the_rollouts_and_features_of_the_gate(trained):
    state = as_peer_state(trained[40])
    generator = np.random.default_rng(1)
    rollouts = peer.collect(state, generator)
    features = LEARNER.value_features(jnp.asarray(rollouts.contexts, jnp.float32))
    np.testing.assert_allclose(rollouts.features, features, atol=2e-6)
    repeated = [
        peer.rollout(generator, rollouts.thetas, rollouts.contexts) for _ in range(20)
    ]
    thetas, contexts = (
        jnp.asarray(part, jnp.float32) for part in (rollouts.thetas, rollouts.contexts)
    )

    def rewards(key):
        return jax.vmap(TASK.rollout)(
            jax.random.split(key, peer.NUM_SAMPLES), thetas, contexts
        ).reward

    expected = np.asarray(
        jax.jit(jax.vmap(rewards))(jax.random.split(jax.random.key(3), 400))
    )
    # Near a post of the gate the noise decides; everywhere else the rewards are almost the same each time
    sure = expected.std(axis=0) < 0.5
    assert sure.sum() > 50
    np.testing.assert_allclose(
        np.mean(repeated, axis=0)[sure], expected.mean(axis=0)[sure], atol=0.5
    )
