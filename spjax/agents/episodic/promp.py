"""Probabilistic movement primitives (Paraschos et al., 2013): trajectories that are linear in a few weights.

A trajectory is the sum of normalised Gaussian bumps over the phase, which runs from 0 to 1 during the movement. With weights
from a Gaussian policy the trajectories are Gaussian too. Klink et al. (2021) move the reacher and the ball-in-a-cup arm by them
(appendix "Experimental Details"; the printed bump lacks the minus sign).
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@dataclasses.dataclass(frozen=True)
class ProMP:
    """The bumps exp(-(phase - centre)^2 / (2 variance)), normalised to sum 1 at every phase; static and hashable."""

    num_bases: int
    first_centre: float  # phase; the centres are evenly spaced
    last_centre: float
    variance: float  # squared phase

    def __post_init__(self) -> None:
        if self.num_bases < 1:
            raise ValueError(
                f"num_bases of a movement primitive must be at least 1, got {self.num_bases}"
            )
        if not 0 < self.variance < float("inf"):
            raise ValueError(
                f"variance of the basis functions must be positive and finite, got {self.variance}"
            )

    def bases(self, phase: Float[Array, " time"]) -> Float[Array, "time basis"]:
        """Returns the value of each basis function at each phase."""
        return jax.nn.softmax(
            -(self._offsets(phase) ** 2) / (2 * self.variance), axis=1
        )

    def slopes(self, phase: Float[Array, " time"]) -> Float[Array, "time basis"]:
        """Returns the derivatives of the basis functions by the phase."""
        values, rates = self.bases(phase), -self._offsets(phase) / self.variance
        return values * (rates - (values * rates).sum(axis=1, keepdims=True))

    def positions(
        self, weights: Float[Array, "basis joint"], phase: Float[Array, " time"]
    ) -> Float[Array, "time joint"]:
        """Returns the trajectory, in the unit of the weights."""
        return self.bases(phase) @ weights

    def velocities(
        self,
        weights: Float[Array, "basis joint"],
        phase: Float[Array, " time"],
        duration: float,
    ) -> Float[Array, "time joint"]:
        """Returns the time derivative of a trajectory that takes `duration` seconds."""
        return self.slopes(phase) @ weights / duration

    def _offsets(self, phase: Float[Array, " time"]) -> Float[Array, "time basis"]:
        centres = jnp.linspace(
            self.first_centre, self.last_centre, self.num_bases, dtype=phase.dtype
        )
        return phase[:, None] - centres[None]
