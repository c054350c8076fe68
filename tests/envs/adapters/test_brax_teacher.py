"""A teacher inside Brax's step: against a plain loop over what the slots did."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax.envs.fast import Fast
from brax.envs.wrappers.training import EvalWrapper

from spjax.contexts import Gaussian
from spjax.envs.adapters.brax import BraxTask, wrap
from spjax.teachers import SelfPaced, SelfPacedJoint, Target
from tests.envs.adapters.walk import Counting, Walk

TASK = Walk()
AS_USED = inspect.unwrap(wrap)  # without the run-time type checker of the suite
SLOTS, EVERY, STEPS, DISCOUNT = 6, 10, 40, 0.9


def actions(key, count=STEPS):
    """Returns actions of all kinds; now and then one slot goes where nothing is a number."""
    found = jax.random.uniform(key, (count, SLOTS, 1), minval=-0.9, maxval=0.7)
    return found.at[:, 0].set(-1.0)


@pytest.fixture(scope="module")
def played():
    """Returns the states [STEPS + 1, ...] of a wrapped task, and what the teacher reported."""
    reports = []
    made = wrap(Counting(), EVERY, DISCOUNT, report=reports.append)
    env = made(BraxTask(TASK), episode_length=TASK.horizon)

    @jax.jit
    def play(key, actions):
        first = env.reset(jax.random.split(key, SLOTS))

        def control_step(state, action):
            after = env.step(state, action)
            return after, after

        _, later = jax.lax.scan(control_step, first, actions)
        return jax.tree.map(
            lambda one, rest: jnp.concatenate([one[None], rest]), first, later
        )

    key_play, key_actions = jax.random.split(jax.random.key(11))
    states = jax.device_get(play(key_play, actions(key_actions)))
    jax.effects_barrier()
    return states, jax.device_get(reports)


def episodes_by_hand(states):
    """Returns the finished episodes as a plain loop over slots and control steps sees them."""
    found = []
    for slot in range(SLOTS):
        rewards, first = [], states.obs[0, slot]
        for time in range(1, STEPS + 1):
            rewards.append(float(states.reward[time, slot]))
            if states.done[time, slot]:
                context = float(states.pipeline_state.context[time - 1, slot, 0])
                place = float(states.info["final_observation"][time, slot, 0])
                found.append(
                    {
                        "slot": slot,
                        "time": time,
                        "context": context,
                        "first": first,
                        "length": len(rewards),
                        "return": sum(rewards),
                        "discounted": sum(
                            DISCOUNT**k * r for k, r in enumerate(rewards)
                        ),
                        "success": abs(place - context) < 3.0 and rewards[-1] != 0.0,
                        "failed": rewards[-1] == 0.0,
                    }
                )
                rewards, first = [], states.obs[time, slot]
    return found


def test_every_kind_of_end_occurs(played):
    states, _ = played
    ended = episodes_by_hand(states)
    truncated = states.info["truncation"] > 0
    assert 0 < truncated.sum() < states.done.sum()
    assert any(episode["failed"] for episode in ended)
    assert 0 < sum(episode["success"] for episode in ended) < len(ended)
    assert len({episode["length"] for episode in ended}) == TASK.horizon
    assert all(
        np.isfinite(leaf).all()
        for leaf in jax.tree.leaves((states.obs, states.reward, states.pipeline_state))
    )


def test_the_record_has_the_episodes_of_a_plain_loop(played):
    states, _ = played
    record = states.info["teacher"].episodes  # [time, every, slot]
    for episode in episodes_by_hand(states):
        time, slot = episode["time"], episode["slot"]
        if time % EVERY == 0:  # the update that it came with has emptied the record
            assert not record.mask[time].any()
            continue
        row = jax.tree.map(
            lambda leaf: leaf[time, (time - 1) % EVERY, slot],
            record,
        )
        assert row.mask
        assert float(row.context[0]) == episode["context"]
        np.testing.assert_array_equal(row.first_observation, episode["first"])
        assert row.length == episode["length"]
        assert row.episode_return == pytest.approx(episode["return"], abs=1e-5)
        assert row.discounted_return == pytest.approx(episode["discounted"], abs=1e-5)
        assert bool(row.success) == episode["success"]
        assert row.ticket == pytest.approx(10 * episode["context"], rel=1e-6)


def test_nothing_that_goes_on_is_in_the_record(played):
    states, _ = played
    ended = episodes_by_hand(states)
    for time in range(1, STEPS + 1):
        since = (time - 1) // EVERY * EVERY
        wanted = sum(since < episode["time"] <= time for episode in ended)
        count = states.info["teacher"].episodes.mask[time].sum()
        assert count == (0 if time % EVERY == 0 else wanted)


def test_the_teacher_learns_every_so_many_steps_from_all_that_ended_since(played):
    states, reports = played
    updates = states.info["teacher"].teacher_state.updates
    np.testing.assert_array_equal(updates, np.arange(STEPS + 1) // EVERY)
    assert len(reports) == STEPS // EVERY
    ended = episodes_by_hand(states)
    for number, metrics in enumerate(reports):
        now = [e for e in ended if number * EVERY < e["time"] <= (number + 1) * EVERY]
        assert metrics.episodes == len(now)
        mean = np.mean([episode["discounted"] for episode in now])
        assert metrics.mean_return == pytest.approx(mean, abs=1e-5)


def test_every_episode_starts_in_a_new_context_of_the_teacher_as_it_then_is(played):
    states, _ = played
    contexts, done = states.pipeline_state.context[..., 0], states.done > 0
    started = contexts[1:][done[1:]]
    assert len(np.unique(started)) == len(started) > SLOTS
    before = np.arange(STEPS) // EVERY  # updates before each control step
    lower = np.broadcast_to(before[:, None], (STEPS, SLOTS))[done[1:]]
    assert ((lower <= started) & (started < lower + 0.5)).all()
    going = ~done[1:]
    np.testing.assert_array_equal(contexts[1:][going], contexts[:-1][going])
    np.testing.assert_array_equal(states.obs[..., 1], contexts)


def test_the_final_observation_is_where_the_step_led_before_any_reset(played):
    states, _ = played
    final, done = states.info["final_observation"][1:], states.done[1:] > 0
    np.testing.assert_array_equal(final[~done], states.obs[1:][~done])
    old = states.pipeline_state.context[:-1]
    np.testing.assert_array_equal(final[..., 1:], old)
    assert (final[done][:, 0] != states.obs[1:][done][:, 0]).all()


def test_braxs_own_counts_are_kept(played):
    states, _ = played
    metrics = states.info["episode_metrics"]
    for episode in episodes_by_hand(states):
        at = episode["time"], episode["slot"]
        assert metrics["sum_reward"][at] == pytest.approx(episode["return"], abs=1e-5)
        assert metrics["length"][at] == episode["length"]
        assert metrics["success"][at] == float(episode["success"])
        assert metrics["discounted_return"][at] == pytest.approx(
            episode["discounted"], abs=1e-5
        )
        assert states.info["steps"][at] == episode["length"]
        assert states.info["episode_done"][at] == 1


@pytest.mark.slow
def test_evaluation_keeps_its_own_contexts_and_sums_an_episode_once(key):
    narrow = Gaussian.from_std((2.0,), (0.01,))
    env = EvalWrapper(
        wrap(Counting(), EVERY, DISCOUNT)(
            BraxTask(TASK, contexts=narrow), episode_length=TASK.horizon
        )
    )
    key_play, key_actions = jax.random.split(key)
    state = env.reset(jax.random.split(key_play, SLOTS))
    step, returns, going = jax.jit(env.step), np.zeros(SLOTS), np.ones(SLOTS, bool)
    for action in actions(key_actions, TASK.horizon):
        state = step(state, action)
        returns += np.where(going, state.reward, 0.0)
        going &= state.done == 0
    assert not going.any()
    found = state.info["eval_metrics"].episode_metrics
    np.testing.assert_allclose(found["reward"], returns, atol=1e-5)
    assert set(found) == {"reward", "success", "discounted_return"}
    assert np.abs(state.pipeline_state.context - 2.0).max() < 0.1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: wrap(SelfPaced(), 10), "asks the critic.*value_source='return'"),
        (lambda: wrap(SelfPacedJoint(), 10), "SelfPacedJoint is for agents that run"),
        (lambda: wrap(Target(), 0), "every must be at least 1, got 0"),
        (lambda: AS_USED(Target(), 64.5), "every must be a whole number, got 64.5"),
        (lambda: AS_USED("default", 5), "a teacher must be made, .* got 'default'"),
        (lambda: wrap(Target(), 5, discount=1.5), r"discount must lie in \(0, 1\]"),
        (
            lambda: wrap(SelfPaced(value_source="return", max_kl=-1.0), 5),
            "teacher.max_kl must be positive",
        ),
        (lambda: wrap(Target(), 5)(Fast(), 4), "got Fast; FromBrax makes one"),
        (
            lambda: wrap(Target(), 5)(BraxTask(TASK), 1000),
            "episode_length must be the horizon of walk, 4, got 1000",
        ),
        (
            lambda: wrap(Target(), 5)(BraxTask(TASK), 4, action_repeat=2),
            "action_repeat must be 1",
        ),
        (
            lambda: wrap(Target(), 5)(BraxTask(TASK), 4, randomization_fn=len),
            "take the place of a randomization_fn",
        ),
        (
            lambda: wrap(Target(target=Gaussian.from_std((99.0,), (1.0,))), 5)(
                BraxTask(TASK), 4
            ),
            "teacher.target.*goal = 99",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(make, sentence, monkeypatch):
    monkeypatch.setattr(Walk, "name", "walk")
    with pytest.raises(ValueError, match=sentence) as found:
        make()
    assert "\n" not in str(found.value)
