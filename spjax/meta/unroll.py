"""A whole curriculum as one differentiable function of its settings.

A teacher is a pytree of settings, and its update has derivatives (`spjax.self_paced.context_update`). Here a teacher plays its
curriculum on a learner that costs nothing (`spjax.meta.learners`), through as many iterations as you like, as one ``scan``;
what it comes to has a gradient in every traced setting of the teacher: zeta, K_alpha of `smooth-proportion`, V_LB, max_kl, and
the numbers of its distributions. The noise of the contexts is fixed by the key, and draws are differentiable in their
distribution, so the gradient is that of the very numbers that come out. What `update_context` says of its derivatives holds: in
reverse mode alone, zero where an update did not move, one-sided where a constraint is on the verge.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from spjax import settings
from spjax.contexts import ContextDistribution, ContextSpace
from spjax.episodes import Episodes
from spjax.meta.learners import Learner
from spjax.teachers.base import Teacher
from spjax.teachers.doraemon import DORAEMON
from spjax.teachers.moving import Moving, MovingMetrics, MovingState
from spjax.training.checks import check_count


@struct.dataclass
class Surrogate:
    """What a curriculum is played on in place of a training."""

    learner: Learner
    space: ContextSpace = struct.field(pytree_node=False)  # draws are clipped to it
    num_iterations: int = struct.field(pytree_node=False)
    num_episodes: int = struct.field(pytree_node=False, default=20)  # of an iteration


@struct.dataclass
class Trace:
    """What happened, iteration by iteration."""

    mean_return: Float[Array, " K"]  # of the episodes
    target_value: Float[Array, " K"]  # expected return on the target, after practice
    teacher: MovingMetrics  # each [K, ...]: KL to the target, alpha, step, mean, ...


@struct.dataclass
class Unrolled:
    """What a curriculum came to."""

    teacher_state: MovingState
    learner_state: PyTree
    trace: Trace

    @property
    def distribution(self) -> ContextDistribution:
        """Where contexts are drawn from in the end."""
        return self.teacher_state.distribution


Objective = Callable[[Unrolled], Float[Array, ""]]  # to be minimised


def divergence_left(unrolled: Unrolled) -> Float[Array, ""]:
    """Returns KL(last distribution || target), nats."""
    return unrolled.trace.teacher.kl_to_target[-1]


def performance_missed(unrolled: Unrolled) -> Float[Array, ""]:
    """Returns minus the expected return on the target in the end."""
    return -unrolled.trace.target_value[-1]


def performance_missed_on_the_way(unrolled: Unrolled) -> Float[Array, ""]:
    """Returns minus the expected return on the target, averaged over the iterations: to be good soon counts, too."""
    return -unrolled.trace.target_value.mean()


def unroll(surrogate: Surrogate, teacher: Teacher, key: Array) -> Unrolled:
    """Returns what the teacher's curriculum comes to on the surrogate; works under ``jit``, ``vmap`` and ``grad``.

    Each iteration draws contexts, asks the learner for their returns, lets it practise, and updates the teacher as a training
    does, with the learner in place of the critic. The expected return on the target is a mean over as many draws as an
    iteration has episodes, the same ones in all iterations.

    Args:
        surrogate: the learner, the bounds and the numbers of iterations and episodes.
        teacher: one that moves a distribution, such as `SelfPaced`, with its initial and target distribution. With a
            ``buffer_size`` of the episodes between two updates a solve costs least.
        key: of all draws.

    Raises:
        ValueError: a number of iterations or episodes below 1; a teacher that moves no distribution, is not bound to a task,
            or has a setting out of its range, as far as it can be seen (outside of jit).
    """
    moving = checked(surrogate, teacher)
    learner, space, count = surrogate.learner, surrogate.space, surrogate.num_episodes
    # an observation of the surrogate is a context
    moving = dataclasses.replace(moving, observation_size=space.size)
    key_init, key_test, key_run = jax.random.split(key, 3)
    tests = moving.test_contexts(key_test, space, count)

    def iteration(
        carry: tuple[MovingState, PyTree], number: Int[Array, ""]
    ) -> tuple[tuple[MovingState, PyTree], Trace]:
        teacher_state, learner_state = carry
        key_draw, key_update = jax.random.split(jax.random.fold_in(key_run, number))
        progress = number.astype(float) / surrogate.num_iterations

        def values(state: PyTree, contexts: Array) -> Array:
            return jax.vmap(lambda context: learner.value(state, context, progress))(
                contexts
            )

        contexts = moving.sample_many(teacher_state, key_draw, space, count)
        returns = values(learner_state, contexts)
        learner_state = learner.practise(learner_state, contexts, returns)
        teacher_state, metrics = moving.update(
            teacher_state,
            key_update,
            _episodes(contexts, returns),
            lambda observations: values(learner_state, observations),
        )
        target_value = values(learner_state, tests).mean()
        return (teacher_state, learner_state), Trace(
            returns.mean(), target_value, metrics
        )

    numbers = jnp.arange(surrogate.num_iterations)
    start = (moving.init(key_init, space), learner.init())
    (teacher_state, learner_state), trace = lax.scan(iteration, start, numbers)
    return Unrolled(teacher_state, learner_state, trace)


def loss_and_gradient(
    surrogate: Surrogate, teacher: Teacher, key: Array, objective: Objective
) -> tuple[Float[Array, ""], Teacher, Unrolled]:
    """Returns the objective of an unrolled curriculum, its gradient, and what was unrolled.

    The gradient is a teacher with derivatives in place of settings: `gradient.schedule.zeta` is the derivative in zeta,
    `gradient.initial.mean` that in the initial mean. Whole numbers, such as the K_alpha of `proportion`, have none (``float0``).
    Raises as `unroll` does.
    """
    checked(surrogate, teacher)

    def loss(teacher: Teacher) -> tuple[Float[Array, ""], Unrolled]:
        unrolled = unroll(surrogate, teacher, key)
        return objective(unrolled), unrolled

    (value, unrolled), gradient = jax.value_and_grad(
        loss, has_aux=True, allow_int=True
    )(teacher)
    return value, gradient, unrolled


def checked(surrogate: Surrogate, teacher: Teacher) -> Moving:
    """Returns the teacher, after a look at what can be seen before anything compiles; raises ValueError as `unroll` says."""
    for name in ("num_iterations", "num_episodes"):
        check_count(f"surrogate.{name}", getattr(surrogate, name))
    if not isinstance(teacher, Moving):
        raise ValueError(
            "only a teacher that moves a distribution step by step has derivatives, such as self-paced, "
            f"got {settings.named(teacher)}"
        )
    dim = teacher.starts_at.dim
    if dim != surrogate.space.size:
        raise ValueError(
            f"surrogate.space must have {dim} dimensions as the teacher's contexts, got {surrogate.space.size}"
        )
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(teacher)):
        with jax.ensure_compile_time_eval():  # where it is called inside jit
            plain = settings.plain(teacher)
            if isinstance(plain, DORAEMON):  # episodes of a surrogate are returns
                plain = dataclasses.replace(plain, task_has_success=False)
            settings.check("teacher", plain)
            plain.check(surrogate.space)
    surrogate.learner.check(dim)
    return teacher


def _episodes(contexts: Float[Array, "M dim"], returns: Float[Array, " M"]) -> Episodes:
    """Returns episodes that are nothing but a context and a return."""
    count = returns.size
    return Episodes(
        mask=jnp.ones(count, bool),
        context=contexts,
        first_observation=contexts,
        episode_return=returns,
        discounted_return=returns,
        length=jnp.ones(count, jnp.int32),
        success=jnp.zeros(count, bool),
        ticket=(),
    )
