"""SAGG-RIAC: where contexts come from, alone, in batches and in lanes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.teachers.checks import check
from tests.teachers.sagg_riac.made_up import (
    ROWS,
    SPACE,
    TEACHER,
    advance,
    begin,
    feed,
    learn,
    propose,
    uniform,
)


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
        lowest=state.summary.lowest.at[:, :2].set(
            jnp.array([[-1.0, 3.95], [4.0, 7.9]])
        ),
    )
    return state.replace(regions=regions, summary=summary)


def test_an_iteration_is_seventy_percent_mode_one_twenty_uniform_and_ten_near_the_lowest_competence(
    key,
):
    state = halves(
        jax.random.fold_in(key, 0), 1.0, 3.0
    )  # all of mode 1 and 3 on the right
    batches = np.stack(
        [propose(TEACHER, state, jax.random.fold_in(key, 1 + n), 50) for n in range(40)]
    )
    interesting, everywhere, lowest = (
        batches[:, :35],
        batches[:, 35:45].reshape(-1, 2),
        batches[:, 45:].reshape(-1, 2),
    )
    assert (interesting[..., 0] > 0).all()
    np.testing.assert_allclose(
        interesting.reshape(-1, 2).mean(0), [2.0, 4.25], atol=4 * 2.2 / np.sqrt(1400)
    )
    np.testing.assert_allclose(
        everywhere.mean(0), [0.0, 4.25], atol=4 * 2.3 / np.sqrt(400)
    )
    np.testing.assert_allclose(np.median(lowest, 0), [3.95, 7.9], atol=0.03)
    assert (np.abs(lowest - [3.95, 7.9]) < 0.5).all()
    assert (lowest <= SPACE.upper).all()
    assert (lowest[:, 0] == 4.0).mean() == pytest.approx(
        0.31, abs=0.13
    )  # P(N(0, 0.1) > 0.05), clipped
    odd = np.stack(
        [
            propose(TEACHER, state, jax.random.fold_in(key, 100 + n), 16)
            for n in range(10)
        ]
    )
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
    state = state.replace(
        regions=third,
        summary=state.summary.replace(interest=state.summary.interest.at[2].set(2.0)),
    )
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
    state = (
        begin(jax.random.fold_in(key, 0))
        if interests is None
        else halves(jax.random.fold_in(key, 0), *interests)
    )
    drawn = np.asarray(propose(TEACHER, state, jax.random.fold_in(key, 1), 4000))
    shares = (
        np.histogramdd(
            drawn, bins=(4, 4), range=list(zip(SPACE.lower, SPACE.upper, strict=True))
        )[0]
        / 4000
    )
    np.testing.assert_allclose(shares, 1 / 16, atol=4 * np.sqrt(1 / 16 / 4000))


def test_constant_rewards_split_regions_but_leave_contexts_uniform_and_everything_finite(
    key,
):
    contexts = uniform(5, 300)
    state, metrics = feed(
        key, TEACHER, contexts, np.full(300, 100.7), np.arange(50, 300, 50)
    )
    assert int(metrics.regions) > 15
    assert float(state.summary.interest.max()) == 0
    assert not bool(metrics.largest_chance.present)
    proposed = np.asarray(propose(TEACHER, state, jax.random.fold_in(key, 99), 4000))
    np.testing.assert_allclose(proposed.mean(0), [0.0, 4.25], atol=0.15)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


def test_contexts_come_from_where_the_competence_changes(key):
    teacher = TEACHER.replace(max_goals=40, max_history=30)

    def competence(contexts, number):
        """Grows from iteration to iteration in the corner of positions above 1 and widths above 4, else stands still."""
        return np.where((contexts > [1.0, 4.0]).all(1), number, 20.0)

    state, share = begin(jax.random.fold_in(key, 0), teacher), []
    for number in range(20):
        contexts = np.asarray(
            propose(teacher, state, jax.random.fold_in(key, 2 * number + 1), 50)
        )
        share.append((contexts > [1.0, 4.0]).all(1).mean())
        state, _ = learn(
            teacher,
            state,
            jax.random.fold_in(key, 2 * number + 2),
            contexts,
            competence(contexts, number),
        )
    assert np.mean(share[:2]) == pytest.approx(0.2, abs=0.15)  # uniform: 3/8 * 4/7.5
    assert np.mean(share[-5:]) > 0.5  # at most about 0.84


def test_seed_zero_gives_the_same_curriculum_twice_and_another_seed_a_different_one():
    contexts = uniform(8, 100)

    def play(seed):
        state, _ = feed(
            jax.random.key(seed), TEACHER, contexts, contexts[:, 0] ** 2, [50]
        )
        return np.asarray(
            propose(TEACHER, state, jax.random.fold_in(jax.random.key(seed), 99), 50)
        )

    np.testing.assert_array_equal(play(0), play(0))
    assert (play(0) != play(1)).all()


@pytest.mark.slow
def test_lanes_of_a_batch_with_their_own_settings_equal_single_runs(key):
    contexts, rewards = (
        uniform(9, 2 * ROWS),
        np.random.default_rng(9).normal(size=2 * ROWS).astype(np.float32),
    )
    masks = np.arange(ROWS) < np.array([[60], [30], [7]])
    goals, history = [20, 10, 50], [10, 4, 20]
    first, second = jnp.asarray(contexts[:ROWS]), jnp.asarray(contexts[ROWS:])

    def run(max_goals, max_history, seed, mask):
        teacher = TEACHER.replace(max_goals=max_goals, max_history=max_history)
        keys = jax.random.split(jax.random.key(seed), 4)
        state, _ = advance(
            teacher,
            begin(keys[0], teacher),
            keys[1],
            first,
            jnp.asarray(rewards[:ROWS]),
            mask,
        )
        state, metrics = advance(
            teacher, state, keys[2], second, jnp.asarray(rewards[ROWS:]), mask
        )
        return state, metrics, propose(teacher, state, keys[3], 50)

    batch = jax.jit(jax.vmap(run))(
        jnp.array(goals), jnp.array(history), jnp.arange(3), masks
    )
    for lane in range(3):
        single = run(goals[lane], history[lane], lane, masks[lane])
        found = jax.tree.map(lambda leaf: leaf[lane], batch)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
            found,
            single,
        )
    counts = batch[1].regions.tolist()
    assert counts[0] > 5
    assert counts[1] > 5
    assert counts[2] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_goals": 0}, "teacher.max_goals must be at least 1, got 0"),
        (
            {"max_goals": 64},
            "teacher.split_window must be more than max_goals = 64, got 64",
        ),
        (
            {"max_goals": 50, "sample_capacity": 50},
            "teacher.sample_capacity must be more than max_goals = 50, got 50",
        ),
        ({"max_history": 11}, "teacher.max_history must be even, got 11"),
        ({"max_history": 0}, "teacher.max_history must be at least 2, got 0"),
        (
            {"uniform_fraction": -0.1},
            "teacher.uniform_fraction must lie in [0, 1], got -0.1",
        ),
        (
            {"uniform_fraction": 0.95},
            "teacher.uniform_fraction + teacher.lowest_fraction must be at most 1, got 1.05",
        ),
        ({"std": -1.0}, "teacher.std must be at least 0, got -1.0"),
        ({"candidates": 0}, "teacher.candidates must be at least 1, got 0"),
    ],
)
def test_impossible_settings_are_named(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(TEACHER.replace(**change), SPACE)
