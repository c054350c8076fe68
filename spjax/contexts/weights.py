"""Coordinates of positive weights that sum to 1, for families that have some beside other parameters.

With the old weights w, the new ones are w' ~ w exp(B s / sqrt(w)), the columns of B orthonormal and orthogonal to sqrt(w): one
number fewer than weights, and KL of the weights is close to |s|^2 / 2.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.solvers.series import expm1_minus

LEAST = 1e-2  # a weight below it is stretched as if it were that


@struct.dataclass
class WeightCoordinates:
    """Around the old weights."""

    log_old: Float[Array, " K"]  # normalised
    basis: Float[Array, "K s"]  # B
    stretch: Float[Array, " K"]  # 1 / sqrt(w)

    @classmethod
    def around(cls, log_weights: Float[Array, " K"]) -> "WeightCoordinates":
        """Returns the coordinates; any basis will do, so no derivative goes through it."""
        roots = jnp.sqrt(jnp.maximum(jnp.exp(log_weights), LEAST))
        fixed = jax.lax.stop_gradient((_complement(roots), 1 / roots))
        return cls(log_weights, *fixed)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.stretch.size - 1

    def change(self, s: Float[Array, " s"]) -> Float[Array, " K"]:
        """Returns log w' - log w."""
        exponent = self.stretch * (self.basis @ s)
        return exponent - jax.nn.logsumexp(self.log_old + exponent)

    def coordinates(self, log_new: Float[Array, " K"]) -> Float[Array, " s"]:
        """Returns the s of normalised log weights."""
        return self.basis.T @ ((log_new - self.log_old) / self.stretch)


def kl_of_weights(
    log_p: Float[Array, " K"], log_q: Float[Array, " K"]
) -> Float[Array, ""]:
    """Returns KL(p || q) of normalised log weights, each term >= 0."""
    return (jnp.exp(log_p) * expm1_minus(log_q - log_p)).sum()


def _complement(vector: Float[Array, " K"]) -> Float[Array, "K s"]:
    """Returns an orthonormal basis of what is orthogonal to a positive vector: columns of a Householder reflection."""
    unit = vector / jnp.sqrt((vector**2).sum())
    normal = unit.at[0].add(1.0)
    reflection = jnp.outer(normal, normal) / (1.0 + unit[0])
    return (jnp.eye(unit.size, dtype=unit.dtype) - reflection)[:, 1:]
