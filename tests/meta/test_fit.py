"""Settings learned by gradients: a known minimum is found, ranges are kept, wrong names are refused."""

import jax
import numpy as np
import pytest

from spjax import meta
from spjax.self_paced.schedules import Proportion
from tests.meta.test_unroll import SPACE, self_paced, spgl

STILL = spgl(warmup=10**6)  # no update comes


def fitted(key, teacher, learn, **how):
    timed = meta.Timed(lambda context, progress: context[0])
    plan = meta.Surrogate(timed, SPACE, num_iterations=1, num_episodes=4)
    return meta.fit(plan, teacher, key, meta.divergence_left, learn=learn, **how)


@pytest.mark.slow
def test_where_nothing_moves_the_best_start_is_the_target_in_every_lane():
    @jax.jit
    @jax.vmap
    def lanes(key):
        learn = ("initial.mean", "initial.std")
        return fitted(key, STILL, learn, num_steps=300, learning_rate=0.1)

    found = lanes(jax.random.split(jax.random.key(0), 2))
    before = STILL.starts_at.kl_to(STILL.target)
    np.testing.assert_allclose(found.losses[:, 0], before, rtol=1e-4)
    assert (found.losses[:, -1] < 1e-2).all()
    for lane in range(2):
        start = jax.tree.map(lambda leaf, lane=lane: leaf[lane], found.teacher.initial)
        np.testing.assert_allclose(start.mean, [2.5, 0.5], atol=0.02)
        np.testing.assert_allclose(start.std, [0.1, 0.1], atol=0.01)


@pytest.mark.parametrize(
    ("teacher", "learn", "sentence"),
    [
        (STILL, (), "learn needs at least one setting of the teacher; known: initial"),
        (STILL, "max_kl", r"learn needs names, such as \('max_kl',\), got 'max_kl'"),
        (STILL, ("max-kl",), "no setting 'max-kl' to learn; did you mean 'max_kl'?"),
        (STILL, ("start",), "the teacher has no setting 'start' to learn; "),
        (STILL, ("std_floor",), "std_floor is None, so there is nothing to learn"),
        (
            self_paced(Proportion()),
            ("schedule.offset",),
            "schedule.offset is a whole number, which has no derivative; of K_alpha the schedule smooth-proportion has one",
        ),
        (
            self_paced(Proportion(zeta=0.0)),
            ("schedule.zeta",),
            "schedule.zeta must start inside its range, not at a bound, .* got 0.0",
        ),
    ],
)
def test_what_cannot_be_learned_is_one_sentence(teacher, learn, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted(jax.random.key(0), teacher, learn)


def test_no_steps_are_refused():
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        fitted(jax.random.key(0), STILL, ("max_kl",), num_steps=0)


@pytest.mark.parametrize("rate", [0.0, -0.1, float("nan"), float("inf")])
def test_a_learning_rate_that_does_not_learn_is_refused(rate):
    with pytest.raises(ValueError, match="learning_rate must be positive and finite"):
        fitted(jax.random.key(0), STILL, ("max_kl",), learning_rate=rate)
