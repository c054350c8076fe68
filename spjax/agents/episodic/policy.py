"""Linear-Gaussian policies theta | c ~ N(A phi(c), Sigma) (Klink et al., 2021, Section 6)."""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.contexts import Gaussian
from spjax.contexts.sampling import sample_inside

__all__ = ["LinearGaussian", "sample_inside"]


@struct.dataclass
class LinearGaussian:
    """N(gain @ phi, chol @ chol.T) given features phi; with the constant feature alone it is a plain Gaussian."""

    gain: Float[Array, "D F"]  # A
    chol: Float[Array, "D D"]  # lower triangular, positive diagonal

    @classmethod
    def around_zero(cls, std: tuple[float, ...], num_features: int) -> "LinearGaussian":
        """Returns independent parameters with mean 0, whatever the context."""
        return cls(
            gain=jnp.zeros((len(std), num_features)),
            chol=jnp.diag(jnp.asarray(std, dtype=float)),
        )

    @classmethod
    def from_gaussian(cls, gaussian: Gaussian) -> "LinearGaussian":
        """Returns the policy over contexts that is this Gaussian, with the constant feature."""
        return cls(gain=gaussian.mean[:, None], chol=gaussian.chol)

    def mean(self, features: Float[Array, "N F"]) -> Float[Array, "N D"]:
        """Returns the mean parameters given the features of N contexts."""
        return features @ self.gain.T

    @property
    def entropy(self) -> Float[Array, ""]:
        """The differential entropy, nats; the same in every context."""
        size = self.chol.shape[0]
        return jnp.log(jnp.diagonal(self.chol)).sum() + 0.5 * size * jnp.log(
            2 * jnp.pi * jnp.e
        )
