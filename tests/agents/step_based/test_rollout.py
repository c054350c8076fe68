"""Slots, contexts and episode records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax.agents.step_based.rollout import init_slots, rollout
from tests.probe import EndlessReward, Probe


def act(key, observation):
    return jnp.zeros(1), ()


@struct.dataclass
class FiveSteps(Probe):
    """Ends after five steps; the context is observed and its square is the reward."""

    horizon = 5

    def reward(self, state, action):
        return state.context[0] ** 2


def test_every_finished_slot_starts_with_a_new_context_that_observation_and_reward_use(
    key,
):
    env = FiveSteps()
    assign = lambda k, last: (jnp.clip(jax.random.normal(k, (1,)), -1, 1), ())  # noqa: E731
    slots = init_slots(env, jax.random.fold_in(key, 0), 8, assign, ())
    slots, transitions, episodes, _ = rollout(
        env, jax.random.fold_in(key, 1), slots, act, assign, 50, 0.9
    )
    contexts = np.asarray(transitions.observation)[:, :, 0].reshape(10, 5, 8)
    # constant within an episode; XLA may compute a draw twice, of which one is rounded otherwise
    np.testing.assert_allclose(
        contexts, np.broadcast_to(contexts[:, :1], contexts.shape), rtol=1e-6
    )
    inside = np.abs(contexts[:, 0]) < 1
    assert (
        len(np.unique(contexts[:, 0][inside])) == inside.sum() >= 40
    )  # and fresh across episodes
    np.testing.assert_allclose(
        transitions.reward, np.repeat(contexts[:, 0] ** 2, 5, axis=0), rtol=1e-6
    )
    kept = np.asarray(episodes.mask)
    assert kept.sum() == 80
    for found in (episodes.context, episodes.first_observation):
        np.testing.assert_allclose(
            np.asarray(found)[kept, 0], contexts[:, 0].reshape(-1), rtol=1e-6
        )
    np.testing.assert_allclose(
        np.asarray(episodes.episode_return)[kept],
        5 * contexts[:, 0].reshape(-1) ** 2,
        rtol=1e-5,
    )
    discounted = sum(0.9**t for t in range(5)) * contexts[:, 0].reshape(-1) ** 2
    np.testing.assert_allclose(
        np.asarray(episodes.discounted_return)[kept], discounted, rtol=1e-5
    )
    assert (np.asarray(episodes.length)[kept] == 5).all()


def test_the_next_observation_of_a_cut_step_is_the_last_of_its_own_episode(key):
    env = FiveSteps()
    assign = lambda k, last: (jax.random.uniform(k, (1,)), ())  # noqa: E731
    slots = init_slots(env, jax.random.fold_in(key, 0), 2, assign, ())
    _, transitions, _, _ = rollout(
        env, jax.random.fold_in(key, 1), slots, act, assign, 10, 0.9
    )
    np.testing.assert_array_equal(
        transitions.next_observation[4, :, 0], transitions.observation[4, :, 0]
    )
    assert (np.asarray(transitions.next_observation[4, :, 1]) == 5).all()
    assert (np.asarray(transitions.observation[5, :, 1]) == 0).all()


@struct.dataclass
class Breaks(EndlessReward):
    """Turns NaN at its third step where the context is above a half; or, as a control, terminates there."""

    horizon = 100
    poison: str | None = struct.field(
        pytree_node=False, default="observation"
    )  # what turns NaN

    def dynamics(self, key, state, action):
        after = super().dynamics(key, state, action)
        breaks = (state.context[0] > 0.5) & (state.time_step == 2)
        if self.poison:
            return after.replace(
                **{self.poison: jnp.where(breaks, jnp.nan, getattr(after, self.poison))}
            )
        return after.replace(
            terminated=breaks, reward=jnp.where(breaks, 0.0, after.reward)
        )


@pytest.mark.parametrize("poison", ["observation", "reward"])
def test_a_slot_that_turns_nan_ends_finite_and_leaves_the_others_bit_identical(
    key, poison
):
    results = []
    for what in (poison, None):
        env = Breaks(poison=what)
        assign = lambda k, last: (jnp.zeros(1), ())  # noqa: E731
        slots = init_slots(env, jax.random.fold_in(key, 0), 64, assign, ())
        context = slots.env_state.context.at[3, 0].set(1.0)
        slots = slots.replace(env_state=slots.env_state.replace(context=context))
        results.append(
            rollout(env, jax.random.fold_in(key, 1), slots, act, assign, 10, 0.9)
        )
    (
        (slots, transitions, episodes, failed),
        (control_slots, control, control_episodes, none),
    ) = results
    assert int(failed) == 1
    assert int(none) == 0
    assert bool(transitions.terminated[2, 3])
    assert float(transitions.reward[2, 3]) == 0.0
    for a, b in zip(
        jax.tree.leaves((slots, transitions, episodes)),
        jax.tree.leaves((control_slots, control, control_episodes)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_ticket_travels_from_the_assignment_to_the_record_and_the_attempt_is_what_the_slot_did(
    key,
):
    """The teacher counts on: each ticket is one more than that of the attempt before, each context its tenth."""
    env = FiveSteps()

    def assign(key, last):
        number = last.ticket + 1
        follows = (last.ticket == 0) | (
            jnp.abs(last.context[0] - last.ticket / 10) < 1e-6
        )
        return jnp.where(follows, number / 10, jnp.nan)[None], number

    slots = init_slots(env, jax.random.fold_in(key, 0), 2, assign, jnp.zeros(()))
    slots, _, episodes, _ = rollout(
        env, jax.random.fold_in(key, 1), slots, act, assign, 20, 0.9
    )
    kept = np.asarray(episodes.mask)
    np.testing.assert_array_equal(
        np.asarray(episodes.ticket)[kept], [1, 1, 2, 2, 3, 3, 4, 4]
    )
    np.testing.assert_allclose(
        np.asarray(episodes.context)[kept, 0], [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4]
    )
    np.testing.assert_array_equal(slots.ticket, [5, 5])
