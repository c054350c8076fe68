"""From a solution in the working precision to a distribution in the caller's, which keeps the constraints *after* rounding."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from spjax.contexts.chart import LocalProblem, performance_gain
from spjax.self_paced.statement import Family, Inputs, Static, dtype_of
from spjax.solvers.augmented_lagrangian import Solution, draw_back, varying_zero


def round_solution(
    static: Static,
    original: Family,
    problem: LocalProblem,
    solution: Solution,
    backup: Family | None = None,
) -> tuple[Family, Float[Array, ""]]:
    """Returns the solution in the dtype of the caller, drawn back until it is feasible *after* rounding, and its KL.

    Args:
        static: of the update.
        original: the old distribution, in the caller's dtype.
        problem: that was solved, in the working precision.
        solution: of it.
        backup: what is returned where nothing on the way back is feasible; the old distribution where None.
    """
    chart, data = original.chart, problem.data
    turn = (
        chart.inward(problem, static.kl_direction, solution.z)
        if static.bounded
        else jnp.zeros_like(solution.z)
    )

    def rounded(fraction: Float[Array, ""]) -> Family:
        y = solution.z + (1 - fraction) * turn
        z = chart.part_of(fraction, problem.radius, y)
        return chart.rounded(data, z, dtype_of(original))

    def excess(fraction: Float[Array, ""]) -> Float[Array, ""]:
        z = chart.coordinates(data, like(problem.old, rounded(fraction)))
        gain = performance_gain(problem.weights, chart.log_ratios(data, z))
        shortfall = jnp.where(
            problem.bounded, -(problem.slack + gain) / problem.slack_scale, 0.0
        )
        return jnp.maximum(
            chart.kl_from_old(data, z, static.kl_direction) / problem.max_kl - 1.0,
            shortfall,
        )

    zero = varying_zero((original, problem, solution.z), problem.radius.dtype)
    fraction = draw_back(excess, zero)
    new = rounded(fraction)
    new = jax.tree.map(
        lambda leaf, start: jnp.where(fraction > 0, leaf, start),
        new,
        original if backup is None else backup,
    )
    z = chart.coordinates(data, like(problem.old, new))
    return new, chart.kl_from_old(data, z, static.kl_direction)


def effective_sample_size(
    problem: LocalProblem, inputs: Inputs[Family], new: Family
) -> Float[Array, ""]:
    """Returns (sum w)^2 / sum w^2 of the importance weights of the new distribution, 0 where there are no episodes."""
    chart, data = inputs.old.chart, problem.data
    z = chart.coordinates(data, like(inputs.old, new))
    logs = jnp.where(inputs.mask, chart.log_ratios(data, z), -jnp.inf)
    some = inputs.mask.any()
    ratios = jnp.where(some, jnp.exp(logs - jnp.where(some, logs.max(), 0.0)), 0.0)
    return ratios.sum() ** 2 / jnp.where(some, (ratios**2).sum(), 1.0)


def like(working: Family, new: Family) -> Family:
    """Returns the distribution in the dtype of the solve, with numbers of the dtype that it has.

    XLA may drop a conversion to single precision and back, and with it the rounding that is to be seen here; it does not
    drop an explicit one.
    """

    def convert(leaf: Array) -> Array:
        about = jnp.finfo(leaf.dtype)
        wide = leaf.astype(dtype_of(working))
        return lax.reduce_precision(wide, int(about.nexp), int(about.nmant))

    return jax.tree.map(convert, new)
