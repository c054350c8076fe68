"""A curriculum on a surrogate: its gradients against central differences, and that it is the curriculum of a training."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import meta, settings
from spjax.contexts import ContextSpace, Gaussian
from spjax.self_paced.schedules import Bound, Proportion
from spjax.self_paced.smooth import SmoothProportion
from spjax.teachers import SPGL, Random, SelfPaced

K = 12
SPACE = ContextSpace(("left", "right"), ("m", "m"), (-40.0, -40.0), (40.0, 40.0))
BOUNDED = Bound(2.0)
SMOOTH = SmoothProportion(zeta=1.6, offset=3.0, width=0.8)


def surrogate(num_iterations=K):
    learner = meta.Follower(
        start=(0.0, 4.0), reach=(3.0, 2.5), rate=jnp.asarray(0.5), best=jnp.asarray(8.0)
    )
    return meta.Surrogate(learner, SPACE, num_iterations, num_episodes=20)


def self_paced(schedule, **changes):
    return SelfPaced(
        initial=Gaussian.from_std([0.5, 4.25], [2.0, 1.9]),
        target=Gaussian.from_std([2.5, 0.5], [0.1, 0.1]),
        schedule=schedule,
        max_kl=0.1,
        warmup=0,
        buffer_size=20,
    ).changed(**changes)


def log_divergence(unrolled):
    """Returns the logarithm, so that differences of a large divergence keep their digits."""
    return jnp.log(meta.divergence_left(unrolled))


@functools.cache
def compiled():
    """Returns the gradients; one function for all schedules, so a schedule compiles once."""
    return jax.jit(
        lambda teacher: meta.loss_and_gradient(
            surrogate(), teacher, jax.random.key(3), log_divergence
        )
    )


def slopes(teacher, path, along, step):
    """Returns the derivative along a direction of a setting, and its central difference."""
    _, gradient, _ = compiled()(teacher)
    name, _, part = path.rpartition(".")
    owner, moved = settings.get(teacher, name) if name else teacher, {}
    for sign in (1, -1):
        leaf = getattr(owner, part) + sign * step * along
        changed = dataclasses.replace(owner, **{part: leaf})
        moved[sign] = settings.put(teacher, name, changed) if name else changed
    difference = (compiled()(moved[1])[0] - compiled()(moved[-1])[0]) / (2 * step)
    derivative = getattr(settings.get(gradient, name) if name else gradient, part)
    return float((derivative * along).sum()), float(difference)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "names"),
    [(SMOOTH, ("schedule.zeta", "schedule.offset", "schedule.width")), (BOUNDED, ("schedule.performance_bound",))],
    ids=["proportion", "bound"],
)
def test_gradients_through_twelve_updates_are_central_differences(schedule, names):
    with jax.enable_x64(True):
        teacher = self_paced(schedule)
        found = {name: slopes(teacher, name, 1.0, 1e-6) for name in (*names, "max_kl")}
        found["mean"] = slopes(teacher, "initial.mean", jnp.array([0.6, -0.8]), 1e-6)
        stds = jnp.diag(jnp.array([0.8, 0.6]))
        found["std"] = slopes(teacher, "initial.chol", stds, 1e-6)
    for name, (derivative, difference) in found.items():
        assert difference != 0, name
        np.testing.assert_allclose(derivative, difference, rtol=1e-3, err_msg=name)


@pytest.mark.slow
def test_alpha_sets_in_around_k_alpha_as_a_share_of_the_return():
    with jax.enable_x64(True):
        _, _, unrolled = compiled()(self_paced(SMOOTH))
        trace = jax.tree.map(np.asarray, unrolled.trace)
        start = self_paced(SMOOTH)
        first_kl = float(start.initial.kl_to(start.target))
    onset = 1 / (1 + np.exp(-(np.arange(1, K + 1) - 3.5) / 0.8))
    kl_before = np.append(first_kl, trace.teacher.kl_to_target[:-1])
    alpha = onset * 1.6 * trace.mean_return / kl_before
    np.testing.assert_allclose(trace.teacher.alpha, alpha, rtol=1e-10)
    assert (trace.teacher.step_kl <= 0.1).all()
    assert (np.diff(trace.teacher.kl_to_target)[4:] < 0).all()
