"""A damped Newton step for a handful of unknowns, written as an optax transformation.

The step solves (H + damping I) step = -gradient with the negative pivots of the factorisation turned positive, is
shortened to ``max_step``. Three fractions of it are tried and the best is taken that does not raise the value; if all do, the
update is zero and the damping grows (Levenberg-Marquardt). A step whose expected gain drowns in rounding is taken unseen:
close to the minimum only the gradient can tell the way. For a problem scaled such that values are of order one.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from spjax.solvers.linalg import solve_positive

FRACTIONS = (1.0, 0.3, 0.1)  # of a step, tried side by side
DAMPING_FACTORS = (0.2, 1.0, 3.0)  # after each of them was taken
REJECT_FACTOR = 30.0


class DampedNewtonState(NamedTuple):
    """Carried from step to step."""

    damping: Float[Array, ""]  # added to the Hessian's diagonal, units of the Hessian


def damped_newton(
    initial_damping: float = 1.0, min_damping: float = 1e-6, max_step: float = 1.0
) -> optax.GradientTransformationExtraArgs:
    """Returns the transformation; its ``update`` needs ``value``, ``value_fn`` and ``hessian`` and a flat vector.

    Args:
        initial_damping: damping of the first step; scale the problem so that its curvature is of order one.
        min_damping: below it the damping is dropped altogether, so that the last steps converge quadratically.
        max_step: longest step, Euclidean norm.
    """

    def init(params: Float[Array, " n"]) -> DampedNewtonState:
        return DampedNewtonState(damping=jnp.full((), initial_damping, params.dtype))

    def update(
        updates: Float[Array, " n"],
        state: DampedNewtonState,
        params: Float[Array, " n"] | None = None,
        *,
        value: Float[Array, ""],
        value_fn: Callable[[Float[Array, " n"]], Float[Array, ""]],
        hessian: Float[Array, "n n"],
        **unused: object,
    ) -> tuple[Float[Array, " n"], DampedNewtonState]:
        damping = jnp.where(state.damping > min_damping, state.damping, 0.0)
        step = -solve_positive(
            hessian + damping * jnp.eye(updates.size, dtype=updates.dtype), updates
        )
        step *= jnp.minimum(
            1.0, max_step / jnp.maximum(jnp.sqrt((step**2).sum()), 1e-30)
        )
        noise = 8 * jnp.finfo(updates.dtype).eps
        invisible = -(step @ updates) <= noise * jnp.maximum(
            1.0, jnp.abs(value)
        )  # the gain expected of the step
        values = jax.vmap(lambda fraction: value_fn(params + fraction * step))(
            jnp.asarray(FRACTIONS, updates.dtype)
        )
        lowest, taken = value + noise * jnp.abs(value), jnp.zeros_like(value)
        damping = REJECT_FACTOR * jnp.maximum(state.damping, 10 * min_damping)
        for fraction, factor, candidate in zip(
            FRACTIONS, DAMPING_FACTORS, values, strict=True
        ):
            better = candidate <= lowest  # False where the candidate is NaN
            lowest = jnp.where(better, candidate, lowest)
            taken = jnp.where(better, fraction, taken)
            damping = jnp.where(better, factor * state.damping, damping)
        invisible &= values[0] < jnp.inf
        taken = jnp.where(invisible, 1.0, taken)
        damping = jnp.where(invisible, DAMPING_FACTORS[0] * state.damping, damping)
        return taken * step, DampedNewtonState(damping=damping)

    return optax.GradientTransformationExtraArgs(init, update)
