"""From a solution in the working precision to a distribution in the caller's, which keeps the constraints *after* rounding."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from spjax.contexts.chart import KlDirection, LocalProblem, performance_gain
from spjax.self_paced.statement import Family, Inputs, dtype_of
from spjax.solvers.augmented_lagrangian import Solution, draw_back


def round_solution(
    original: Family,
    problem: LocalProblem,
    solution: Solution,
    direction: KlDirection,
    backup: Family | None = None,
) -> tuple[Family, Float[Array, ""]]:
    """Returns the solution in the dtype of the caller, drawn back until it is feasible after rounding, and its KL.

    Args:
        original: the old distribution, in the caller's dtype.
        problem: that was solved, in the working precision.
        solution: of it.
        direction: of the KL divergence.
        backup: a rounded distribution of which the solution is the next step; it is drawn back to this one, and to the old
            one without it.
    """
    chart, data = original.chart, problem.data
    last_resort = original if backup is None else backup
    radius = jnp.where(problem.radius > 0, problem.radius, 1.0)
    start = (
        None
        if backup is None
        else chart.coordinates(data, like(problem.old, backup)) / radius
    )

    def rounded(fraction: Float[Array, ""]) -> Family:
        if start is None:
            z = chart.part_of(fraction, problem.radius, solution.z)
        else:
            y = start + fraction * (solution.z - start)
            z = chart.part_of(jnp.ones_like(fraction), problem.radius, y)
        return chart.rounded(data, z, dtype_of(original))

    def excess(fraction: Float[Array, ""]) -> Float[Array, ""]:
        z = chart.coordinates(data, like(problem.old, rounded(fraction)))
        gain = performance_gain(problem.weights, chart.log_ratios(data, z))
        shortfall = jnp.where(
            problem.bounded, -(problem.slack + gain) / problem.slack_scale, 0.0
        )
        return jnp.maximum(
            chart.kl_from_old(data, z, direction) / problem.max_kl - 1.0,
            shortfall,
        )

    fraction = draw_back(excess, problem.radius.dtype)
    new = rounded(fraction)
    new = jax.tree.map(
        lambda leaf, start: jnp.where(fraction > 0, leaf, start), new, last_resort
    )
    z = chart.coordinates(data, like(problem.old, new))
    return new, chart.kl_from_old(data, z, direction)


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
