"""SAGG-RIAC: interest and splits by hand and against lists of regions, where contexts come from, and what is forgotten."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.rollout import Episodes
from spjax.contexts import ContextSpace
from spjax.teachers.regions import best_cut
from spjax.teachers.sagg_riac import SAGGRIAC

SPACE = ContextSpace(("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0))
TEACHER = SAGGRIAC(
    candidates=10, region_capacity=64, sample_capacity=1000, split_window=64, max_goals=20, max_history=10
)
ROWS = 60  # of an update
UNBOUNDED = np.finfo(np.float32).max


@jax.jit
def advance(teacher, state, key, contexts, rewards, mask):
    rows = Episodes(
        mask=mask,
        context=contexts,
        first_observation=jnp.zeros((rewards.size, 0)),
        episode_return=rewards,
        discounted_return=rewards,
        length=jnp.ones(rewards.shape, jnp.int32),
        success=mask,
        ticket=(),
    )
    return teacher.update(state, key, rows, lambda observation: observation[:, 0])


@functools.partial(jax.jit, static_argnames="count")
def propose(teacher, state, key, count):
    return teacher.batch(state, key, SPACE, count)[0]


def learn(teacher, state, key, contexts, rewards, mask=None):
    """Runs one update with these rollouts, in rows of which only some are real."""
    place = np.arange(len(rewards)) if mask is None else np.flatnonzero(mask)
    padded, returns, real = np.full((ROWS, 2), np.nan), np.full(ROWS, np.nan), np.zeros(ROWS, bool)
    padded[place], returns[place], real[place] = contexts, rewards, True
    return advance(teacher, state, key, *(jnp.asarray(rows, jnp.float32) for rows in (padded, returns)), real)


def begin(key, teacher=TEACHER):
    return teacher.init(key, SPACE, 0)


def uniform(seed, count):
    return np.random.default_rng(seed).uniform(SPACE.lower, SPACE.upper, (count, 2)).astype(np.float32)


def feed(key, teacher, contexts, rewards, parts):
    """Returns the state after these rollouts, split into updates at `parts`."""
    state = begin(jax.random.fold_in(key, 0), teacher)
    for number, rows in enumerate(np.split(np.arange(len(rewards)), parts)):
        state, metrics = learn(teacher, state, jax.random.fold_in(key, 1 + number), contexts[rows], rewards[rows])
    return state, metrics


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
        self.lower, self.upper = np.asarray(state.regions.lower), np.asarray(state.regions.upper)

    def add(self, context, competence):
        home = [((lower < context) & (context <= upper)).all() for lower, upper in self.boxes].index(True)
        self.lists[home].append((context, competence))
        if len(self.lists[home]) > self.max_goals:
            self.split(home)

    def split(self, home):
        """The next new region has one bound that its parent has not."""
        new, (lower, upper) = len(self.boxes), self.boxes[home]
        dimension = int(np.flatnonzero(self.lower[:, new] != lower)[0])
        threshold = self.lower[dimension, new]
        assert lower[dimension] < threshold < upper[dimension]
        beyond = [sample for sample in self.lists[home] if sample[0][dimension] > threshold]
        rest = [sample for sample in self.lists[home] if sample[0][dimension] <= threshold]
        assert beyond
        assert rest
        self.lists[home] = rest
        self.lists.append(beyond)
        self.boxes.append((np.where(np.arange(2) == dimension, threshold, lower), upper))
        self.boxes[home] = (lower, np.where(np.arange(2) == dimension, threshold, upper))


def sizes(state):
    return np.asarray(state.regions.size)[: int(state.regions.count)]


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([7.0], 0.0),
        ([1.0, 4.0], 1.5),  # (4 - 1) / 2
        ([9.0, 1.0, 4.0], 1.5),  # an odd number: the oldest is left out
        ([1.0, 2.0, 5.0, 8.0], 2.5),  # (13 - 3) / 4
        ([8.0, 5.0, 2.0, 1.0], 2.5),
        ([50.0, 60.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0], 0.5),  # only the newest ten
    ],
)
def test_interest_is_the_change_between_the_halves_of_the_window(key, rewards, expected):
    count = len(rewards)
    state, metrics = feed(key, TEACHER, uniform(0, count), np.array(rewards), [])
    assert interest(rewards, 10) == expected
    np.testing.assert_allclose(state.summary.interest[0], expected, rtol=1e-6)
    assert float(metrics.largest_interest) == pytest.approx(expected)
    np.testing.assert_array_equal(state.summary.interest[1:], 0)


def test_the_best_cut_is_the_candidate_with_the_largest_product_of_sizes_and_difference_of_interests(key):
    generator = np.random.default_rng(1)
    contexts = uniform(2, 40).T
    rewards = np.where(contexts[0] > 1, np.arange(40.0), 3.0) + generator.normal(size=40)
    mask = generator.random(40) < 0.8
    lower, upper = (np.asarray(bound, np.float32) for bound in (SPACE.lower, SPACE.upper))

    def score(dimension, threshold):
        beyond, rest = (
            rewards[mask & (contexts[dimension] > threshold)],
            rewards[mask & (contexts[dimension] <= threshold)],
        )
        return len(beyond) * len(rest) * abs(interest(beyond, 10) - interest(rest, 10))

    found, choose = [], jax.jit(functools.partial(best_cut, max_history=10, candidates=50))
    for number in range(20):
        cut = choose(jax.random.fold_in(key, number), contexts, rewards, mask, lower, upper)
        key_dimension, key_threshold = jax.random.split(jax.random.fold_in(key, number))
        dimensions = np.asarray(jax.random.randint(key_dimension, (50,), 0, 2))
        thresholds = (
            lower[dimensions] + np.asarray(jax.random.uniform(key_threshold, (50,))) * (upper - lower)[dimensions]
        )
        scores = [score(*candidate) for candidate in zip(dimensions, thresholds, strict=True)]
        best = int(np.argmax(scores))
        assert bool(cut.found)
        assert int(cut.dimension) == dimensions[best]
        np.testing.assert_allclose(cut.threshold, thresholds[best], rtol=1e-6)
        found.append(int(cut.dimension))
    assert np.mean(np.array(found) == 0) > 0.7  # progress depends on the position


def test_regions_are_split_at_the_very_sample_that_is_one_too_many(key):
    contexts = uniform(3, 350)
    rewards = (contexts[:, 0] * np.linspace(0, 1, 350)).astype(np.float32)
    state, metrics = feed(key, TEACHER, contexts, rewards, [20, 21, 22, 80, 130, 190, 250, 310])
    reference = Reference(state, 20)
    for sample in zip(contexts, rewards, strict=True):
        reference.add(*sample)
    assert int(metrics.regions) == len(reference.lists) == int(state.regions.count) > 17
    for region, (samples, (lower, upper)) in enumerate(zip(reference.lists, reference.boxes, strict=True)):
        np.testing.assert_array_equal(state.regions.lower[:, region], lower)
        np.testing.assert_array_equal(state.regions.upper[:, region], upper)
        here = np.flatnonzero(np.asarray(state.samples.region) == region)
        np.testing.assert_array_equal(contexts[here], [context for context, _ in samples])
        np.testing.assert_array_equal(np.asarray(state.samples.rank)[here], np.arange(len(samples)))
        assert int(state.regions.size[region]) == len(samples) <= 20
        competences = [competence for _, competence in samples]
        np.testing.assert_allclose(state.summary.interest[region], interest(competences, 10), rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(state.summary.lowest[:, region], samples[int(np.argmin(competences))][0])
    assert int(metrics.overfull_regions) == int(metrics.dropped_samples) == 0


def test_masked_rows_and_rewards_that_are_not_finite_change_nothing(key):
    contexts, rewards = uniform(4, 30), np.arange(30.0) ** 2
    plain, _ = learn(TEACHER, begin(jax.random.fold_in(key, 0)), jax.random.fold_in(key, 1), contexts, rewards)
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


def halves(key, left, right):
    """Returns a state of two regions, left and right of 0, with these interests; both hold samples."""
    state = begin(key)
    regions = state.regions.replace(
        lower=state.regions.lower.at[:, 1].set(jnp.array([0.0, -jnp.inf])),
        upper=state.regions.upper.at[0, 0].set(0.0),
        count=jnp.array(2, jnp.int32),
    )
    summary = state.summary.replace(
        interest=state.summary.interest.at[:2].set(jnp.array([left, right])),
        lowest=state.summary.lowest.at[:, :2].set(jnp.array([[-1.0, 3.95], [4.0, 7.9]])),
    )
    return state.replace(regions=regions, summary=summary)


def test_an_iteration_is_seventy_percent_mode_one_twenty_uniform_and_ten_near_the_lowest_competence(key):
    state = halves(jax.random.fold_in(key, 0), 1.0, 3.0)  # all of mode 1 and 3 on the right
    batches = np.stack([propose(TEACHER, state, jax.random.fold_in(key, 1 + n), 50) for n in range(40)])
    interesting, everywhere, lowest = batches[:, :35], batches[:, 35:45].reshape(-1, 2), batches[:, 45:].reshape(-1, 2)
    assert (interesting[..., 0] > 0).all()
    np.testing.assert_allclose(interesting.reshape(-1, 2).mean(0), [2.0, 4.25], atol=4 * 2.2 / np.sqrt(1400))
    np.testing.assert_allclose(everywhere.mean(0), [0.0, 4.25], atol=4 * 2.3 / np.sqrt(400))
    np.testing.assert_allclose(np.median(lowest, 0), [3.95, 7.9], atol=0.03)
    assert (np.abs(lowest - [3.95, 7.9]) < 0.5).all()
    assert (lowest <= SPACE.upper).all()
    assert (lowest[:, 0] == 4.0).mean() == pytest.approx(0.31, abs=0.13)  # P(N(0, 0.1) > 0.05), clipped
    odd = np.stack([propose(TEACHER, state, jax.random.fold_in(key, 100 + n), 16) for n in range(10)])
    assert (odd[:, :12, 0] > 0).all()  # int(3.2) and int(1.6) in modes 2 and 3
    assert (odd[:, 12:15, 0] < 0).any(0).all()
    assert (np.abs(odd[:, 15] - [3.95, 7.9]) < 0.5).all()


def test_regions_are_drawn_in_proportion_to_their_interest_above_the_lowest(key):
    state = halves(jax.random.fold_in(key, 0), 1.0, 3.0)
    third = state.regions.replace(  # (2, inf] of the right half, of interest 2
        lower=state.regions.lower.at[:, 2].set(jnp.array([2.0, -jnp.inf])),
        upper=state.regions.upper.at[0, 1].set(2.0),
        count=jnp.array(3, jnp.int32),
    )
    state = state.replace(regions=third, summary=state.summary.replace(interest=state.summary.interest.at[2].set(2.0)))
    teacher = TEACHER.replace(uniform_fraction=0.0, lowest_fraction=0.0)
    drawn = np.asarray(propose(teacher, state, jax.random.fold_in(key, 1), 4000))[:, 0]
    shares = np.histogram(drawn, [-4, 0, 2, 4])[0] / 4000
    np.testing.assert_allclose(shares, [0, 2 / 3, 1 / 3], atol=0.03)


def test_single_draws_take_each_mode_with_its_chance(key):
    state = halves(jax.random.fold_in(key, 0), 1.0, 3.0)
    keys = jax.random.split(jax.random.fold_in(key, 1), 4000)
    drawn = np.asarray(jax.vmap(lambda k: TEACHER.sample(state, k, SPACE))(keys))
    assert (drawn[:, 0] <= 0).mean() == pytest.approx(0.1, abs=0.02)
    near = (np.abs(drawn - [3.95, 7.9]) < 0.3).all(1).mean()
    assert near == pytest.approx(0.1 + 0.9 * 0.35 * 0.4 / (8 * 7.5), abs=0.025)


@pytest.mark.parametrize("interests", [None, (2.0, 2.0)])
def test_one_region_and_equal_interests_give_uniform_contexts(key, interests):
    state = begin(jax.random.fold_in(key, 0)) if interests is None else halves(jax.random.fold_in(key, 0), *interests)
    drawn = np.asarray(propose(TEACHER, state, jax.random.fold_in(key, 1), 4000))
    shares = np.histogramdd(drawn, bins=(4, 4), range=list(zip(SPACE.lower, SPACE.upper, strict=True)))[0] / 4000
    np.testing.assert_allclose(shares, 1 / 16, atol=4 * np.sqrt(1 / 16 / 4000))


def test_constant_rewards_split_regions_but_leave_contexts_uniform_and_everything_finite(key):
    contexts = uniform(5, 300)
    state, metrics = feed(key, TEACHER, contexts, np.full(300, 100.7), np.arange(50, 300, 50))
    assert int(metrics.regions) > 15
    assert float(state.summary.interest.max()) == 0
    assert np.isnan(metrics.largest_chance)
    proposed = np.asarray(propose(TEACHER, state, jax.random.fold_in(key, 99), 4000))
    np.testing.assert_allclose(proposed.mean(0), [0.0, 4.25], atol=0.15)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


def test_coinciding_contexts_are_not_split_and_the_next_different_one_is(key):
    contexts = np.tile([1.0, 2.0], (70, 1))
    state, metrics = feed(key, TEACHER, contexts, np.arange(70.0), [50])
    assert (int(metrics.regions), int(metrics.overfull_regions)) == (1, 1)
    state, metrics = learn(TEACHER, state, jax.random.fold_in(key, 9), np.array([[-3.9, 7.9]]), np.zeros(1))
    assert (int(metrics.regions), sizes(state).sum()) == (2, 71)
    assert set(sizes(state)) == {1, 70}
    np.testing.assert_array_equal(np.sort(np.asarray(state.samples.rank)[:71])[-2:], [68, 69])


def test_without_room_for_a_region_the_old_ones_grow(key):
    contexts = uniform(6, 300)
    state, metrics = feed(key, TEACHER.replace(max_goals=2), contexts, contexts[:, 0], np.arange(50, 300, 50))
    assert int(metrics.regions) == 64
    assert sizes(state).sum() == 300
    assert int(metrics.overfull_regions) == (sizes(state) > 2).sum() > 0


def test_more_samples_than_there_is_room_for_push_out_the_oldest_and_are_counted(key):
    contexts, rewards = uniform(7, 1090), np.random.default_rng(7).normal(size=1090).astype(np.float32)
    state, metrics = feed(key, TEACHER.replace(max_goals=60), contexts, rewards, [*range(60, 1040, 60), 1040])
    assert (int(metrics.samples), int(metrics.dropped_samples)) == (1000, 50)
    contexts, rewards, region = contexts[90:], rewards[90:], np.asarray(state.samples.region)
    np.testing.assert_array_equal(state.samples.context.T, contexts)
    np.testing.assert_array_equal(state.samples.competence, rewards)
    np.testing.assert_array_equal(sizes(state), np.bincount(region, minlength=int(state.regions.count)))
    assert len(sizes(state)) > 16
    for number in range(len(sizes(state))):
        here = np.flatnonzero(region == number)
        np.testing.assert_array_equal(np.asarray(state.samples.rank)[here], np.arange(len(here)))
        np.testing.assert_allclose(state.summary.interest[number], interest(rewards[here], 10), rtol=1e-4, atol=1e-6)


def test_contexts_come_from_where_the_competence_changes(key):
    teacher = TEACHER.replace(max_goals=40, max_history=30)

    def competence(contexts, number):
        """Grows from iteration to iteration in the corner of positions above 1 and widths above 4, else stands still."""
        return np.where((contexts > [1.0, 4.0]).all(1), number, 20.0)

    state, share = begin(jax.random.fold_in(key, 0), teacher), []
    for number in range(20):
        contexts = np.asarray(propose(teacher, state, jax.random.fold_in(key, 2 * number + 1), 50))
        share.append((contexts > [1.0, 4.0]).all(1).mean())
        state, _ = learn(
            teacher, state, jax.random.fold_in(key, 2 * number + 2), contexts, competence(contexts, number)
        )
    assert np.mean(share[:2]) == pytest.approx(0.2, abs=0.15)  # uniform: 3/8 * 4/7.5
    assert np.mean(share[-5:]) > 0.5  # at most about 0.84


def test_seed_zero_gives_the_same_curriculum_twice_and_another_seed_a_different_one():
    contexts = uniform(8, 100)

    def play(seed):
        state, _ = feed(jax.random.key(seed), TEACHER, contexts, contexts[:, 0] ** 2, [50])
        return np.asarray(propose(TEACHER, state, jax.random.fold_in(jax.random.key(seed), 99), 50))

    np.testing.assert_array_equal(play(0), play(0))
    assert (play(0) != play(1)).all()


def test_lanes_of_a_batch_with_their_own_settings_equal_single_runs(key):
    contexts, rewards = uniform(9, 2 * ROWS), np.random.default_rng(9).normal(size=2 * ROWS).astype(np.float32)
    masks = np.arange(ROWS) < np.array([[60], [30], [7]])
    goals, history = [20, 10, 50], [10, 4, 20]
    first, second = jnp.asarray(contexts[:ROWS]), jnp.asarray(contexts[ROWS:])

    def run(max_goals, max_history, seed, mask):
        teacher = TEACHER.replace(max_goals=max_goals, max_history=max_history)
        keys = jax.random.split(jax.random.key(seed), 4)
        state, _ = advance(teacher, begin(keys[0], teacher), keys[1], first, jnp.asarray(rewards[:ROWS]), mask)
        state, metrics = advance(teacher, state, keys[2], second, jnp.asarray(rewards[ROWS:]), mask)
        return state, metrics, propose(teacher, state, keys[3], 50)

    batch = jax.jit(jax.vmap(run))(jnp.array(goals), jnp.array(history), jnp.arange(3), masks)
    for lane in range(3):
        single = run(goals[lane], history[lane], lane, masks[lane])
        found = jax.tree.map(lambda leaf: leaf[lane], batch)  # noqa: B023
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), found, single)
    counts = batch[1].regions.tolist()
    assert counts[0] > 5
    assert counts[1] > 5
    assert counts[2] == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_goals": 0}, "max_goals must be a whole number of at least 1"),
        ({"max_goals": 64}, "split_window must be more than max_goals = 64, got 64"),
        ({"max_goals": 50, "sample_capacity": 50}, "sample_capacity must be more than max_goals = 50, got 50"),
        ({"max_history": 11}, "max_history must be even"),
        ({"max_history": 0}, "max_history must be a whole number of at least 2"),
        ({"uniform_fraction": -0.1}, "uniform_fraction must lie in"),
        ({"uniform_fraction": 0.95}, "must be at most 1, got 1.05"),
        ({"std": -1.0}, "std must be finite and at least 0"),
        ({"candidates": 0}, "candidates must be a whole number"),
    ],
)
def test_impossible_settings_are_named(setting, message):
    TEACHER.check(SPACE)
    with pytest.raises(ValueError, match=message):
        TEACHER.replace(**setting).check(SPACE)
