"""The regions of SAGG-RIAC: interest and splits by hand and against lists of regions, and what is forgotten."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.teachers.sagg_riac.regions import Regions, Samples, add, best_cut, summarise
from tests.teachers.sagg_riac.made_up import (
    SPACE,
    TEACHER,
    UNBOUNDED,
    begin,
    feed,
    learn,
    sizes,
    uniform,
)


def interest(rewards, max_history):
    """Returns the interest as defined, of competences in the order of their arrival."""
    h = min(max_history, len(rewards) // 2 * 2)
    newest = np.asarray(rewards, np.float64)[len(rewards) - h :]
    return abs(newest[h // 2 :].sum() - newest[: h // 2].sum()) / h if h else 0.0


class Reference:
    """Regions as lists of (context, competence), told where to cut by the regions of the teacher."""

    def __init__(self, state, max_goals):
        self.boxes = [(np.full(2, -UNBOUNDED), np.full(2, UNBOUNDED))]
        self.lists, self.max_goals = [[]], max_goals
        self.lower, self.upper = (
            np.asarray(state.regions.lower),
            np.asarray(state.regions.upper),
        )

    def add(self, context, competence):
        home = [
            ((lower < context) & (context <= upper)).all()
            for lower, upper in self.boxes
        ].index(True)
        self.lists[home].append((context, competence))
        if len(self.lists[home]) > self.max_goals:
            self.split(home)

    def split(self, home):
        """The next new region has one bound that its parent has not."""
        new, (lower, upper) = len(self.boxes), self.boxes[home]
        dimension = int(np.flatnonzero(self.lower[:, new] != lower)[0])
        threshold = self.lower[dimension, new]
        assert lower[dimension] < threshold < upper[dimension]
        beyond = [
            sample for sample in self.lists[home] if sample[0][dimension] > threshold
        ]
        rest = [
            sample for sample in self.lists[home] if sample[0][dimension] <= threshold
        ]
        assert beyond
        assert rest
        self.lists[home] = rest
        self.lists.append(beyond)
        self.boxes.append(
            (np.where(np.arange(2) == dimension, threshold, lower), upper)
        )
        self.boxes[home] = (
            lower,
            np.where(np.arange(2) == dimension, threshold, upper),
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([7.0], 0.0),
        ([1.0, 4.0], 1.5),  # (4 - 1) / 2
        ([9.0, 1.0, 4.0], 1.5),  # an odd number: the oldest is left out
        ([1.0, 2.0, 5.0, 8.0], 2.5),  # (13 - 3) / 4
        ([8.0, 5.0, 2.0, 1.0], 2.5),
        (
            [50.0, 60.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0],
            0.5,
        ),  # only the newest ten
    ],
)
def test_interest_is_the_change_between_the_halves_of_the_window(
    key, rewards, expected
):
    count = len(rewards)
    state, metrics = feed(key, TEACHER, uniform(0, count), np.array(rewards), [])
    assert interest(rewards, 10) == expected
    np.testing.assert_allclose(state.summary.interest[0], expected, rtol=1e-6)
    assert float(metrics.largest_interest) == pytest.approx(expected)
    np.testing.assert_array_equal(state.summary.interest[1:], 0)


def test_the_best_cut_is_the_candidate_with_the_largest_product_of_sizes_and_difference_of_interests(
    key,
):
    generator = np.random.default_rng(1)
    contexts = uniform(2, 40).T
    rewards = np.where(contexts[0] > 1, np.arange(40.0), 3.0) + generator.normal(
        size=40
    )
    mask = generator.random(40) < 0.8
    lower, upper = (
        np.asarray(bound, np.float32) for bound in (SPACE.lower, SPACE.upper)
    )

    def score(dimension, threshold):
        beyond, rest = (
            rewards[mask & (contexts[dimension] > threshold)],
            rewards[mask & (contexts[dimension] <= threshold)],
        )
        return len(beyond) * len(rest) * abs(interest(beyond, 10) - interest(rest, 10))

    found, choose = (
        [],
        jax.jit(functools.partial(best_cut, max_history=10, candidates=50)),
    )
    for number in range(20):
        cut = choose(
            jax.random.fold_in(key, number), contexts, rewards, mask, lower, upper
        )
        key_dimension, key_threshold = jax.random.split(jax.random.fold_in(key, number))
        dimensions = np.asarray(jax.random.randint(key_dimension, (50,), 0, 2))
        thresholds = (
            lower[dimensions]
            + np.asarray(jax.random.uniform(key_threshold, (50,)))
            * (upper - lower)[dimensions]
        )
        scores = [
            score(*candidate) for candidate in zip(dimensions, thresholds, strict=True)
        ]
        best = int(np.argmax(scores))
        assert bool(cut.found)
        assert int(cut.dimension) == dimensions[best]
        np.testing.assert_allclose(cut.threshold, thresholds[best], rtol=1e-6)
        found.append(int(cut.dimension))
    assert np.mean(np.array(found) == 0) > 0.7  # progress depends on the position


def test_regions_are_split_at_the_very_sample_that_is_one_too_many(key):
    contexts = uniform(3, 350)
    rewards = (contexts[:, 0] * np.linspace(0, 1, 350)).astype(np.float32)
    state, metrics = feed(
        key, TEACHER, contexts, rewards, [20, 21, 22, 80, 130, 190, 250, 310]
    )
    reference = Reference(state, 20)
    for sample in zip(contexts, rewards, strict=True):
        reference.add(*sample)
    assert int(metrics.regions) == len(reference.lists) == int(state.regions.count) > 17
    for region, (samples, (lower, upper)) in enumerate(
        zip(reference.lists, reference.boxes, strict=True)
    ):
        np.testing.assert_array_equal(state.regions.lower[:, region], lower)
        np.testing.assert_array_equal(state.regions.upper[:, region], upper)
        here = np.flatnonzero(np.asarray(state.samples.region) == region)
        np.testing.assert_array_equal(
            contexts[here], [context for context, _ in samples]
        )
        np.testing.assert_array_equal(
            np.asarray(state.samples.rank)[here], np.arange(len(samples))
        )
        assert int(state.regions.size[region]) == len(samples) <= 20
        competences = [competence for _, competence in samples]
        np.testing.assert_allclose(
            state.summary.interest[region],
            interest(competences, 10),
            rtol=1e-4,
            atol=1e-6,
        )
        np.testing.assert_array_equal(
            state.summary.lowest[:, region], samples[int(np.argmin(competences))][0]
        )
    assert int(metrics.overfull_regions) == int(metrics.dropped_samples) == 0


def test_masked_rows_and_rewards_that_are_not_finite_change_nothing(key):
    contexts, rewards = uniform(4, 30), np.arange(30.0) ** 2
    plain, _ = learn(
        TEACHER,
        begin(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 1),
        contexts,
        rewards,
    )
    spread, _ = learn(
        TEACHER,
        begin(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 1),
        contexts,
        rewards,
        np.arange(60) % 2 == 1,
    )
    jax.tree.map(np.testing.assert_array_equal, plain, spread)
    assert int(plain.regions.count) > 1
    rewards = np.concatenate([rewards, [np.nan, np.inf]])
    broken, _ = learn(
        TEACHER,
        begin(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 1),
        np.concatenate([contexts, contexts[:2]]),
        rewards,
    )
    jax.tree.map(np.testing.assert_array_equal, plain, broken)


def test_coinciding_contexts_are_not_split_and_the_next_different_one_is(key):
    contexts = np.tile([1.0, 2.0], (70, 1))
    state, metrics = feed(key, TEACHER, contexts, np.arange(70.0), [50])
    assert (int(metrics.regions), int(metrics.overfull_regions)) == (1, 1)
    state, metrics = learn(
        TEACHER, state, jax.random.fold_in(key, 9), np.array([[-3.9, 7.9]]), np.zeros(1)
    )
    assert (int(metrics.regions), sizes(state).sum()) == (2, 71)
    assert set(sizes(state)) == {1, 70}
    np.testing.assert_array_equal(
        np.sort(np.asarray(state.samples.rank)[:71])[-2:], [68, 69]
    )


def test_without_room_for_a_region_the_old_ones_grow(key):
    contexts = uniform(6, 300)
    state, metrics = feed(
        key,
        TEACHER.replace(max_goals=2),
        contexts,
        contexts[:, 0],
        np.arange(50, 300, 50),
    )
    assert int(metrics.regions) == 64
    assert sizes(state).sum() == 300
    assert int(metrics.overfull_regions) == (sizes(state) > 2).sum() > 0


def test_more_samples_than_there_is_room_for_push_out_the_oldest_and_are_counted(key):
    contexts, rewards = (
        uniform(7, 1090),
        np.random.default_rng(7).normal(size=1090).astype(np.float32),
    )
    state, metrics = feed(
        key,
        TEACHER.replace(max_goals=60),
        contexts,
        rewards,
        [*range(60, 1040, 60), 1040],
    )
    assert (int(metrics.samples), int(metrics.dropped_samples)) == (1000, 50)
    contexts, rewards, region = (
        contexts[90:],
        rewards[90:],
        np.asarray(state.samples.region),
    )
    np.testing.assert_array_equal(state.samples.context.T, contexts)
    np.testing.assert_array_equal(state.samples.competence, rewards)
    np.testing.assert_array_equal(
        sizes(state), np.bincount(region, minlength=int(state.regions.count))
    )
    assert len(sizes(state)) > 16
    for number in range(len(sizes(state))):
        here = np.flatnonzero(region == number)
        np.testing.assert_array_equal(
            np.asarray(state.samples.rank)[here], np.arange(len(here))
        )
        np.testing.assert_allclose(
            state.summary.interest[number],
            interest(rewards[here], 10),
            rtol=1e-4,
            atol=1e-6,
        )


@pytest.mark.slow
@pytest.mark.parametrize("worst", range(5))
def test_the_context_of_least_competence_is_found_in_every_place_of_a_full_memory(
    worst,
):
    contexts = np.random.default_rng(0).normal(size=(5, 2))
    competences = np.where(np.arange(5) == worst, -1.0, [3.0, 2.0, 4.0, 2.5, 3.5])
    samples, regions, dropped = add(
        Samples.empty(5, 2, 3),
        Regions.whole(3, 2),
        jnp.asarray(contexts),
        jnp.asarray(competences),
        jnp.ones(5, bool),
    )
    assert (int(dropped), int(samples.count)) == (0, 5)
    lowest = summarise(samples, regions, 4).lowest[:, 0]
    np.testing.assert_allclose(lowest, contexts[worst], rtol=1e-6)
