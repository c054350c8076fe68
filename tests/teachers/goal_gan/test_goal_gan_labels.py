"""GoalGAN: what is labelled, what enters the success buffer, and what a training learns from."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from spjax.teachers.goal_gan.base import scale
from spjax.teachers.goal_gan.goal_sets import Successes, add_successes
from spjax.teachers.goal_gan.step_based import Source
from tests.teachers.goal_gan.made_up import (
    SPACE,
    TEACHER,
    largest_difference,
    rows,
    start,
    update,
)


def test_exactly_one_success_of_two_is_label_one_and_nothing_else_is_labelled(key):
    state = start(jax.random.fold_in(key, 0))
    contexts = [
        (0.0, 1.0),
        (1.0, 2.0),
        (2.0, 3.0),
        (3.0, 4.0),
        (-1.0, 5.0),
        (-2.0, 6.0),
        (-3.0, 7.0),
    ]
    first = [False, True, False, True, True, True, True]
    second = [False, False, True, True, True, True, True]
    source = [Source.GENERATOR] * 5 + [Source.SUCCESSES, Source.GENERATOR]
    attempt, mask = [2, 2, 2, 2, 1, 1, 2], [True] * 6 + [False]
    state, metrics = update(
        TEACHER,
        state,
        jax.random.fold_in(key, 1),
        rows(contexts, first, second, source, attempt, mask),
    )
    assert int(state.labelled.collected) == int(metrics.labelled) == 4
    assert float(metrics.positive_fraction.value) == 0.5
    np.testing.assert_array_equal(state.labelled.label[:4], [0, 1, 1, 0])
    np.testing.assert_allclose(
        state.labelled.context[:4], scale(SPACE, jnp.array(contexts[:4])), rtol=1e-6
    )
    assert int(metrics.successes) == 1
    np.testing.assert_array_equal(state.successes.context[0], contexts[3])


def test_a_success_enters_the_buffer_only_at_a_distance_from_all_entries_and_while_there_is_room(
    key,
):
    state = start(
        jax.random.fold_in(key, 0)
    )  # the diagonal is 10.966 m, so the distance 0.10966 m
    contexts = [
        (0.0, 4.0),
        (0.109, 4.0),
        (0.111, 4.0),
        (0.2, 4.0),
        (0.0, 4.11),
        (0.05, 4.05),
    ]
    for number in (1, 2):
        state, metrics = update(
            TEACHER, state, jax.random.fold_in(key, number), rows(contexts, True, True)
        )
        assert int(metrics.successes) == 3
        np.testing.assert_allclose(
            state.successes.context[:3],
            [contexts[0], contexts[2], contexts[4]],
            rtol=1e-6,
        )
    more = [(-float(number % 4), 6.0) for number in range(20)] + [
        (1.0, 1.0),
        (2.0, 1.0),
        (3.0, 1.0),
    ]
    state, metrics = update(
        TEACHER, state, jax.random.fold_in(key, 3), rows(more, True, True)
    )
    assert int(metrics.successes) == 8
    assert int(metrics.dropped_successes) == 2
    np.testing.assert_array_equal(
        state.successes.context[3:], [more[0], more[1], more[2], more[3], (1.0, 1.0)]
    )


def test_an_empty_buffer_takes_a_success_at_the_origin_too():
    origin = jnp.zeros((1, 2))
    successes, dropped = add_successes(
        Successes.empty(4, 2), jnp.array([True]), origin, jnp.array(0.1)
    )
    assert (int(successes.count), int(dropped)) == (1, 0)


def test_a_training_without_a_positive_label_changes_no_bit_and_empties_the_set(key):
    before = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(
        jax.random.split(jax.random.fold_in(key, 1), 12)
    )
    state, metrics = update(
        TEACHER, before, jax.random.fold_in(key, 2), rows(contexts, True, True)
    )
    assert int(metrics.trainings) == 0
    assert not bool(metrics.discriminator_loss.present)
    assert largest_difference(state.networks, before.networks) == 0
    assert int(state.labelled.waiting) == 2
    state, metrics = update(
        TEACHER, before, jax.random.fold_in(key, 2), rows(contexts, True, False)
    )
    assert int(metrics.trainings) == 1
    assert (
        largest_difference(state.networks.generator, before.networks.generator) > 1e-4
    )
    assert float(metrics.generator_loss.value) > 0


def test_every_complete_set_of_labels_is_one_training_on_just_that_set(key):
    before = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(
        jax.random.split(jax.random.fold_in(key, 1), 26)
    )

    def feed(state, number, chosen, label=True):
        return update(
            TEACHER, state, jax.random.fold_in(key, number), rows(chosen, label, False)
        )

    state, first = feed(before, 2, contexts[:8])
    assert (int(first.trainings), int(state.labelled.waiting)) == (0, 8)
    assert largest_difference(state.networks, before.networks) == 0
    after, second = feed(state, 3, contexts[8:14])
    assert (int(second.trainings), int(after.labelled.waiting)) == (1, 4)
    same, _ = feed(
        state, 3, jnp.concatenate([contexts[8:10], contexts[20:24]])
    )  # the tenth label is in the second row
    assert largest_difference(same.networks, after.networks) == 0
    other, _ = feed(state, 3, contexts[9:15])
    assert largest_difference(other.networks, after.networks) > 1e-5
    final, third = feed(before, 4, contexts)
    assert (int(third.trainings), int(final.labelled.waiting)) == (2, 6)


def test_two_sets_at_once_are_each_judged_and_learned_on_their_own_also_across_the_end_of_the_ring(
    key,
):
    before = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(
        jax.random.split(jax.random.fold_in(key, 1), 30)
    )
    early = jnp.arange(20) < 10
    for offset in (0, 25):
        count = jnp.array(offset, jnp.int32)
        state = dataclasses.replace(
            before, labelled=before.labelled.replace(collected=count, used=count)
        )

        def feed(chosen, label, state=state):
            new, metrics = update(
                TEACHER, state, jax.random.fold_in(key, 2), rows(chosen, label, False)
            )
            return new.networks, int(metrics.trainings)

        networks, trainings = feed(contexts[:20], True)
        assert trainings == 2
        for label in (early, ~early):
            assert feed(contexts[:20], label)[1] == 1
        other, _ = feed(
            jnp.concatenate([contexts[:10], contexts[20:]]), True
        )  # only the second set differs
        assert largest_difference(other, networks) > 1e-5
        others = jnp.concatenate(
            [contexts[20:], contexts[10:20]]
        )  # a first set without label 1 teaches nothing
        assert (
            largest_difference(feed(others, ~early)[0], feed(contexts[:20], ~early)[0])
            == 0
        )


def test_more_labels_than_the_ring_holds_keep_the_newest_and_are_counted(key):
    teacher = TEACHER.replace(num_rollouts=32)
    contexts = jax.vmap(SPACE.sample_uniform)(
        jax.random.split(jax.random.fold_in(key, 1), 37)
    )
    state, metrics = update(
        teacher,
        start(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 2),
        rows(contexts, jnp.arange(37) < 5, False),
    )
    assert int(metrics.dropped_labels) == 5
    assert int(metrics.trainings) == 0  # the five positive ones are gone
    assert (int(state.labelled.collected), int(state.labelled.used)) == (37, 37)
    np.testing.assert_allclose(
        jnp.roll(state.labelled.context, -5, axis=0),
        scale(SPACE, contexts[5:]),
        rtol=1e-5,
    )
