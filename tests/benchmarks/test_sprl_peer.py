"""The NumPy and SciPy peer of the SPRL speed benchmark against ours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spjax
from benchmarks.speed.peers import sprl as peer
from benchmarks.speed.sprl import as_peer_state
from spjax.episodic.buffer import Batch

CONFIG = spjax.preset("gate-precision", agent="sprl")
LEARNER, TASK = CONFIG.agent, CONFIG.env


@pytest.fixture(scope="module")
def trained():
    """One of our runs in the middle of training, with rollouts to learn from."""
    iterate = jax.jit(lambda state, key: LEARNER.iterate(state, TASK, key)[0])
    key, key_init = jax.random.split(jax.random.key(2))
    state = jax.jit(lambda key: LEARNER.init(key, TASK))(key_init)
    states = {}
    for iteration in range(161):
        if iteration in (40, 160):
            states[iteration] = state
        key, key_iterate = jax.random.split(key)
        state = iterate(state, key_iterate)
    return states


@pytest.mark.parametrize("iteration", [40, 160])
def test_the_peer_updates_both_distributions_as_ours_does_from_the_same_rollouts(trained, iteration):
    ours, theirs = trained[iteration], as_peer_state(trained[iteration])
    rollouts = peer.collect(theirs, np.random.default_rng(0))
    batch = Batch(
        contexts=jnp.asarray(rollouts.contexts, jnp.float32),
        thetas=jnp.asarray(rollouts.thetas, jnp.float32),
        features=jnp.asarray(rollouts.features, jnp.float32),
        rewards=jnp.asarray(rollouts.rewards, jnp.float32),
        successes=jnp.zeros(peer.NUM_SAMPLES, bool),
        lengths=jnp.zeros(peer.NUM_SAMPLES, jnp.int32),
    )
    before = as_peer_state(ours)
    ours, _ = jax.jit(lambda state, batch: LEARNER.learn(state, TASK, batch))(ours, batch)
    peer.learn(theirs, rollouts)
    ours = as_peer_state(ours)
    for name in ("gain", "covariance", "context_mean", "context_covariance"):
        new, expected, old = getattr(ours, name), getattr(theirs, name), getattr(before, name)
        print(iteration, name, np.abs(new - expected).max() / np.abs(expected - old).max())
        assert np.abs(new - expected).max() <= 0.02 * np.abs(expected - old).max()


def test_the_peer_has_the_rollouts_and_features_of_the_gate(trained):
    state = as_peer_state(trained[40])
    generator = np.random.default_rng(1)
    rollouts = peer.collect(state, generator)
    features = LEARNER.value_features(jnp.asarray(rollouts.contexts, jnp.float32))
    np.testing.assert_allclose(rollouts.features, features, atol=2e-6)
    repeated = [peer.rollout(generator, rollouts.thetas, rollouts.contexts) for _ in range(20)]
    thetas, contexts = (jnp.asarray(part, jnp.float32) for part in (rollouts.thetas, rollouts.contexts))

    def rewards(key):
        return jax.vmap(TASK.rollout)(jax.random.split(key, peer.NUM_SAMPLES), thetas, contexts).reward

    expected = np.asarray(jax.jit(jax.vmap(rewards))(jax.random.split(jax.random.key(3), 20)))
    # Near a post of the gate the noise decides; everywhere else the rewards are almost the same each time
    sure = expected.std(axis=0) < 0.5
    assert sure.sum() > 50
    np.testing.assert_allclose(np.mean(repeated, axis=0)[sure], expected.mean(axis=0)[sure], atol=0.5)
