"""The episodic GoalGAN: what an iteration consists of, labels by success rate, and when the GAN learns from which of them."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based import PPO
from spjax.contexts import ContextSpace
from spjax.envs.point_mass import PointMass
from spjax.episodes import Episodes
from spjax.teachers.goal_gan.base import scale
from spjax.teachers.goal_gan.episodic import NO_CONTEXT, EpisodicGoalGAN, composition
from spjax.training.config import RunConfig
from tests.teachers.checks import check

SPACE = ContextSpace(
    ("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0)
)
TEACHER = EpisodicGoalGAN(
    generator_hidden=(8, 8), discriminator_hidden=(8, 8), label_capacity=64, success_capacity=12, history=3,
    train_every=2, train_iterations=5, pretrain_iterations=5,
)  # fmt: skip
ROWS = 50


@jax.jit
def update(teacher, state, key, rows):
    return teacher.update(state, key, rows, lambda observation: observation[:, 0])


@jax.jit
def begin(key, teacher=TEACHER):
    return teacher.init(key, SPACE)


@functools.partial(jax.jit, static_argnames="count")
def propose(teacher, state, key, count=ROWS):
    return teacher.batch(state, key, SPACE, count)


def rows(contexts, tickets, success, mask=True):
    """Returns the record of an iteration's rollouts, with other values in masked rows."""
    count = len(tickets)
    mask = jnp.broadcast_to(jnp.asarray(mask), (count,))
    reward = jnp.asarray(success).astype(float)
    return Episodes(
        mask=mask,
        context=jnp.where(mask[:, None], jnp.asarray(contexts, jnp.float32), 99.0),
        first_observation=jnp.zeros((count, 0)),
        episode_return=reward,
        discounted_return=reward,
        length=jnp.ones(count, jnp.int32),
        success=jnp.where(mask, jnp.asarray(success), jnp.arange(count) % 2 == 0),
        ticket=jnp.asarray(tickets, jnp.int32),
    )


def played(places, results):
    """Returns the rollouts of contexts, each with its results; rows that do not count fill up, in between and behind."""
    contexts, tickets, success = [], [], []
    for number, (place, outcome) in enumerate(zip(places, results, strict=True)):
        contexts += [place] * len(outcome)
        tickets += [number] * len(outcome)
        success += outcome
    order = np.random.default_rng(0).permutation(ROWS)
    fill = ROWS - len(tickets)
    mask = np.arange(ROWS) < len(tickets)
    contexts, success = (
        np.array(contexts + [[0, 1]] * fill),
        np.array(success + [True] * fill),
    )
    return rows(
        contexts[order],
        np.array(tickets + [3] * fill)[order],
        success[order],
        mask[order],
    )


def filled(state, contexts):
    stored = state.successes.context.at[: len(contexts)].set(
        jnp.asarray(contexts, jnp.float32)
    )
    return state.replace(
        successes=state.successes.replace(
            context=stored, count=jnp.array(len(contexts))
        )
    )


def uniform(seed, count):
    return (
        np.random.default_rng(seed)
        .uniform(SPACE.lower, SPACE.upper, (count, 2))
        .astype(np.float32)
    )


def largest_difference(tree, other):
    return max(
        float(jnp.abs(a - b).max())
        for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    )


@pytest.mark.parametrize(
    ("count", "parts"),
    [
        (100, (20, 32, 8)),
        (50, (10, 16, 4)),
        (16, (3, 5, 2)),
        (3, (0, 1, 1)),
        (5, (1, 1, 1)),
    ],
)
def test_an_iteration_has_the_published_composition(count, parts):
    assert composition(count) == parts


@pytest.mark.parametrize(
    ("count", "times"),
    [
        (100, [4] * 8 + [2] * 24),
        (50, [4] * 4 + [2] * 12),
        (16, [4, 3, 2, 2, 2]),
        (3, [3]),
    ],
)
def test_exactly_as_many_rollouts_as_asked_for_come_out_and_tickets_name_their_context(
    key, count, times
):
    state = begin(jax.random.fold_in(key, 0))
    contexts, tickets = propose(TEACHER, state, jax.random.fold_in(key, 1), count=count)
    contexts, tickets = np.asarray(contexts), np.asarray(tickets)
    assert contexts.shape == (count, 2)
    assert (tickets == NO_CONTEXT).sum() == count - sum(times)
    np.testing.assert_array_equal(np.bincount(tickets[tickets != NO_CONTEXT]), times)
    for number in range(len(times)):
        assert len(np.unique(contexts[tickets == number], axis=0)) == 1
    assert len(np.unique(contexts, axis=0)) == (tickets == NO_CONTEXT).sum() + len(
        times
    )
    assert ((contexts >= SPACE.lower) & (contexts <= SPACE.upper)).all()


def test_fewer_than_three_rollouts_are_refused(key):
    with pytest.raises(ValueError, match="at least 3 rollouts an iteration, got 2"):
        TEACHER.batch(
            begin(jax.random.fold_in(key, 0)), jax.random.fold_in(key, 1), SPACE, 2
        )


def test_a_step_based_learner_is_told_that_this_teacher_is_not_for_it():
    message = "^the teacher 'goal-gan-episodic' is for agents that run whole rollouts, got 'ppo'$"
    with pytest.raises(ValueError, match=message):
        RunConfig(PointMass(), PPO(), EpisodicGoalGAN()).check()


def test_missing_contexts_of_the_success_buffer_are_replaced_by_uniform_ones(key):
    entries = uniform(1, 4)
    teacher, state = (
        TEACHER.replace(noise=0.0),
        filled(begin(jax.random.fold_in(key, 0)), entries),
    )
    batches = [
        propose(teacher, state, jax.random.fold_in(key, 1 + n)) for n in range(40)
    ]
    replayed = np.stack(
        [
            np.asarray(contexts)[np.asarray(tickets) == NO_CONTEXT]
            for contexts, tickets in batches
        ]
    )
    np.testing.assert_array_equal(replayed[:, :4], np.tile(entries, (40, 1, 1)))
    rest = replayed[:, 4:].reshape(-1, 2)
    assert len(np.unique(rest, axis=0)) == 240
    np.testing.assert_allclose(rest.mean(0), [0.0, 4.25], atol=4 * 2.3 / np.sqrt(240))
    np.testing.assert_allclose(
        rest.std(0), [8 / np.sqrt(12), 7.5 / np.sqrt(12)], rtol=0.15
    )


def test_a_full_enough_success_buffer_is_drawn_from_evenly_with_noise_inside_the_bounds(
    key,
):
    entries = np.array([[-2.0, 2.0], [2.0, 2.0], [2.0, 6.0], [4.0, 8.0]] * 3)
    teacher, state = (
        TEACHER.replace(noise=0.05),
        filled(begin(jax.random.fold_in(key, 0)), entries),
    )
    batches = [
        propose(teacher, state, jax.random.fold_in(key, 1 + n)) for n in range(80)
    ]
    drawn = np.concatenate(
        [
            np.asarray(contexts)[np.asarray(tickets) == NO_CONTEXT]
            for contexts, tickets in batches
        ]
    )
    nearest = np.argmin(((drawn[:, None] - entries[:4]) ** 2).sum(-1), axis=1)
    np.testing.assert_allclose(np.bincount(nearest) / 800, 0.25, atol=0.07)
    inner = drawn[nearest < 3] - entries[nearest[nearest < 3]]
    np.testing.assert_allclose(inner.std(0), [0.4, 0.375], rtol=0.15)
    assert (drawn[nearest == 3] <= SPACE.upper).all()
    assert (drawn[nearest == 3] == SPACE.upper).mean() == pytest.approx(0.5, abs=0.12)


def test_noise_is_added_once_to_each_proposed_context(key):
    state = begin(jax.random.fold_in(key, 0))
    plain, tickets = propose(
        TEACHER.replace(noise=0.0), state, jax.random.fold_in(key, 1)
    )
    noisy, _ = propose(TEACHER.replace(noise=0.01), state, jax.random.fold_in(key, 1))
    proposed = np.asarray(tickets) != NO_CONTEXT
    change = np.asarray(noisy - plain)[proposed]
    assert len(np.unique(change, axis=0)) == 16
    np.testing.assert_allclose(change.std(0), [0.08, 0.075], rtol=0.5)
    assert (
        largest_difference(noisy[~proposed], plain[~proposed]) == 0
    )  # uniform ones in place of the buffer's


def test_labels_and_successes_follow_from_the_success_rate_of_all_rollouts_of_a_context(
    key,
):
    places = [
        (-3.0, 1.0),
        (-2.0, 2.0),
        (-1.0, 3.0),
        (0.0, 4.0),
        (1.0, 5.0),
        (2.0, 6.0),
        (3.0, 7.0),
        (3.05, 7.0),
    ]
    outcomes = [
        [0, 0],
        [1, 0],
        [1, 1],
        [1, 0, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
        [1, 1],
        [1, 1],
    ]
    results = [[bool(result) for result in outcome] for outcome in outcomes]
    state, metrics = update(
        TEACHER,
        begin(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 1),
        played(places, results),
    )
    assert int(metrics.labelled) == 8
    np.testing.assert_array_equal(state.labelled.label[:8], [0, 1, 0, 1, 1, 0, 0, 0])
    np.testing.assert_allclose(
        state.labelled.context[:8],
        scale(SPACE, jnp.array(places)),
        rtol=1e-5,
        atol=1e-6,
    )
    assert float(metrics.positive_fraction.value) == pytest.approx(3 / 8)
    assert (
        int(metrics.successes) == 3
    )  # the last is within 0.1097 m, a hundredth of the diagonal, of the one before
    np.testing.assert_array_equal(
        state.successes.context[:3], [places[2], places[5], places[6]]
    )


def test_a_rate_of_a_tenth_or_nine_tenths_gets_label_zero_and_contexts_of_the_buffer_get_none(
    key,
):
    results = [[True] + [False] * 9, [True] * 9 + [False], [True, True] + [False] * 8]
    episodes = played([(-3.0, 1.0), (-2.0, 2.0), (-1.0, 3.0)], results)
    replayed = jnp.flatnonzero(~episodes.mask)[:3]
    episodes = dataclasses.replace(
        episodes,
        mask=episodes.mask.at[replayed].set(True),
        ticket=episodes.ticket.at[replayed].set(NO_CONTEXT),
        success=episodes.success.at[replayed].set(True),
    )
    state, metrics = update(
        TEACHER, begin(jax.random.fold_in(key, 0)), jax.random.fold_in(key, 1), episodes
    )
    assert int(metrics.labelled) == 3
    np.testing.assert_array_equal(state.labelled.label[:3], [0, 0, 1])
    assert int(metrics.successes) == 0


def test_a_rollout_that_is_masked_does_not_count_towards_the_rate(key):
    contexts = np.tile([1.0, 2.0], (ROWS, 1))
    tickets, mask = np.arange(ROWS) // 2, np.arange(ROWS) % 2 == 0
    state, metrics = update(
        TEACHER,
        begin(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 1),
        rows(contexts, tickets, mask, mask),
    )
    assert int(metrics.labelled) == 25
    assert float(metrics.positive_fraction.value) == 0
    np.testing.assert_array_equal(state.successes.context[0], [1.0, 2.0])


def iterate(key, state, numbers, good, count=10, teacher=TEACHER):
    """Runs iterations in which these contexts succeed once (`good`) or never; returns the state and all metrics."""
    found = []
    for number in numbers:
        results = [[good(number), False]] * count
        state, metrics = update(
            teacher,
            state,
            jax.random.fold_in(key, 100 + number),
            played(uniform(number, count), results),
        )
        found.append(metrics)
    return state, found


def test_the_gan_is_trained_every_nth_iteration_and_only_with_a_positive_label(key):
    start = begin(jax.random.fold_in(key, 0))
    state, found = iterate(key, start, range(1, 9), lambda number: number == 4)
    # Trainings are due in iterations 2, 4, 6 and 8; the label of iteration 4 is among the last three iterations' until 6.
    assert [int(metrics.trainings) for metrics in found] == [0, 0, 0, 1, 0, 1, 0, 0]
    assert [bool(metrics.generator_loss.present) for metrics in found] == [
        False
    ] * 3 + [True, False, True] + [False] * 2
    before, _ = iterate(key, start, range(1, 4), lambda number: number == 4)
    assert largest_difference(before.networks, start.networks) == 0
    after, _ = iterate(key, start, range(1, 7), lambda number: number == 4)
    assert largest_difference(after.networks, state.networks) == 0
    assert (
        largest_difference(after.networks.generator, before.networks.generator) > 1e-4
    )


def test_a_training_sees_the_labels_of_the_last_iterations_and_no_older_ones(key):
    start = begin(jax.random.fold_in(key, 0))

    def trained(numbers):
        state, _ = iterate(key, start, [1], lambda number: False)
        for position, number in enumerate(numbers):
            episodes = played(uniform(number, 10), [[True, False]] * 10)
            state = state.replace(
                networks=start.networks
            )  # only the last training counts
            state, metrics = update(
                TEACHER, state, jax.random.fold_in(key, 200 + position), episodes
            )
            assert int(metrics.trainings) == (1 if position % 2 == 0 else 0)
        return state

    reference = trained([2, 3, 4, 5, 6])
    assert int(reference.labelled.waiting) == 30
    assert (
        largest_difference(trained([7, 8, 4, 5, 6]).networks, reference.networks) == 0
    )
    for numbers in ([2, 3, 9, 5, 6], [2, 3, 4, 9, 6], [2, 3, 4, 5, 9]):
        assert largest_difference(trained(numbers).networks, reference.networks) > 1e-6


def test_labels_beyond_the_capacity_are_counted(key):
    state, found = iterate(
        key,
        begin(jax.random.fold_in(key, 0)),
        range(1, 5),
        lambda number: True,
        count=25,
    )
    assert [int(metrics.dropped_labels) for metrics in found] == [0, 0, 11, 11]
    assert int(state.labelled.waiting) == 64


@pytest.mark.slow
def test_pre_training_makes_the_generator_cover_the_bounds_roughly(key):
    teacher = EpisodicGoalGAN()
    keys = jax.random.split(jax.random.fold_in(key, 1), 1000)
    state = begin(jax.random.fold_in(key, 0), teacher)
    drawn = jax.jit(jax.vmap(lambda k: teacher.sample(state, k, SPACE)))(keys)
    place = np.asarray(scale(SPACE, drawn))
    np.testing.assert_allclose(place.mean(0), 0, atol=0.2)
    assert (place.std(0) > 0.15).all()  # of a uniform distribution 0.29
    assert ((np.abs(place) <= 0.5 + 1e-6).all(1)).all()


@pytest.mark.slow
def test_contexts_of_intermediate_success_are_proposed_more_and_more(key):
    teacher = EpisodicGoalGAN(
        generator_hidden=(64, 64), discriminator_hidden=(64, 64), train_every=3
    )
    state = begin(jax.random.fold_in(key, 0), teacher)

    def chance(contexts):
        """Certain to the left of -2, impossible to the right of 0, an even chance between."""
        position = np.asarray(contexts)[:, 0]
        return np.where(position < -2, 1.0, np.where(position > 0, 0.0, 0.5))

    generator, shares = np.random.default_rng(0), []
    for number in range(30):
        contexts, tickets = propose(
            teacher, state, jax.random.fold_in(key, 2 * number + 1)
        )
        proposed = chance(contexts)[np.asarray(tickets) != NO_CONTEXT]
        shares.append((proposed == 0.5).mean())
        success = generator.random(ROWS) < chance(contexts)
        state, metrics = update(
            teacher,
            state,
            jax.random.fold_in(key, 2 * number + 2),
            rows(contexts, tickets, success),
        )
    assert np.mean(shares[:3]) < 0.45
    assert np.mean(shares[-6:]) > 0.65
    assert (chance(state.successes.context[: int(metrics.successes)]) > 0).all()
    assert int(metrics.successes) > 5


def test_without_any_success_nothing_is_learned_and_nothing_is_not_a_number(key):
    state, found = iterate(
        key, begin(jax.random.fold_in(key, 0)), range(1, 5), lambda number: False
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    assert sum(int(metrics.trainings) for metrics in found) == 0
    contexts, _ = propose(TEACHER, state, jax.random.fold_in(key, 1))
    assert np.isfinite(contexts).all()


def test_seed_zero_twice_is_the_same_and_another_seed_is_not():
    def play(seed):
        key = jax.random.key(seed)
        state, _ = iterate(
            key, begin(jax.random.fold_in(key, 0)), range(1, 3), lambda number: True
        )
        return state, propose(TEACHER, state, jax.random.fold_in(key, 9))[0]

    assert largest_difference(play(0), play(0)) == 0
    assert (play(0)[1] != play(1)[1]).any(1).all()


def test_lanes_of_a_batch_equal_single_runs_and_an_idle_lane_keeps_its_bits(key):
    teachers = [
        TEACHER.replace(train_every=n, learning_rate=r)
        for n, r in ((1, 1e-2), (1, 1e-2), (3, 1e-3), (1, 1e-3))
    ]
    results = [
        [[good, False]] * 12 for good in (True, False, True, True)
    ]  # trained, no label 1, not due, trained
    data = [played(uniform(lane, 12), results[lane]) for lane in range(4)]
    states = [begin(jax.random.fold_in(key, lane)) for lane in range(4)]

    def stacked(trees):
        return jax.tree.map(
            lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees
        )

    def keys():
        return jax.random.split(jax.random.fold_in(key, 9), 4)

    batch, metrics = jax.jit(jax.vmap(update))(
        stacked(teachers), stacked(states), keys(), stacked(data)
    )
    np.testing.assert_array_equal(metrics.trainings, [1, 0, 0, 1])
    for lane in range(4):
        single, _ = update(teachers[lane], states[lane], keys()[lane], data[lane])
        here = jax.tree.map(lambda leaf, lane=lane: leaf[lane], batch)
        assert largest_difference(here, single) < 1e-5
        if lane in (1, 2):
            assert largest_difference(here.networks, states[lane].networks) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_every": 0}, "teacher.train_every must be at least 1, got 0"),
        ({"history": 0}, "teacher.history must be at least 1, got 0"),
        (
            {"pretrain_iterations": 1.5},
            "teacher.pretrain_iterations must be a whole number, got 1.5",
        ),
        (
            {"generator_hidden": (8, 0)},
            "teacher.generator_hidden must be at least 1, got 0",
        ),
        ({"noise": -0.1}, "teacher.noise must be at least 0, got -0.1"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(TEACHER.replace(**change), SPACE)
