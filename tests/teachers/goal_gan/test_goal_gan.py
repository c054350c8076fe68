"""GoalGAN: which contexts are played, how often, and what it learns."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.contexts import Gaussian
from spjax.episodes import Attempt
from spjax.teachers.goal_gan.base import scale, unscale
from spjax.teachers.goal_gan.step_based import GoalGAN, Source
from tests.probe import Probe
from tests.teachers.checks import check
from tests.teachers.goal_gan.made_up import (
    SPACE,
    TEACHER,
    UNEQUAL,
    assign,
    draws,
    largest_difference,
    many,
    rows,
    start,
    update,
    with_successes,
)


def test_the_bounds_become_plus_and_minus_a_half():
    corners = jnp.array([UNEQUAL.lower, UNEQUAL.upper, (3.0, 0.125)])
    np.testing.assert_allclose(
        scale(UNEQUAL, corners), [[-0.5, -0.5], [0.5, 0.5], [0, 0]], atol=1e-5
    )
    np.testing.assert_allclose(
        unscale(UNEQUAL, scale(UNEQUAL, corners)), corners, rtol=1e-5
    )


@pytest.mark.parametrize("success", [False, True])
def test_a_generated_context_is_played_twice_in_a_row(key, success):
    state = start(jax.random.fold_in(key, 0))
    last = Attempt(TEACHER.ticket(SPACE), jnp.zeros(2), jnp.asarray(True))
    history = []
    for number in range(1, 5):
        context, ticket = assign(TEACHER, state, jax.random.fold_in(key, number), last)
        history.append(
            (
                context,
                int(ticket.source),
                int(ticket.attempt),
                bool(ticket.first_success),
            )
        )
        last = Attempt(ticket, context, jnp.asarray(success))
    contexts, sources, attempts, first = zip(*history, strict=True)
    assert attempts == (1, 2, 1, 2)
    assert first == (False, success, False, success)
    assert set(sources) == {Source.GENERATOR}
    np.testing.assert_array_equal(contexts[0], contexts[1])
    np.testing.assert_array_equal(contexts[2], contexts[3])
    assert (contexts[1] != contexts[2]).all()


def test_a_context_of_the_success_buffer_is_played_once(key):
    state = with_successes(start(jax.random.fold_in(key, 0)), [(1.0, 3.0)])
    teacher = TEACHER.replace(success_fraction=1.0, noise=0.01)
    last = Attempt(teacher.ticket(SPACE), jnp.zeros(2), jnp.asarray(False))
    contexts = []
    for number in range(1, 4):
        context, ticket = assign(teacher, state, jax.random.fold_in(key, number), last)
        assert (int(ticket.source), int(ticket.attempt)) == (Source.SUCCESSES, 1)
        last = Attempt(ticket, context, jnp.asarray(True))
        contexts.append(context)
    np.testing.assert_allclose(contexts, np.tile([1.0, 3.0], (3, 1)), atol=0.4)
    assert len(np.unique(contexts, axis=0)) == 3


@pytest.mark.slow
def test_in_a_rollout_each_slot_plays_its_contexts_in_pairs(key):
    env, key_init, key_slots, key_steps = Probe(), *jax.random.split(key, 3)
    space = env.context_space
    state = start(key_init, TEACHER, space)

    def assign_probe(key, last):
        return TEACHER.assign(state, key, space, last)

    slots = init_slots(env, key_slots, 3, assign_probe, TEACHER.ticket(space))
    act = lambda key, observation: (jnp.zeros(1), ())  # noqa: E731
    _, _, episodes, _ = rollout(env, key_steps, slots, act, assign_probe, 6, 1.0)
    contexts = np.asarray(episodes.context).reshape(6, 3)
    np.testing.assert_array_equal(
        episodes.ticket.attempt.reshape(6, 3)[:, 0], [1, 2, 1, 2, 1, 2]
    )
    np.testing.assert_array_equal(contexts[0::2], contexts[1::2])
    assert len(np.unique(contexts)) == 9
    state, metrics = update(TEACHER, state, jax.random.fold_in(key, 9), episodes)
    assert int(metrics.labelled) == 9


@pytest.mark.slow
def test_the_success_buffer_is_sampled_as_often_as_asked_and_only_where_it_has_entries(
    key,
):
    teacher = TEACHER.replace(success_fraction=0.3, noise=0.0)
    empty = start(jax.random.fold_in(key, 0))
    _, source = draws(teacher.replace(success_fraction=1.0), empty, many(key))
    assert (source == Source.GENERATOR).all()
    entries = jnp.array([(1.0, 3.0), (-2.0, 5.0), (3.5, 7.0)])
    contexts, source = draws(teacher, with_successes(empty, entries), many(key))
    replayed = source == Source.SUCCESSES
    assert float(replayed.mean()) == pytest.approx(0.3, abs=0.03)
    shares = (contexts[replayed][:, None] == entries[None]).all(-1).mean(0)
    np.testing.assert_allclose(shares, [1 / 3] * 3, atol=0.06)
    assert len(np.unique(contexts[~replayed], axis=0)) > 900  # of 1024 proposals
    sampled = jax.vmap(lambda k: teacher.sample(empty, k, SPACE))(many(key))
    np.testing.assert_array_equal(sampled, draws(teacher, empty, many(key))[0])


def test_noise_is_a_fraction_of_each_width_and_contexts_stay_inside_the_bounds(key):
    teacher = TEACHER.replace(success_fraction=1.0, noise=0.05)
    state = start(jax.random.fold_in(key, 0), teacher, UNEQUAL)
    contexts, _ = draws(teacher, with_successes(state, [(3.0, 0.125)]), many(key))
    np.testing.assert_allclose(contexts.std(0), [0.05 * 8, 0.05 * 0.05], rtol=0.05)
    np.testing.assert_allclose(contexts.mean(0), [3.0, 0.125], atol=0.02)
    contexts, _ = draws(teacher, with_successes(state, [UNEQUAL.upper]), many(key))
    upper = np.array(UNEQUAL.upper, np.float32)
    assert (np.asarray(contexts) <= upper).all()
    assert (np.asarray(contexts) == upper).mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
def test_pre_training_starts_from_the_initial_distribution_unless_contexts_start_at_the_target(
    key,
):
    teacher = GoalGAN(noise=0.0, initial=Gaussian.from_std((-2.5, 1.5), (0.75, 0.5)))
    state = start(jax.random.fold_in(key, 0), teacher)
    np.testing.assert_allclose(state.proposals.mean(0), [-2.5, 1.5], atol=1.2)
    assert ((state.proposals.std(0) > 0.2) & (state.proposals.std(0) < 1.5)).all()
    never = start(jax.random.fold_in(key, 0), teacher.replace(pretrain_iterations=0))
    without = start(jax.random.fold_in(key, 0), teacher.replace(start="target"))
    assert largest_difference(never, without) == 0
    assert (
        jnp.abs(never.proposals.mean(0) - jnp.array([-2.5, 1.5])) > 1.5
    ).all()  # untrained: about the centre
    assert largest_difference(state.networks, never.networks) > 0.01


@pytest.mark.slow
def test_seed_zero_twice_is_the_same_and_another_seed_is_not():
    contexts = jnp.linspace(0.6, 4.0, 20).reshape(10, 2)

    def run(seed):
        key_init, key_update = jax.random.split(jax.random.key(seed))
        return update(
            TEACHER, start(key_init), key_update, rows(contexts, True, False)
        )[0]

    assert largest_difference(run(0), run(0)) == 0
    assert largest_difference(run(0).networks, run(1).networks) > 0.1


@pytest.mark.slow
def test_lanes_of_a_batch_equal_single_runs_and_an_idle_lane_keeps_its_bits(key):
    keys = jax.random.split(jax.random.fold_in(key, 0), 4)
    states = [start(keys[0]), start(keys[1]), start(keys[2]), start(keys[3])]
    teachers = [
        TEACHER.replace(num_rollouts=n, learning_rate=r)
        for n, r in ((10, 1e-2), (10, 1e-2), (5, 1e-3), (20, 1e-3))
    ]
    contexts = jax.vmap(SPACE.sample_uniform)(
        jax.random.split(jax.random.fold_in(key, 1), 12)
    )
    data = [
        rows(contexts, label, False) for label in (True, False, True, True)
    ]  # trained, skipped, twice, not due

    def stacked(trees):
        return jax.tree.map(
            lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees
        )

    batch, metrics = jax.jit(jax.vmap(update))(
        stacked(teachers), stacked(states), many(key, 4), stacked(data)
    )
    np.testing.assert_array_equal(metrics.trainings, [1, 0, 2, 0])
    for lane in range(4):
        single, _ = update(teachers[lane], states[lane], many(key, 4)[lane], data[lane])
        here = jax.tree.map(lambda leaf, lane=lane: leaf[lane], batch)
        assert largest_difference(here, single) < 1e-5
        if lane in (1, 3):
            assert largest_difference(here.networks, states[lane].networks) == 0


def test_changing_a_traced_setting_compiles_nothing_new(key):
    state = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(
        jax.random.split(jax.random.fold_in(key, 1), 12)
    )
    step = jax.jit(
        lambda t, s, k, r: t.update(s, k, r, lambda observation: observation[:, 0])
    )
    for number, change in enumerate(
        (
            {},
            {"noise": 0.2},
            {"num_rollouts": 7},
            {"train_iterations": 9},
            {"learning_rate": 0.1},
        )
    ):
        step(
            TEACHER.replace(**change),
            state,
            jax.random.fold_in(key, 2 + number),
            rows(contexts, True, False),
        )
    assert step._cache_size() == 1


@pytest.mark.slow
def test_after_ten_rounds_without_a_good_context_a_ring_of_two_good_arcs_is_learned(
    key,
):
    teacher = GoalGAN(
        noise=0.05,
        num_rollouts=100,
        initial=Gaussian.from_std((0.0, 4.25), (2.0, 1.875)),
    )
    before = state = start(jax.random.fold_in(key, 0), teacher)
    for number in range(10):
        contexts = jax.vmap(SPACE.sample_uniform)(
            jax.random.split(jax.random.fold_in(key, 1 + number), 100)
        )
        state, _ = update(
            teacher,
            state,
            jax.random.fold_in(key, 100 + number),
            rows(contexts, False, False, total=200),
        )
    assert largest_difference(state.networks, before.networks) == 0
    for number in range(10, 15):
        contexts = jax.vmap(SPACE.sample_uniform)(
            jax.random.split(jax.random.fold_in(key, 1 + number), 200)
        )
        place = scale(SPACE, contexts)
        good = (jnp.abs(jnp.linalg.norm(place, axis=-1) - 0.3) < 0.06) & (
            jnp.abs(place[:, 0]) > 0.12
        )
        state, metrics = update(
            teacher,
            state,
            jax.random.fold_in(key, 100 + number),
            rows(contexts, good, False, total=200),
        )
        assert int(metrics.trainings) == 2
    contexts, _ = draws(
        teacher, state, jax.random.split(jax.random.fold_in(key, 200), 1000)
    )
    place = scale(SPACE, contexts)
    near = jnp.abs(jnp.linalg.norm(place, axis=-1) - 0.3) < 0.06 + 0.1
    assert (place.std(0) >= 0.05).all()
    assert float((near & (place[:, 0] < -0.02)).mean()) > 0.2
    assert float((near & (place[:, 0] > 0.02)).mean()) > 0.2
    assert float(near.mean()) > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_rollouts": 0}, "teacher.num_rollouts must be at least 1, got 0"),
        (
            {"num_rollouts": 33},
            "teacher.num_rollouts must be at most label_capacity = 32, got 33",
        ),
        (
            {"train_iterations": 2.5},
            "teacher.train_iterations must be a whole number, got 2.5",
        ),
        (
            {"generator_hidden": (8, 0)},
            "teacher.generator_hidden must be at least 1, got 0",
        ),
        (
            {"success_fraction": 1.5},
            "teacher.success_fraction must lie in [0, 1], got 1.5",
        ),
        ({"noise": -0.1}, "teacher.noise must be at least 0, got -0.1"),
        ({"start": "middle"}, "teacher.start must be initial or target, got 'middle'"),
        (
            {"initial": Gaussian.from_std((0.0, 9.0), (1.0, 1.0))},
            "teacher.initial.mean: gate width = 9 lies outside its bounds [0.5, 8] m",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(TEACHER.replace(**change), SPACE)
