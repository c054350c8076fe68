"""Settings of a curriculum, learned by gradients through what it comes to on a surrogate (`spjax.meta.unroll`)."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax import lax
from jaxtyping import Array, Float, Int

from spjax import settings
from spjax.meta.unroll import Objective, Surrogate, checked, unroll
from spjax.promotion import lenient
from spjax.settings import Setting, Value
from spjax.teachers.base import Teacher
from spjax.training.checks import check_count

Free = dict[str, Float[Array, "..."]]  # dotted name -> real numbers of any sign


@struct.dataclass
class Fitted:
    """What was learned."""

    teacher: Teacher  # with the settings of the last step
    losses: Float[Array, " steps"]  # before each step, a mean over the unrolls


def fit(
    surrogate: Surrogate,
    teacher: Teacher,
    key: Array,
    objective: Objective,
    *,
    learn: Sequence[str],
    num_steps: int = 100,
    num_unrolls: int = 4,
    learning_rate: float = 0.05,
) -> Fitted:
    """Returns the teacher with settings that were learned by Adam; works under ``jit`` and, over keys, ``vmap``.

    Settings that are bounded are learned as the logarithm of their distance to the bound, or as a logit between two bounds, so
    they keep their ranges, and a learning rate is a share of their size. All others are learned as they are. Every step
    unrolls the curriculum with fresh noise.

    Args:
        surrogate: what the curriculum is played on.
        teacher: where the settings start.
        key: of all draws.
        objective: what is minimised, of an `Unrolled`, for example `performance_missed`.
        learn: dotted names of settings, as flags have them: "schedule.zeta", "max_kl", "initial.mean", "initial.std".
        num_steps: of Adam.
        num_unrolls: with noise of their own, whose mean objective a step descends.
        learning_rate: of Adam.

    Raises:
        ValueError: beside what `unroll` raises: a name that is no setting with a derivative, one that is not set, a whole
            number, or one that starts at its bound; no name at all; fewer than one step or unroll; a learning rate that is not
            positive.
    """
    checked(surrogate, teacher)
    for name, number in (("num_steps", num_steps), ("num_unrolls", num_unrolls)):
        check_count(name, number)
    if (
        not isinstance(learning_rate, jax.core.Tracer)
        and not 0 < learning_rate < math.inf
    ):
        raise ValueError(
            f"learning_rate must be positive and finite, got {learning_rate!r}"
        )
    start = _free_settings(teacher, learn)
    adam = optax.adam(learning_rate)

    def loss(free: Free, keys: Array) -> Float[Array, ""]:
        changed = _with_settings(teacher, free)
        unrolled = jax.vmap(lambda key: objective(unroll(surrogate, changed, key)))
        return unrolled(keys).mean()

    def descent_step(
        carry: tuple[Free, optax.OptState], step: Int[Array, ""]
    ) -> tuple[tuple[Free, optax.OptState], Float[Array, ""]]:
        free, state = carry
        keys = jax.random.split(jax.random.fold_in(key, step), num_unrolls)
        value, gradient = jax.value_and_grad(loss)(free, keys)
        with lenient():
            updates, state = adam.update(gradient, state)
            free = optax.apply_updates(free, updates)
        return (free, state), value

    carry = (start, adam.init(start))
    (free, _), losses = lax.scan(descent_step, carry, jnp.arange(num_steps))
    return Fitted(_with_settings(teacher, free), losses)


def _free_settings(teacher: Teacher, learn: Sequence[str]) -> Free:
    """Returns the named settings as real numbers of any sign; raises as `fit`."""
    known = settings.traced(teacher)
    if isinstance(learn, str):
        raise ValueError(f"learn needs names, such as ({learn!r},), got {learn!r}")
    if not learn:
        raise ValueError(
            f"learn needs at least one setting of the teacher; known: {', '.join(known)}"
        )
    for name in learn:
        if name not in known:
            raise ValueError(
                f"the teacher has no setting {name!r} to learn; {settings.nearest(name, known)}"
            )
        if known[name].hint is int:
            raise ValueError(
                f"{name} is a whole number, which has no derivative; of K_alpha the schedule smooth-proportion has one"
            )
    return {
        name: _free(name, settings.get(teacher, name), known[name].setting)
        for name in learn
    }


def _free(name: str, value: Value, about: Setting) -> Float[Array, "..."]:
    """Returns the real numbers of a setting; raises where there is none."""
    if value is None:
        raise ValueError(f"{name} is None, so there is nothing to learn; set it first")
    low, high = _bounds(about)
    if not isinstance(value, jax.core.Tracer):
        shown = np.asarray(value)
        above = low is None or (shown > low).all()
        below = high is None or (shown < high).all()
        if not (above and below):
            raise ValueError(
                f"{name} must start inside its range, not at a bound, from which no gradient leads, got {shown.tolist()}"
            )
    value = jnp.asarray(value, float)
    if low is None or high is None:
        return value if low is None else jnp.log(value - low)
    return jnp.log(value - low) - jnp.log(high - value)


def _with_settings(teacher: Teacher, free: Free) -> Teacher:
    """Returns the teacher with the settings that the real numbers stand for; those of one part are changed together."""
    declared = settings.traced(teacher)
    values = {
        name: _setting(number, declared[name].setting) for name, number in free.items()
    }
    for owner in dict.fromkeys(name.rpartition(".")[0] for name in values):
        own = {
            name.rpartition(".")[2]: value
            for name, value in values.items()
            if name.rpartition(".")[0] == owner
        }
        part = settings.get(teacher, owner) if owner else teacher
        changed = part.changed(**own)
        teacher = settings.put(teacher, owner, changed) if owner else changed
    return teacher


def _setting(number: Float[Array, "..."], about: Setting) -> Float[Array, "..."]:
    """Returns the value inside the bounds that a real number stands for."""
    low, high = _bounds(about)
    if low is None or high is None:
        return number if low is None else low + jnp.exp(number)
    return low + (high - low) * jax.nn.sigmoid(number)


def _bounds(about: Setting) -> tuple[float | None, float | None]:
    """Returns the lower bound and the upper one, None where there is none; no setting has one from above alone."""
    return about.least if about.above is None else about.above, about.most
