"""The closed-form self-paced teacher: whose turn it is, the phases, the shape, the data it shares with the solved one."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Beta, ContextSpace, Gaussian, kl_divergence
from spjax.episodes import Episodes
from spjax.self_paced import Mode
from spjax.teachers import SPGL, SelfPaced, SelfPacedJoint
from tests.teachers.checks import check

SPACE = ContextSpace(
    ("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0)
)
SETTINGS = {
    "target": Gaussian.from_std((2.5, 0.5), (0.004, 0.00375)),
    "initial": Gaussian.from_std((0.0, 4.25), (2.0, 1.875)),
    "buffer_size": 32,
    "warmup": 0,
    "observation_size": 2,
}
TEACHER = SPGL(**SETTINGS)


def episodes(contexts, returns, mask):
    return Episodes(
        mask=mask,
        context=contexts,
        first_observation=contexts,
        episode_return=returns,
        discounted_return=returns,
        length=jnp.ones(returns.size, jnp.int32),
        success=mask,
        ticket=(),
    )


@jax.jit
def iterate(teacher, state, key, value, mask):
    """One iteration with 24 episodes in contexts of the teacher; the critic's value of a context is about the given one."""
    contexts = jax.vmap(lambda k: teacher.sample(state, k, SPACE))(
        jax.random.split(key, 24)
    )
    rows = episodes(contexts, jnp.full(24, value), mask)
    return teacher.update(
        state, key, rows, lambda observation: value + 0.1 * jnp.tanh(observation[:, 0])
    )


@pytest.mark.parametrize("which", ["initial", "target"])
@pytest.mark.parametrize("teacher", [SPGL, SelfPacedJoint])
def test_another_family_is_refused_by_the_name_of_its_setting(teacher, which):
    beta = Beta.on(SPACE)
    ends = {"initial": SETTINGS["initial"], "target": SETTINGS["target"], which: beta}
    with pytest.raises(
        ValueError,
        match=f"got Beta for teacher.{which}$|^teacher.initial and teacher.target",
    ):
        teacher(**ends).check(SPACE)


def play(teacher, key, values, masks=None):
    """Runs one iteration for each value; returns the states and metrics."""
    states, metrics = [teacher.init(jax.random.fold_in(key, 0), SPACE)], []
    for number, value in enumerate(values):
        mask = jnp.ones(24, bool) if masks is None else masks[number]
        state, metric = iterate(
            teacher, states[-1], jax.random.fold_in(key, 1 + number), value, mask
        )
        states.append(state)
        metrics.append(metric)
    return states, metrics


def moved(states):
    """Returns for each update whether it moved the mean, and whether it moved the scale."""
    pairs = list(itertools.pairwise(states))
    means = [bool((a.distribution.mean != b.distribution.mean).any()) for a, b in pairs]
    return means, [
        bool((a.distribution.chol != b.distribution.chol).any()) for a, b in pairs
    ]


def test_updates_move_the_mean_and_the_scale_in_turns(key):
    states, _ = play(TEACHER, key, [5.0] * 4)
    assert moved(states) == ([True, False, True, False], [False, True, False, True])


def test_an_iteration_without_episodes_and_the_warm_up_take_no_turn(key):
    everyone, nobody = jnp.ones(24, bool), jnp.zeros(24, bool)
    states, metrics = play(
        TEACHER.replace(warmup=1),
        key,
        [5.0] * 4,
        [everyone, everyone, nobody, everyone],
    )
    assert moved(states) == ([False, True, False, False], [False, False, False, True])
    assert [int(state.updates) for state in states] == [0, 0, 1, 1, 2]
    assert [float(metric.step_kl) > 0 for metric in metrics] == [
        False,
        True,
        False,
        True,
    ]


def test_the_curriculum_rewards_then_approaches_then_freezes_then_approaches(key):
    states, metrics = play(TEACHER, key, [1.0, 1.0, 4.5, 4.5, 2.0, 2.0, 4.5])
    modes = [Mode.REWARD] * 2 + [Mode.TARGET] * 2 + [Mode.FROZEN] * 2 + [Mode.TARGET]
    assert [int(metric.mode) for metric in metrics] == modes
    assert [bool(state.reached) for state in states] == [False] * 3 + [True] * 5
    assert moved(states[4:7]) == ([False, False], [False, False])
    kl = [float(kl_divergence(state.distribution, TEACHER.target)) for state in states]
    assert kl[4] < kl[3] < kl[2]
    assert kl[7] < kl[6]
    assert all(metric.alpha is None for metric in metrics)
    assert (
        states[1].distribution.mean[0] > states[0].distribution.mean[0]
    )  # where the values are higher


def test_a_step_never_exceeds_epsilon_and_the_shape_stays_the_target_s(key):
    states, metrics = play(TEACHER, key, [5.0] * 6)
    for (old, new), metric in zip(itertools.pairwise(states), metrics, strict=True):
        used = float(kl_divergence(old.distribution, new.distribution))
        assert 0.04 < used <= 0.05
        assert float(metric.step_kl) == pytest.approx(used, rel=1e-3)
        ratio = jnp.diagonal(new.distribution.chol) / TEACHER.target.std
        np.testing.assert_allclose(ratio[0], ratio[1], rtol=1e-5)
        np.testing.assert_array_equal(
            metric.context_covariance, new.distribution.covariance.reshape(-1)
        )


def test_the_floor_holds_only_while_the_target_is_far(key):
    far = TEACHER.replace(std_floor=(1.9, 1.0), floor_kl=0.0)
    states, _ = play(far, key, [5.0] * 6)
    np.testing.assert_allclose(states[-1].distribution.chol[0, 0], 1.9, rtol=1e-6)
    states, _ = play(far.replace(floor_kl=1e9), key, [5.0] * 6)
    assert states[-1].distribution.chol[0, 0] < 1.6


def test_the_initial_distribution_is_that_of_the_settings_where_it_is_a_multiple_of_the_target(
    key,
):
    mine = TEACHER.init(jax.random.fold_in(key, 0), SPACE).distribution
    solved = SelfPaced(**SETTINGS).init(jax.random.fold_in(key, 1), SPACE).distribution
    np.testing.assert_array_equal(mine.mean, solved.mean)
    np.testing.assert_allclose(mine.chol, solved.chol, rtol=1e-5)


def test_another_initial_shape_becomes_the_target_s_of_the_same_volume(key):
    initial, target = (
        Gaussian.from_std((0.0, 4.25), (0.5, 2.0)),
        Gaussian.from_std((2.5, 0.5), (0.1, 0.1)),
    )
    start = TEACHER.replace(initial=initial, target=target).starts_at
    np.testing.assert_array_equal(start.mean, initial.mean)
    np.testing.assert_allclose(start.chol, np.eye(2), rtol=1e-5)


def test_lanes_with_different_settings_equal_single_runs_and_never_recompile(key):
    kls = (0.02, 0.05)
    singles = [play(TEACHER.replace(max_kl=kl), key, [5.0] * 2)[0][-1] for kl in kls]
    traces = iterate._cache_size()
    play(TEACHER.replace(max_kl=0.03, performance_bound=2.0), key, [5.0])
    assert iterate._cache_size() == traces
    state = TEACHER.init(jax.random.fold_in(key, 0), SPACE)
    lanes = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), state)
    for number in range(2):
        one = jax.random.fold_in(key, 1 + number)
        lanes, _ = jax.vmap(
            lambda kl, state, key=one: iterate(
                TEACHER.replace(max_kl=kl), state, key, 5.0, jnp.ones(24, bool)
            )
        )(jnp.array(kls), lanes)
    for index, single in enumerate(singles):
        np.testing.assert_allclose(
            lanes.distribution.mean[index],
            single.distribution.mean,
            rtol=1e-5,
            atol=1e-6,
        )
        np.testing.assert_allclose(
            lanes.distribution.chol[index], single.distribution.chol, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_kl": 0.0}, "teacher.max_kl must be positive and finite, got 0.0"),
        ({"buffer_size": 0}, "teacher.buffer_size must be at least 1, got 0"),
        (
            {"std_floor": (0.1,)},
            "teacher.std_floor needs 2 values (gate position, gate width) or one for all, got 1",
        ),
        (
            {
                "target": Gaussian(
                    jnp.array([2.5, 0.5]), jnp.diag(jnp.array([0.1, 0.0]))
                )
            },
            "teacher.target.std must be positive and finite, got 0.0",
        ),
        (
            {"initial": Gaussian.from_std((9.0, 1.0), (1.0, 1.0))},
            "teacher.initial.mean: gate position = 9 lies outside its bounds [-4, 4] m",
        ),
    ],
)
def test_wrong_settings_are_named(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(TEACHER.replace(**change), SPACE)
