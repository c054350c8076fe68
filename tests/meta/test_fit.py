"""Settings learned by gradients: a known minimum is found, ranges are kept, wrong names are refused."""

import jax
import numpy as np
import pytest

from spjax import meta
from spjax.self_paced.schedules import Proportion
from tests.meta.test_unroll import SPACE, self_paced, spgl

STILL = spgl(warmup=10**6)  # no update comes


def fitted(teacher, learn, **how):
    timed = meta.Timed(lambda context, progress: context[0])
    plan = meta.Surrogate(timed, SPACE, num_iterations=1, num_episodes=4)
    key = jax.random.key(0)
    return meta.fit(plan, teacher, key, meta.divergence_left, learn=learn, **how)


@pytest.mark.slow
def test_where_nothing_moves_the_best_start_is_the_target():
    learn = ("initial.mean", "initial.std")
    found = fitted(STILL, learn, num_steps=300, learning_rate=0.1)
    before = STILL.starts_at.kl_to(STILL.target)
    assert float(found.losses[0]) == pytest.approx(float(before), rel=1e-4)
    assert float(found.losses[-1]) < 1e-2
    start = found.teacher.starts_at
    np.testing.assert_allclose(start.mean, [2.5, 0.5], atol=0.02)
    np.testing.assert_allclose(start.std, [0.1, 0.1], atol=0.01)


@pytest.mark.parametrize(
    ("teacher", "learn", "sentence"),
    [
        (STILL, (), "learn needs at least one setting; "),
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
        fitted(teacher, learn)
