"""ALP-GMM: learning progress by hand and against a list, when a fit is made, and where tasks come from."""

import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import ContextSpace
from spjax.episodes import Episodes
from spjax.teachers.alp_gmm.mixture import Mixture
from spjax.teachers.alp_gmm.teacher import ALPGMM
from tests.teachers.checks import check

SPACE = ContextSpace(
    ("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0)
)
TEACHER = ALPGMM(
    max_components=3, store_capacity=1200, window_capacity=200, num_rollouts=25
)
ROWS = 200  # of an update
ROLLOUTS = "lie between max_components = 3 and window_capacity = 200"


def advance(teacher, state, key, contexts, returns, mask):
    """Runs one update with these rows."""
    rows = Episodes(
        mask=mask,
        context=contexts,
        first_observation=contexts,
        episode_return=jnp.full_like(returns, -99.0),
        discounted_return=returns,
        length=jnp.ones(returns.shape, jnp.int32),
        success=mask,
        ticket=(),
    )
    return teacher.update(state, key, rows, lambda observation: observation[:, 0])


@functools.partial(jax.jit, static_argnames=("count", "space"))
def draw(teacher, state, key, count, space):
    """Returns this many tasks."""
    return jax.vmap(lambda k: teacher.sample(state, k, space))(
        jax.random.split(key, count)
    )


@pytest.fixture(scope="module")
def update():
    """One compiled update for the whole module; it fails where a traced setting compiles it again."""

    return jax.jit(chex.assert_max_traces(n=2)(advance))  # raw and scaled distances


def learn(update, teacher, state, key, contexts, returns, mask=None):
    """Runs one update with these episodes, in rows of which only some are real."""
    count = len(returns)
    place = np.arange(count) if mask is None else np.flatnonzero(mask)
    padded, rewards, real = (
        np.full((ROWS, 2), np.nan),
        np.full(ROWS, np.nan),
        np.zeros(ROWS, bool),
    )
    padded[place], rewards[place], real[place] = contexts, returns, True
    return update(
        teacher,
        state,
        key,
        *(jnp.asarray(rows, jnp.float32) for rows in (padded, rewards)),
        real,
    )


def begin(key, teacher=TEACHER, space=SPACE):
    return teacher.init(key, space)


def progress(state, count):
    """Returns the learning progress of the newest episodes, oldest first."""
    number = int(state.episodes) - count + np.arange(count)
    return np.asarray(state.window)[number % TEACHER.window_capacity, -1]


def published_progress(contexts, returns, buffer_size):
    """Returns the learning progress of all episodes, from lists that are flushed and trimmed as published."""
    main, inserted, found = [], [], []
    for context, reward in zip(contexts, returns, strict=True):
        stored = main + inserted
        distance = [((context - c) ** 2).sum() for c, _ in stored]
        found.append(
            abs(reward - stored[int(np.argmin(distance))][1])
            if len(stored) > 5
            else 0.0
        )
        if len(inserted) == 500:
            main, inserted = (main + inserted)[-buffer_size:], []
        inserted.append((context, reward))
    return np.asarray(found)


def uniform(seed, count, space=SPACE):
    return (
        np.random.default_rng(seed)
        .uniform(space.lower, space.upper, (count, space.size))
        .astype(np.float32)
    )


def test_learning_progress_is_the_change_against_the_nearest_stored_context(
    update, key
):
    position = np.array([0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.9, 0.93, 3.4])
    contexts = np.stack([position, np.full(9, 4.0)], axis=1)
    returns = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 1.0, 3.5])
    keys = jax.random.split(key, 2)
    state, metrics = learn(update, TEACHER, begin(keys[0]), keys[1], contexts, returns)
    np.testing.assert_array_equal(progress(state, 9), [0, 0, 0, 0, 0, 0, 3.0, 4.0, 0.5])
    assert float(metrics.mean_alp.value) == pytest.approx(7.5 / 9)
    assert bool(metrics.mean_alp.present)
    assert not bool(metrics.aic.present)  # no fit fell due


def test_episodes_of_one_update_count_one_after_another_wherever_their_rows_are(
    update, key
):
    contexts, returns = uniform(0, 20), np.arange(20.0) ** 2
    keys = jax.random.split(key, 6)
    together, _ = learn(
        update,
        TEACHER,
        begin(keys[0]),
        keys[1],
        contexts,
        returns,
        mask=np.arange(ROWS) % 10 == 3,
    )
    apart = begin(keys[2])
    for number, part in enumerate(np.split(np.arange(20), [3, 11])):
        apart, _ = learn(
            update, TEACHER, apart, keys[3 + number], contexts[part], returns[part]
        )
    jax.tree.map(np.testing.assert_array_equal, together, apart)
    np.testing.assert_allclose(
        progress(apart, 20), published_progress(contexts, returns, 500), rtol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("buffer_size", [30, 600])
def test_the_store_is_trimmed_when_five_hundred_insertions_are_flushed(
    update, key, buffer_size
):
    contexts, returns = (
        uniform(1, 1800),
        np.random.default_rng(2).normal(size=1800).astype(np.float32),
    )
    teacher, keys, found = (
        TEACHER.replace(buffer_size=buffer_size),
        jax.random.split(key, 10),
        [],
    )
    state = begin(keys[9], teacher)
    for number, part in enumerate(np.split(np.arange(1800), 9)):
        state, _ = learn(
            update, teacher, state, keys[number], contexts[part], returns[part]
        )
        found.append(progress(state, 200))
    expected = published_progress(contexts, returns, buffer_size)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5, atol=1e-6)


def test_scaled_distances_make_the_curriculum_invariant_to_the_units_of_a_dimension(
    update, key
):
    shrink = np.array(
        [1.0, 2.0**-7]
    )  # ranges of 8 m and, for the second dimension, 0.06 m instead of 7.5 m
    lower, upper = (
        tuple((np.asarray(bound) * shrink).tolist())
        for bound in (SPACE.lower, SPACE.upper)
    )
    narrow = ContextSpace(SPACE.names, SPACE.units, lower, upper)
    contexts = np.tile([0.0, 4.0], (40, 1)) + np.linspace(0, 1e-3, 40)[:, None]
    contexts[-2:] = [
        [0.5, 7.0],
        [0.4, 4.0],
    ]  # the last is nearer to the crowd in its second dimension only
    returns = np.append(np.full(38, 1.0), [5.0, 2.0])

    def play(distance, space, scale):
        teacher = TEACHER.replace(distance=distance, random_fraction=0.0)
        keys = jax.random.split(jax.random.clone(key), 3)
        state, _ = learn(
            update,
            teacher,
            begin(keys[0], teacher, space),
            keys[1],
            contexts * scale,
            returns,
        )
        drawn = draw(teacher, state, keys[2], 50, space)
        return float(progress(state, 1)[0]), np.asarray(drawn)

    wide_progress, wide = play("scaled", SPACE, 1.0)
    narrow_progress, drawn = play("scaled", narrow, shrink)
    assert wide_progress == narrow_progress == 1.0
    np.testing.assert_allclose(drawn, wide * shrink, rtol=1e-5, atol=1e-6)
    assert play("raw", SPACE, 1.0)[0] == 1.0
    assert (
        play("raw", narrow, shrink)[0] == 3.0
    )  # as published: a narrow dimension does not count


def test_a_fit_is_made_each_time_n_rollout_more_episodes_were_seen(update, key):
    contexts, returns = uniform(3, 100), np.random.default_rng(4).normal(size=100)
    keys, fits, iterations = jax.random.split(key, 11), [], []
    state = begin(keys[10])
    for number in range(10):
        part = slice(10 * number, 10 * number + 10)
        before = state.fit
        state, metrics = learn(
            update, TEACHER, state, keys[number], contexts[part], returns[part]
        )
        fits.append(int(metrics.fits))
        iterations.append(int(metrics.em_iterations))
        if iterations[-1] == 0:
            jax.tree.map(
                np.testing.assert_array_equal, state.fit.mixture, before.mixture
            )
    assert fits == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4]
    assert [count > 0 for count in iterations] == [
        False,
        False,
        True,
        False,
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_the_fit_uses_only_the_newest_n_rollout_episodes(update, key):
    contexts, returns = uniform(5, 80), np.random.default_rng(6).normal(size=80)
    contexts[-30:] = [3.0, 1.0] + 0.1 * np.random.default_rng(7).normal(size=(30, 2))
    keys = jax.random.split(key, 2)
    state, metrics = learn(
        update,
        TEACHER.replace(num_rollouts=30),
        begin(keys[0]),
        keys[1],
        contexts,
        returns,
    )
    np.testing.assert_allclose(metrics.context_mean.value, [3.0, 1.0], atol=0.1)
    assert bool(metrics.context_mean.present)
    assert int(state.fits) == 1  # although two fell due
    mixture = jax.tree.map(np.asarray, state.fit.mixture)
    mean = mixture.weights @ mixture.means
    np.testing.assert_allclose(mean[:2], contexts[-30:].mean(0), atol=1e-5)
    assert mean[2] == pytest.approx(progress(state, 30).mean(), abs=1e-5)


def test_without_a_mixture_all_tasks_are_uniform(key):
    keys = jax.random.split(key, 2)
    teacher = TEACHER.replace(random_fraction=0.0)
    state = begin(keys[0])
    drawn = np.asarray(draw(teacher, state, keys[1], 4000, SPACE))
    shares = (
        np.histogramdd(
            drawn, bins=(4, 4), range=list(zip(SPACE.lower, SPACE.upper, strict=True))
        )[0]
        / 4000
    )
    np.testing.assert_allclose(shares, 1 / 16, atol=4 * np.sqrt(1 / 16 / 4000))


def fitted(key, mean_alp):
    """Returns a state with three small components, of which the last is absent; 0.1 m wide, correlated with ALP."""
    chol = jnp.array([[0.1, 0, 0], [0.05, 0.1, 0], [0.3, 0.2, 0.1]])
    mixture = Mixture(
        weights=jnp.array([0.9, 0.1, 0.0]),
        means=jnp.array(
            [[-3.0, 6.0, mean_alp[0]], [3.0, 2.0, mean_alp[1]], [0.0, 4.0, 9.0]]
        ),
        chols=jnp.stack([chol, chol, jnp.zeros((3, 3))]),
    )
    state = begin(key)
    return state.replace(fit=state.fit.replace(mixture=mixture), fits=jnp.int32(1))


@pytest.mark.parametrize(
    ("mean_alp", "share"), [((1.0, 3.0), 0.75), ((0.0, 0.0), 0.5), ((0.0, 2.0), 1.0)]
)
def test_components_are_drawn_in_proportion_to_their_mean_learning_progress(
    key, mean_alp, share
):
    keys = jax.random.split(key, 2)
    teacher, state = TEACHER.replace(random_fraction=0.2), fitted(keys[0], mean_alp)
    drawn = np.asarray(draw(teacher, state, keys[1], 4000, SPACE))
    first = (np.abs(drawn - [-3.0, 6.0]) < 0.6).all(1).mean()
    second = (np.abs(drawn - [3.0, 2.0]) < 0.6).all(1).mean()
    stray = 0.2 * 1.2**2 / (8 * 7.5)  # uniform tasks that fall there
    noise = 4 * 0.5 / np.sqrt(4000)
    assert first == pytest.approx(0.8 * (1 - share) + stray, abs=noise)
    assert second == pytest.approx(0.8 * share + stray, abs=noise)


def test_a_component_is_drawn_with_its_covariance_and_clipped_to_the_bounds(key):
    keys = jax.random.split(key, 3)
    teacher, state = TEACHER.replace(random_fraction=0.0), fitted(keys[0], (1.0, 0.0))
    drawn = np.asarray(draw(teacher, state, keys[1], 4000, SPACE))
    np.testing.assert_allclose(
        drawn.mean(0), [-3.0, 6.0], atol=4 * 0.11 / np.sqrt(4000)
    )
    np.testing.assert_allclose(
        np.cov(drawn.T), [[0.01, 0.005], [0.005, 0.0125]], atol=0.001
    )
    mixture = state.fit.mixture
    far = state.replace(
        fit=state.fit.replace(
            mixture=mixture.replace(means=mixture.means.at[0, 0].set(-30.0))
        )
    )
    np.testing.assert_array_equal(
        draw(teacher, far, keys[2], 4000, SPACE)[:, 0], SPACE.lower[0]
    )


def test_identical_tasks_do_not_make_the_fit_fail(update, key):
    keys = jax.random.split(key, 4)
    state = begin(keys[0])
    for number, count in enumerate((200, 50)):
        identical = np.tile([2.5, 0.5], (count, 1))
        state, metrics = learn(
            update, TEACHER, state, keys[1 + number], identical, np.full(count, 1.5)
        )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state, metrics)))
    teacher = TEACHER.replace(random_fraction=0.0)
    drawn = draw(teacher, state, keys[3], 4000, SPACE)
    np.testing.assert_allclose(
        drawn, np.tile([2.5, 0.5], (4000, 1)), atol=0.01
    )  # std 0.001


def test_an_iteration_without_episodes_changes_nothing(update, key):
    keys = jax.random.split(key, 3)
    state, before = learn(
        update,
        TEACHER,
        begin(keys[0]),
        keys[1],
        uniform(8, 30),
        np.random.default_rng(8).normal(size=30),
    )
    same, metrics = learn(
        update, TEACHER, state, keys[2], np.zeros((0, 2)), np.zeros(0)
    )
    idle = state.replace(fit=state.fit.replace(iterations=jnp.int32(0)))
    jax.tree.map(np.testing.assert_array_equal, same, idle)
    assert not bool(metrics.mean_alp.present)
    assert float(metrics.aic.value) == float(before.aic.value)


def test_seed_zero_gives_the_same_curriculum_twice_and_another_seed_a_different_one(
    update,
):
    def play(seed):
        keys = jax.random.split(jax.random.key(seed), 7)
        state, drawn = begin(keys[0]), []
        for number in range(3):
            drawn.append(np.asarray(draw(TEACHER, state, keys[1 + number], 30, SPACE)))
            state, _ = learn(
                update,
                TEACHER,
                state,
                keys[4 + number],
                drawn[-1],
                np.sin(drawn[-1].sum(1)),
            )
        return np.concatenate(drawn)

    first = play(0)
    np.testing.assert_array_equal(first, play(0))
    assert (first[60:] != play(1)[60:]).all()


@pytest.mark.slow
def test_lanes_of_a_batch_with_their_own_settings_equal_single_runs(update, key):
    keys = jax.random.split(key, 3)
    contexts, returns = (
        uniform(9, ROWS),
        np.random.default_rng(9).normal(size=ROWS).astype(np.float32),
    )
    masks = np.arange(ROWS) < np.array([[60], [24], [200]])
    settings = TEACHER.replace(
        num_rollouts=jnp.array([50, 25, 100]),
        buffer_size=jnp.array([500, 40, 600]),
        random_fraction=jnp.zeros(3),
    )

    def run(teacher, key, mask):
        state = teacher.init(jax.random.key(0), SPACE)
        return advance(
            teacher, state, key, jnp.asarray(contexts), jnp.asarray(returns), mask
        )

    batch = jax.jit(jax.vmap(run))(settings, jax.random.clone(keys), masks)
    for lane in range(3):
        teacher = jax.tree.map(lambda leaf: leaf[lane].item(), settings)
        single = learn(
            update,
            teacher,
            begin(jax.random.clone(key)),
            keys[lane],
            contexts[masks[lane]],
            returns[masks[lane]],
        )
        found = jax.tree.map(lambda leaf: leaf[lane], batch)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
            found,
            single,
        )
    assert batch[0].fits.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"random_fraction": 1.5},
            "teacher.random_fraction must lie in [0, 1], got 1.5",
        ),
        ({"num_rollouts": 2}, f"teacher.num_rollouts must {ROLLOUTS}, got 2"),
        ({"num_rollouts": 201}, f"teacher.num_rollouts must {ROLLOUTS}, got 201"),
        (
            {"buffer_size": 701},
            "teacher.buffer_size must lie between 1 and store_capacity - 500 = 700, got 701",
        ),
        (
            {"buffer_size": 0},
            "teacher.buffer_size must lie between 1 and store_capacity - 500 = 700, got 0",
        ),
        ({"max_components": 1}, "teacher.max_components must be at least 2, got 1"),
    ],
)
def test_impossible_settings_are_named(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(TEACHER.replace(**change), SPACE)
