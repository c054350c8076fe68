"""What SPRL's curriculum asks of the joint fit, on Gaussians whose divergence is written down by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.episodes import ContextFit
from spjax.self_paced.adaptive_tempering import ConstantSpeed
from spjax.self_paced.schedules import Proportion
from spjax.teachers import SelfPacedJoint
from tests.agents.episodic.tasks import Aim
from tests.teachers.test_buffer import episodes

MEAN, STD = 2.0, 0.5  # of the target; the contexts start at N(0, 1)
CONTEXTS = np.array([[-1.0], [0.5], [2.0]])
OLD_REWARDS = np.array([1.0, 2.0, 6.0])
NEW_REWARDS = np.array([4.0, 6.0])


def aim_of(alpha_from, **settings):
    """Returns what the first update aims at."""
    teacher = SelfPacedJoint(
        initial=Gaussian.from_std((0.0,), (1.0,)),
        target=Gaussian.from_std((MEAN,), (STD,)),
        schedule=Proportion(zeta=0.5, offset=0, max_alpha=1e6),
        alpha_from=alpha_from,
        **settings,
    ).bound_to(Aim())
    state = teacher.init(jax.random.key(0), Aim().context_space)
    return teacher.problem(state).aim(
        jnp.asarray(CONTEXTS), jnp.asarray(OLD_REWARDS), jnp.asarray(NEW_REWARDS)
    )


def test_alpha_from_the_batch_takes_its_mean_reward_and_the_divergence_in_closed_form():
    kl = np.log(STD) + (1 + MEAN**2) / (2 * STD**2) - 0.5
    aim = aim_of("batch")
    assert float(aim.kl_to_target) == pytest.approx(kl, rel=1e-5)
    assert float(aim.alpha) == pytest.approx(0.5 * 5.0 / kl, rel=1e-5)


def test_alpha_from_the_buffer_takes_its_mean_reward_and_the_divergence_at_its_contexts():
    own = -0.5 * CONTEXTS**2
    wanted = -0.5 * ((CONTEXTS - MEAN) / STD) ** 2 - np.log(STD)
    kl = (own - wanted).mean()
    aim = aim_of("buffer")
    assert float(aim.kl_to_target) == pytest.approx(kl, rel=1e-5)
    assert float(aim.alpha) == pytest.approx(0.5 * 3.0 / kl, rel=1e-5)


@pytest.mark.parametrize(("floor_kl", "floor"), [(8.7, 0.3), (8.9, 0.0)])
def test_the_floor_holds_while_the_divergence_is_above_its_limit(floor_kl, floor):
    aim = aim_of("batch", std_floor=0.3, floor_kl=floor_kl)  # the divergence is 8.81
    np.testing.assert_allclose(aim.std_floor, [floor], rtol=1e-6)


def test_a_schedule_that_keeps_something_is_asked_with_it_and_keeps_what_it_says():
    """The temperature passes through the joint fit: the second alpha follows the first."""
    teacher = SelfPacedJoint(
        initial=Gaussian.from_std((0.0,), (1.0,)),
        target=Gaussian.from_std((MEAN,), (STD,)),
        schedule=ConstantSpeed(length=0.2),
    ).bound_to(Aim())
    teacher.check(Aim().context_space)
    state = teacher.init(jax.random.key(0), Aim().context_space)
    samples = (
        jnp.asarray(CONTEXTS),
        jnp.asarray(OLD_REWARDS),
        jnp.asarray(NEW_REWARDS),
    )
    first = teacher.problem(state).aim(*samples)
    fit = ContextFit(state.distribution, first.alpha, first.kl_to_target, first.memory)
    rows = episodes(jnp.zeros(2), jnp.ones(2, bool)).replace(fit=fit)
    state, _ = teacher.update(
        state, jax.random.key(0), rows, lambda observation: observation[:, 0]
    )
    second = teacher.problem(state).aim(*samples)
    length = (1 / first.alpha - 1 / second.alpha) * OLD_REWARDS.std()
    assert float(length) == pytest.approx(0.2, rel=1e-4)
