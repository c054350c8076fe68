"""Learning progress as part of the self-paced objective: how it is measured, and what reaches the update."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import ContextSpace, Gaussian
from spjax.self_paced.context_update import ContextUpdate
from spjax.self_paced.schedules import Bound, Evidence, Proportion
from spjax.teachers import SelfPaced, moving
from spjax.teachers.learning_progress import History, Remembered
from tests.teachers.checks import check

SPACE = ContextSpace(("mass", "length"), ("kg", "m"), (-4.0, -4.0), (4.0, 4.0))
TEACHER = SelfPaced(
    initial=Gaussian.from_std((0.0, 0.0), (1.0, 1.0)),
    target=Gaussian.from_std((2.0, 2.0), (0.1, 0.1)),
    buffer_size=6,
    warmup=0,
)
ROWS = jax.random.normal(jax.random.key(3), (3, 6, 2))
RETURNS = jax.random.normal(jax.random.key(4), (3, 6))
MASK = jnp.array([True, True, False, True, True, True])


def test_progress_is_the_difference_to_the_nearest_of_the_newest_earlier_episodes():
    history = History.empty(7, 2)
    np.testing.assert_array_equal(history.progress(ROWS[0], RETURNS[0]), np.zeros(6))
    history = history.extended(ROWS[0], RETURNS[0], MASK)
    history = history.extended(ROWS[1], RETURNS[1], MASK)
    contexts = np.concatenate([ROWS[0][MASK], ROWS[1][MASK]])[-7:]
    returns = np.concatenate([RETURNS[0][MASK], RETURNS[1][MASK]])[-7:]
    distances = np.linalg.norm(ROWS[2][:, None] - contexts[None], axis=2)
    expected = np.abs(RETURNS[2] - returns[distances.argmin(axis=1)])
    found = history.progress(ROWS[2], RETURNS[2])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert int(history.count) == 10


@pytest.fixture
def played(monkeypatch):
    """A function that plays three updates of a teacher; it returns the values that they were made from, and the steps."""
    given = []

    def kept(old, target, contexts, values, mask, **settings):
        given.append(np.asarray(values))
        zero = jnp.zeros(())
        return old, ContextUpdate(zero, zero, jnp.asarray(False), zero, zero, zero)

    def play(teacher):
        given.clear()
        state, steps = teacher.init(jax.random.key(0), SPACE), []
        memory = state.memory
        for number in range(3):
            evidence = Evidence(
                contexts=ROWS[number],
                values=10 + ROWS[number][:, 0],
                mask=MASK,
                mean_return=jnp.ones(()),
                kl_to_target=jnp.ones(()),
                update=jnp.asarray(number + 1),
                distribution=state.distribution,
                target=teacher.aims_at,
                memory=memory,
                returns=RETURNS[number],
                count=jnp.asarray(6 * (number + 1) if teacher.sliding_window else 6),
            )
            steps.append(teacher.move(state, evidence))
            memory = steps[-1].memory
        return np.array(given), steps

    monkeypatch.setattr(moving, "update_context", kept)
    return play


def test_an_update_is_made_from_the_value_and_beta_times_the_progress(played):
    values, steps = played(TEACHER.replace(learning_progress=0.5))
    history, expected = History.empty(500, 2), []
    for rows, returns in zip(ROWS, RETURNS, strict=True):
        progress = np.asarray(history.progress(rows, returns))
        expected.append(10 + rows[:, 0] + 0.5 * progress)
        history = history.extended(rows, returns, MASK)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert np.abs(values[1] - 10 - ROWS[1][:, 0]).max() > 0.1
    assert float(steps[2].learning_progress.value) == pytest.approx(
        progress[MASK].mean(), rel=1e-5
    )
    assert isinstance(steps[2].memory, Remembered)


def test_without_it_or_with_beta_zero_the_update_gets_the_same_bits(played):
    plain, steps = played(TEACHER)
    nothing, _ = played(TEACHER.replace(learning_progress=0.0))
    np.testing.assert_array_equal(plain, 10 + ROWS[:, :, 0])
    np.testing.assert_array_equal(plain, nothing)
    assert steps[0].learning_progress is None
    assert steps[0].memory == ()
    assert TEACHER.init(jax.random.key(0), SPACE).memory == ()


def test_an_episode_that_stays_in_the_window_keeps_its_progress():
    history = History.empty(5, 2)
    remembered = Remembered.nothing((), history, 4)
    assert list(remembered.fresh(jnp.asarray(3))) == [True, True, True, False]
    remembered = remembered.replace(seen=jnp.asarray(3))
    # rows hold the episodes 0, 1, 2 and 3, then 4, 5, 2 and 3
    assert list(remembered.fresh(jnp.asarray(4))) == [False, False, False, True]
    assert list(remembered.fresh(jnp.asarray(6))) == [True, True, False, True]


def test_a_sliding_window_whose_episodes_are_all_new_is_as_one_that_is_emptied(played):
    emptied, _ = played(TEACHER.replace(learning_progress=0.5))
    sliding, _ = played(TEACHER.replace(learning_progress=0.5, sliding_window=True))
    np.testing.assert_array_equal(emptied, sliding)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"schedule": Bound()},
            "teacher.learning_progress needs a schedule that gives alpha, such as proportion; ",
        ),
        (
            {"learning_progress": -1.0},
            "teacher.learning_progress must be at least 0, got -1.0",
        ),
    ],
)
def test_what_it_does_not_go_with_is_refused(change, message):
    teacher = TEACHER.replace(learning_progress=1.0, schedule=Proportion())
    check(teacher, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check(teacher.replace(**change), SPACE)
    if "learning_progress" not in change:
        check(teacher.replace(learning_progress=None, **change), SPACE)
