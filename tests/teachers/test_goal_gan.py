"""GoalGAN: who plays what twice, which label follows, what is remembered, and when the GAN is trained."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.rollout import Attempt, Episodes, init_slots, rollout
from spjax.contexts import ContextSpace
from spjax.teachers.gan_teacher import scale, unscale
from spjax.teachers.goal_gan import GoalGAN, GoalGANTicket, Source
from spjax.teachers.goal_sets import Successes, add_successes
from tests.probe import Probe

SPACE = ContextSpace(("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0))
UNEQUAL = ContextSpace(("far", "near"), ("m", "m"), (-1.0, 0.10), (7.0, 0.15))
TEACHER = GoalGAN(
    generator_hidden=(8, 8), discriminator_hidden=(8, 8), label_capacity=32, success_capacity=8, num_rollouts=10,
    train_iterations=5,
)  # fmt: skip


@jax.jit
def update(teacher, state, key, rows):
    return teacher.update(state, key, rows, lambda observation: observation[:, 0])


@jax.jit
def assign(teacher, state, key, last):
    return teacher.assign(state, key, SPACE, last)


@jax.jit
def draws(teacher, state, keys):
    """Returns contexts and their sources, of many slots that have not run yet."""
    never = Attempt(teacher.ticket(SPACE), jnp.zeros(2), jnp.asarray(False))
    contexts, tickets = jax.vmap(lambda k: teacher.assign(state, k, state.space, never))(keys)
    return contexts, tickets.source


def start(key, teacher=TEACHER, space=SPACE):
    return jax.jit(teacher.init, static_argnums=(1, 2))(key, space, 2)


def rows(contexts, first, second, source=Source.GENERATOR, attempt=2, mask=True, total=40):
    """Returns finished episodes with the given success of their first and of this attempt; masked rows follow them."""
    count = len(contexts)

    def fill(value, dtype):
        return jnp.zeros(total, dtype).at[:count].set(jnp.asarray(value, dtype))

    zeros = jnp.zeros(total)
    return Episodes(
        mask=fill(mask, bool),
        context=jnp.zeros((total, 2)).at[:count].set(jnp.asarray(contexts)),
        first_observation=jnp.zeros((total, 2)),
        episode_return=zeros,
        discounted_return=zeros,
        length=zeros.astype(jnp.int32),
        success=fill(second, bool),
        ticket=GoalGANTicket(fill(source, jnp.int32), fill(attempt, jnp.int32), fill(first, bool)),
    )


def with_successes(state, contexts):
    contexts = jnp.asarray(contexts, jnp.float32)
    stored = state.successes.context.at[: len(contexts)].set(contexts)
    return dataclasses.replace(state, successes=state.successes.replace(context=stored, count=jnp.array(len(contexts))))


def many(key, count=4000):
    """Returns keys, the same ones at each call, each time as new arrays: a key array may be used once."""
    return jax.random.split(jax.random.fold_in(key, 99), count)


def largest_difference(tree, other):
    return max(float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True))


def test_the_bounds_become_plus_and_minus_a_half():
    corners = jnp.array([UNEQUAL.lower, UNEQUAL.upper, (3.0, 0.125)])
    np.testing.assert_allclose(scale(UNEQUAL, corners), [[-0.5, -0.5], [0.5, 0.5], [0, 0]], atol=1e-5)
    np.testing.assert_allclose(unscale(UNEQUAL, scale(UNEQUAL, corners)), corners, rtol=1e-5)


@pytest.mark.parametrize("success", [False, True])
def test_a_generated_context_is_played_twice_in_a_row(key, success):
    state = start(jax.random.fold_in(key, 0))
    last = Attempt(TEACHER.ticket(SPACE), jnp.zeros(2), jnp.asarray(True))
    history = []
    for number in range(1, 5):
        context, ticket = assign(TEACHER, state, jax.random.fold_in(key, number), last)
        history.append((context, int(ticket.source), int(ticket.attempt), bool(ticket.first_success)))
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
    np.testing.assert_array_equal(episodes.ticket.attempt.reshape(6, 3)[:, 0], [1, 2, 1, 2, 1, 2])
    np.testing.assert_array_equal(contexts[0::2], contexts[1::2])
    assert len(np.unique(contexts)) == 9
    state, metrics = update(TEACHER, state, jax.random.fold_in(key, 9), episodes)
    assert int(metrics.labelled) == 9


def test_exactly_one_success_of_two_is_label_one_and_nothing_else_is_labelled(key):
    state = start(jax.random.fold_in(key, 0))
    contexts = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (-1.0, 5.0), (-2.0, 6.0), (-3.0, 7.0)]
    first = [False, True, False, True, True, True, True]
    second = [False, False, True, True, True, True, True]
    source = [Source.GENERATOR] * 5 + [Source.SUCCESSES, Source.GENERATOR]
    attempt, mask = [2, 2, 2, 2, 1, 1, 2], [True] * 6 + [False]
    state, metrics = update(
        TEACHER, state, jax.random.fold_in(key, 1), rows(contexts, first, second, source, attempt, mask)
    )
    assert int(state.labelled.collected) == int(metrics.labelled) == 4
    assert float(metrics.positive_fraction) == 0.5
    np.testing.assert_array_equal(state.labelled.label[:4], [0, 1, 1, 0])
    np.testing.assert_allclose(state.labelled.context[:4], scale(SPACE, jnp.array(contexts[:4])), rtol=1e-6)
    assert int(metrics.successes) == 1
    np.testing.assert_array_equal(state.successes.context[0], contexts[3])


def test_a_success_enters_the_buffer_only_at_a_distance_from_all_entries_and_while_there_is_room(key):
    state = start(jax.random.fold_in(key, 0))  # the diagonal is 10.966 m, so the distance 0.10966 m
    contexts = [(0.0, 4.0), (0.109, 4.0), (0.111, 4.0), (0.2, 4.0), (0.0, 4.11), (0.05, 4.05)]
    for number in (1, 2):
        state, metrics = update(TEACHER, state, jax.random.fold_in(key, number), rows(contexts, True, True))
        assert int(metrics.successes) == 3
        np.testing.assert_allclose(state.successes.context[:3], [contexts[0], contexts[2], contexts[4]], rtol=1e-6)
    more = [(-float(number % 4), 6.0) for number in range(20)] + [(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]
    state, metrics = update(TEACHER, state, jax.random.fold_in(key, 3), rows(more, True, True))
    assert int(metrics.successes) == 8
    assert int(metrics.dropped_successes) == 2
    np.testing.assert_array_equal(state.successes.context[3:], [more[0], more[1], more[2], more[3], (1.0, 1.0)])


def test_an_empty_buffer_takes_a_success_at_the_origin_too():
    origin = jnp.zeros((1, 2))
    successes, dropped = add_successes(Successes.empty(4, 2), jnp.array([True]), origin, jnp.array(0.1))
    assert (int(successes.count), int(dropped)) == (1, 0)


def test_a_training_without_a_positive_label_changes_no_bit_and_empties_the_set(key):
    before = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1), 12))
    state, metrics = update(TEACHER, before, jax.random.fold_in(key, 2), rows(contexts, True, True))
    assert int(metrics.trainings) == 0
    assert np.isnan(metrics.discriminator_loss)
    assert largest_difference(state.networks, before.networks) == 0
    assert int(state.labelled.waiting) == 2
    state, metrics = update(TEACHER, before, jax.random.fold_in(key, 2), rows(contexts, True, False))
    assert int(metrics.trainings) == 1
    assert largest_difference(state.networks.generator, before.networks.generator) > 1e-4
    assert float(metrics.generator_loss) > 0


def test_every_complete_set_of_labels_is_one_training_on_just_that_set(key):
    before = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1), 26))

    def feed(state, number, chosen, label=True):
        return update(TEACHER, state, jax.random.fold_in(key, number), rows(chosen, label, False))

    state, first = feed(before, 2, contexts[:8])
    assert (int(first.trainings), int(state.labelled.waiting)) == (0, 8)
    assert largest_difference(state.networks, before.networks) == 0
    after, second = feed(state, 3, contexts[8:14])
    assert (int(second.trainings), int(after.labelled.waiting)) == (1, 4)
    same, _ = feed(state, 3, jnp.concatenate([contexts[8:10], contexts[20:24]]))  # the tenth label is in the second row
    assert largest_difference(same.networks, after.networks) == 0
    other, _ = feed(state, 3, contexts[9:15])
    assert largest_difference(other.networks, after.networks) > 1e-5
    final, third = feed(before, 4, contexts)
    assert (int(third.trainings), int(final.labelled.waiting)) == (2, 6)


def test_two_sets_at_once_are_each_judged_and_learned_on_their_own_also_across_the_end_of_the_ring(key):
    before = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1), 30))
    early = jnp.arange(20) < 10
    for offset in (0, 25):
        count = jnp.array(offset, jnp.int32)
        state = dataclasses.replace(before, labelled=before.labelled.replace(collected=count, used=count))

        def feed(chosen, label, state=state):
            new, metrics = update(TEACHER, state, jax.random.fold_in(key, 2), rows(chosen, label, False))
            return new.networks, int(metrics.trainings)

        networks, trainings = feed(contexts[:20], True)
        assert trainings == 2
        for label in (early, ~early):
            assert feed(contexts[:20], label)[1] == 1
        other, _ = feed(jnp.concatenate([contexts[:10], contexts[20:]]), True)  # only the second set differs
        assert largest_difference(other, networks) > 1e-5
        others = jnp.concatenate([contexts[20:], contexts[10:20]])  # a first set without label 1 teaches nothing
        assert largest_difference(feed(others, ~early)[0], feed(contexts[:20], ~early)[0]) == 0


def test_more_labels_than_the_ring_holds_keep_the_newest_and_are_counted(key):
    teacher = TEACHER.replace(num_rollouts=32)
    contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1), 37))
    state, metrics = update(
        teacher,
        start(jax.random.fold_in(key, 0)),
        jax.random.fold_in(key, 2),
        rows(contexts, jnp.arange(37) < 5, False),
    )
    assert int(metrics.dropped_labels) == 5
    assert int(metrics.trainings) == 0  # the five positive ones are gone
    assert (int(state.labelled.collected), int(state.labelled.used)) == (37, 37)
    np.testing.assert_allclose(jnp.roll(state.labelled.context, -5, axis=0), scale(SPACE, contexts[5:]), rtol=1e-5)


def test_the_success_buffer_is_sampled_as_often_as_asked_and_only_where_it_has_entries(key):
    teacher = TEACHER.replace(success_fraction=0.3, noise=0.0)
    empty = start(jax.random.fold_in(key, 0))
    _, source = draws(teacher.replace(success_fraction=1.0), empty, many(key))
    assert (source == Source.GENERATOR).all()
    entries = jnp.array([(1.0, 3.0), (-2.0, 5.0), (3.5, 7.0)])
    contexts, source = draws(teacher, with_successes(empty, entries), many(key))
    replayed = source == Source.SUCCESSES
    assert float(replayed.mean()) == pytest.approx(0.3, abs=0.03)
    shares = (contexts[replayed][:, None] == entries).all(-1).mean(0)
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
    assert (contexts <= jnp.array(UNEQUAL.upper)).all()
    assert (contexts == jnp.array(UNEQUAL.upper)).mean() == pytest.approx(0.5, abs=0.03)


def test_pre_training_starts_from_the_initial_distribution_where_there_is_one(key):
    teacher = GoalGAN(noise=0.0, initial_mean=(-2.5, 1.5), initial_std=(0.75, 0.5))
    state = start(jax.random.fold_in(key, 0), teacher)
    np.testing.assert_allclose(state.proposals.mean(0), [-2.5, 1.5], atol=1.2)
    assert ((state.proposals.std(0) > 0.2) & (state.proposals.std(0) < 1.5)).all()
    never = start(jax.random.fold_in(key, 0), teacher.replace(pretrain_iterations=0))
    without = start(jax.random.fold_in(key, 0), teacher.replace(initial_mean=None, initial_std=None))
    assert largest_difference(never, without) == 0
    assert (jnp.abs(never.proposals.mean(0) - jnp.array([-2.5, 1.5])) > 1.5).all()  # untrained: about the centre
    assert largest_difference(state.networks, never.networks) > 0.01


def test_seed_zero_twice_is_the_same_and_another_seed_is_not():
    contexts = jnp.linspace(0.6, 4.0, 20).reshape(10, 2)

    def run(seed):
        key_init, key_update = jax.random.split(jax.random.key(seed))
        return update(TEACHER, start(key_init), key_update, rows(contexts, True, False))[0]

    assert largest_difference(run(0), run(0)) == 0
    assert largest_difference(run(0).networks, run(1).networks) > 0.1


def test_lanes_of_a_batch_equal_single_runs_and_an_idle_lane_keeps_its_bits(key):
    keys = jax.random.split(jax.random.fold_in(key, 0), 4)
    states = [start(keys[0]), start(keys[1]), start(keys[2]), start(keys[3])]
    teachers = [
        TEACHER.replace(num_rollouts=n, learning_rate=r) for n, r in ((10, 1e-2), (10, 1e-2), (5, 1e-3), (20, 1e-3))
    ]
    contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1), 12))
    data = [rows(contexts, label, False) for label in (True, False, True, True)]  # trained, skipped, twice, not due

    def stacked(trees):
        return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)

    batch, metrics = jax.jit(jax.vmap(update))(stacked(teachers), stacked(states), many(key, 4), stacked(data))
    np.testing.assert_array_equal(metrics.trainings, [1, 0, 2, 0])
    for lane in range(4):
        single, _ = update(teachers[lane], states[lane], many(key, 4)[lane], data[lane])
        here = jax.tree.map(lambda leaf, lane=lane: leaf[lane], batch)
        assert largest_difference(here, single) < 1e-5
        if lane in (1, 3):
            assert largest_difference(here.networks, states[lane].networks) == 0


def test_changing_a_traced_setting_compiles_nothing_new(key):
    state = start(jax.random.fold_in(key, 0))
    contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1), 12))
    step = jax.jit(lambda t, s, k, r: t.update(s, k, r, lambda observation: observation[:, 0]))
    for number, change in enumerate(
        ({}, {"noise": 0.2}, {"num_rollouts": 7}, {"train_iterations": 9}, {"learning_rate": 0.1})
    ):
        step(TEACHER.replace(**change), state, jax.random.fold_in(key, 2 + number), rows(contexts, True, False))
    assert step._cache_size() == 1


def test_after_ten_rounds_without_a_good_context_a_ring_of_two_good_arcs_is_learned(key):
    teacher = GoalGAN(noise=0.05, num_rollouts=100, initial_mean=(0.0, 4.25), initial_std=(2.0, 1.875))
    before = state = start(jax.random.fold_in(key, 0), teacher)
    for number in range(10):
        contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1 + number), 100))
        state, _ = update(
            teacher, state, jax.random.fold_in(key, 100 + number), rows(contexts, False, False, total=200)
        )
    assert largest_difference(state.networks, before.networks) == 0
    for number in range(10, 15):
        contexts = jax.vmap(SPACE.sample_uniform)(jax.random.split(jax.random.fold_in(key, 1 + number), 200))
        place = scale(SPACE, contexts)
        good = (jnp.abs(jnp.linalg.norm(place, axis=-1) - 0.3) < 0.06) & (jnp.abs(place[:, 0]) > 0.12)
        state, metrics = update(
            teacher, state, jax.random.fold_in(key, 100 + number), rows(contexts, good, False, total=200)
        )
        assert int(metrics.trainings) == 2
    contexts, _ = draws(teacher, state, jax.random.split(jax.random.fold_in(key, 200), 1000))
    place = scale(SPACE, contexts)
    near = jnp.abs(jnp.linalg.norm(place, axis=-1) - 0.3) < 0.06 + 0.1
    assert (place.std(0) >= 0.05).all()
    assert float((near & (place[:, 0] < -0.02)).mean()) > 0.2
    assert float((near & (place[:, 0] > 0.02)).mean()) > 0.2
    assert float(near.mean()) > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_rollouts": 0}, "teacher.num_rollouts must be a whole number of at least 1, got 0"),
        ({"num_rollouts": 33}, "teacher.num_rollouts must be at most label_capacity = 32, got 33"),
        ({"train_iterations": 2.5}, "teacher.train_iterations must be a whole number of at least 0, got 2.5"),
        ({"generator_hidden": (8, 0)}, "teacher.generator_hidden must be a whole number of at least 1, got 0"),
        ({"success_fraction": 1.5}, "teacher.success_fraction must lie in [0, 1], got 1.5"),
        ({"noise": -0.1}, "teacher.noise must be finite and at least 0, got -0.1"),
        ({"initial_mean": (0.0, 1.0)}, "teacher.initial_mean and teacher.initial_std must both be given, or neither"),
        ({"initial_mean": (0.0, 9.0), "initial_std": (1.0, 1.0)}, "gate width = 9 lies outside its bounds [0.5, 8] m"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(change, message):
    TEACHER.check(SPACE)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        TEACHER.replace(**change).check(SPACE)
    assert message in str(error.value)
