"""A curriculum on a surrogate: its gradients against central differences, and that it is the curriculum of a training."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax import meta, settings
from spjax.contexts import Beta, ContextSpace, Gaussian
from spjax.self_paced.schedules import Bound
from spjax.self_paced.smooth import SmoothProportion
from spjax.teachers import DORAEMON, SPGL, Random, SelfPaced

K = 12
SPACE = ContextSpace(("left", "right"), ("m", "m"), (-40.0, -40.0), (40.0, 40.0))
BOUNDED = Bound(5.5)  # missed, kept, lost and binding, one after the other
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
    [
        (SMOOTH, ("schedule.zeta", "schedule.offset", "schedule.width")),
        (BOUNDED, ("schedule.performance_bound",)),
    ],
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
        _, gradient, unrolled = compiled()(self_paced(SMOOTH))
        trace = jax.tree.map(np.asarray, unrolled.trace)
        start = self_paced(SMOOTH)
        first_kl = float(start.initial.kl_to(start.target))
    onset = 1 / (1 + np.exp(-(np.arange(1, K + 1) - 3.5) / 0.8))
    kl_before = np.append(first_kl, trace.teacher.kl_to_target[:-1])
    alpha = onset * 1.6 * trace.mean_return / kl_before
    np.testing.assert_allclose(trace.teacher.alpha, alpha, rtol=1e-10)
    assert gradient.warmup.dtype == jax.dtypes.float0  # a whole number
    assert (trace.teacher.step_kl <= 0.1).all()
    assert (np.diff(trace.teacher.kl_to_target)[4:] < 0).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"start": (0.0,)}, r"^learner.start must have shape \(2,\), got \(1,\)$"),
        ({"start": (0.0, np.nan)}, r"^learner.start must be finite, got \[0.0, nan\]$"),
        ({"reach": (1.0, 0.0)}, r"^learner.reach must be positive and finite, got"),
        ({"rate": -0.5}, r"^learner.rate must be positive and finite, got -0.5$"),
        ({"best": np.inf}, r"^learner.best must be positive and finite, got inf$"),
    ],
)
def test_a_follower_that_cannot_be_is_refused(settings, sentence):
    learner = meta.Follower(
        **{"start": (0.0, 0.0), "reach": (1.0, 1.0), "rate": 0.5, **settings}
    )
    plan = meta.Surrogate(learner, SPACE, num_iterations=1)
    with pytest.raises(ValueError, match=sentence):
        meta.unroll(plan, spgl(), jax.random.key(0))


def test_a_follower_moves_towards_what_it_masters_and_learns_nothing_out_of_reach():
    learner = meta.Follower((0.0, 0.0), (1.0, 2.0), rate=0.5, best=4.0)
    state = learner.init()
    contexts = jnp.array([[1.0, 0.0], [0.0, 2.0], [90.0, 90.0]])
    values = jax.vmap(lambda c: learner.value(state, c, jnp.zeros(())))(contexts)
    left = np.exp(-0.5)
    np.testing.assert_allclose(values, [4 * left, 4 * left, 0.0], rtol=1e-6)
    after = learner.practise(state, contexts, values)
    np.testing.assert_allclose(after, [left / 6, 2 * left / 6], rtol=1e-6)


def spgl(**changes):
    """Returns a teacher whose update is a formula, so that it compiles at once."""
    return SPGL(
        initial=Gaussian.from_std([0.5, 4.25], [0.2, 0.2]),
        target=Gaussian.from_std([2.5, 0.5], [0.1, 0.1]),
        performance_bound=-5.0,
        max_kl=0.5,
        warmup=0,
        buffer_size=20,
    ).changed(**changes)


def timed_returns(key):
    """Returns the returns of episodes and on the target, iteration by iteration."""
    timed = meta.Timed(lambda context, progress: context[0] + 100.0 * progress)
    plan = meta.Surrogate(timed, SPACE, num_iterations=4, num_episodes=10)
    trace = meta.unroll(plan, spgl(max_kl=1e-9), key).trace
    return jnp.stack([trace.mean_return, trace.target_value])


def test_values_may_be_a_function_of_context_and_progress_and_lanes_are_single_runs():
    keys = jax.random.split(jax.random.key(2), 2)
    together = jax.jit(jax.vmap(timed_returns))(keys)
    alone = jnp.stack([timed_returns(key) for key in keys])
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    assert (alone[0] != alone[1]).all()
    gained = np.array([0.0, 25.0, 50.0, 75.0])
    np.testing.assert_allclose(alone[0, 0] - gained, 0.5, atol=0.4)
    np.testing.assert_allclose(alone[0, 1] - gained, 2.5, atol=0.2)


@struct.dataclass
class Climber(meta.Learner):
    """A linear policy, on its own episodes: practice is a step up the gradient of their mean reward."""

    rate: float

    def init(self):
        return jnp.zeros(3)

    def value(self, state, context, progress):
        action = state[0] + state[1:] @ context
        best_action = 0.3 * context[0] - 0.2 * context[1]
        return jnp.exp(-((action - best_action) ** 2))

    def practise(self, state, contexts, values):
        def mean_reward(state):
            return jax.vmap(lambda c: self.value(state, c, 0.0))(contexts).mean()

        return state + self.rate * jax.grad(mean_reward)(state)


@pytest.mark.slow
def test_gradients_go_through_the_steps_of_a_policy_that_climbs_its_reward():
    def loss(settings):
        plan = meta.Surrogate(
            Climber(settings[0]), SPACE, num_iterations=6, num_episodes=5
        )
        teacher = spgl(performance_bound=0.3, max_kl=settings[1])
        values = meta.unroll(plan, teacher, jax.random.key(5)).trace.target_value
        return values[-1], values

    with jax.enable_x64(True):
        at, step = jnp.array([0.1, 0.5]), 1e-6
        played = jax.jit(jax.value_and_grad(loss, has_aux=True))
        (_, values), gradient = played(at)
        differences = [
            (played(at + along)[0][0] - played(at - along)[0][0]) / (2 * step)
            for along in step * jnp.eye(2)
        ]
    differences, values = np.asarray(differences), np.asarray(values)
    assert values[-1] > values[0]
    assert (np.abs(differences) > 1e-6).all()
    np.testing.assert_allclose(gradient, differences, rtol=1e-3)


@pytest.mark.parametrize(
    ("plan", "teacher", "sentence"),
    [
        (
            surrogate(0),
            spgl(),
            r"surrogate.num_iterations must be at least 1, got 0",
        ),
        (surrogate(2.5), spgl(), r"num_iterations must be a whole number, got 2.5"),
        (
            surrogate(),
            DORAEMON(initial=Beta.on(SPACE, 100.0), target=Beta.on(SPACE)),
            r"doraemon goes by success, which .* set teacher.success_return",
        ),
        (
            surrogate(),
            Random(),
            r"only a teacher that moves a distribution .* the teacher Random",
        ),
        (surrogate(), SelfPaced(), r"the teacher has no distributions yet"),
        (
            surrogate(),
            spgl(max_kl=0.0),
            r"teacher.max_kl must be positive and finite, got 0.0",
        ),
        (
            dataclasses.replace(
                surrogate(), space=ContextSpace(("left",), ("m",), (-40.0,), (40.0,))
            ),
            spgl(),
            r"surrogate.space must have 2 dimensions as the teacher's contexts, got 1",
        ),
    ],
)
def test_what_cannot_be_unrolled_is_one_sentence(plan, teacher, sentence):
    with pytest.raises(ValueError, match=sentence):
        meta.unroll(plan, teacher, jax.random.key(0))
