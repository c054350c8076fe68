"""Optimal transport between two small sets of points of equal weight: entropic, in log space, with annealing.

The plan minimises sum_nm P_nm |x_n - y_m|^2 / 2 + blur^2 KL(P || uniform) among plans with uniform marginals. Its potentials
are those of the fixed point (Cuturi, 2013; Peyre and Cuturi, 2019, Section 4.4)

    f_n = -t log mean_m exp((g_m - C_nm) / t),    g_m = -t log mean_n exp((f_n - C_nm) / t),    t = blur^2,

reached along falling temperatures t, so that a few dozen trips do however small the blur is.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

ANNEALING = 0.9  # of the length sqrt(t), a trip
FINAL_TRIPS = 20  # at the last temperature


def transported(
    points: Float[Array, "N dim"],
    goals: Float[Array, "M dim"],
    *,
    blur: float = 0.01,
    diameter: float = 1.0,
) -> Float[Array, "N dim"]:
    """Returns where the plan takes each point: the mean of the goals that its mass goes to.

    Args:
        points: that are moved.
        goals: that they are moved to, altogether.
        blur: length below which goals are not told apart, in the units of the points; static.
        diameter: length from which on all are, likewise.
    """
    cost = 0.5 * ((points[:, None] - goals[None]) ** 2).sum(axis=2)
    count = int(np.ceil(np.log(blur / diameter) / np.log(ANNEALING)))
    lengths = diameter * ANNEALING ** np.arange(max(count, 0))
    lengths = np.append(lengths, np.full(FINAL_TRIPS, blur))

    def trip(
        potentials: tuple[Float[Array, " N"], Float[Array, " M"]],
        temperature: Float[Array, ""],
    ) -> tuple[tuple[Float[Array, " N"], Float[Array, " M"]], None]:
        _, of_goals = potentials
        of_points = _soft_minimum(cost - of_goals[None], temperature)
        of_goals = _soft_minimum((cost - of_points[:, None]).T, temperature)
        return (of_points, of_goals), None

    start = (jnp.zeros(len(points), cost.dtype), jnp.zeros(len(goals), cost.dtype))
    temperatures = jnp.asarray(lengths**2, cost.dtype)
    (_, of_goals), _ = lax.scan(trip, start, temperatures)
    return jax.nn.softmax((of_goals[None] - cost) / temperatures[-1], axis=1) @ goals


def _soft_minimum(
    costs: Float[Array, "N M"], temperature: Float[Array, ""]
) -> Float[Array, " N"]:
    """Returns -t log mean exp(-cost / t) of every row."""
    mean = jax.nn.logsumexp(-costs / temperature, axis=1) - np.log(costs.shape[1])
    return -temperature * mean
