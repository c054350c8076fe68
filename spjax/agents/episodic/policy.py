"""Linear-Gaussian policies theta | c ~ N(A phi(c), Sigma), and sampling inside bounds (Klink et al., 2021, Section 5)."""

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts import Gaussian

MAX_REDRAWS = 100


@struct.dataclass
class LinearGaussian:
    """N(gain @ phi, chol @ chol.T) given features phi; with the constant feature alone it is a plain Gaussian."""

    gain: Float[Array, "D F"]  # A
    chol: Float[Array, "D D"]  # lower triangular, positive diagonal

    @classmethod
    def around_zero(cls, std: tuple[float, ...], num_features: int) -> "LinearGaussian":
        """Returns independent parameters with mean 0, whatever the context."""
        return cls(gain=jnp.zeros((len(std), num_features)), chol=jnp.diag(jnp.asarray(std, dtype=float)))

    @classmethod
    def from_gaussian(cls, gaussian: Gaussian) -> "LinearGaussian":
        """Returns the policy over contexts that is this Gaussian, with the constant feature."""
        return cls(gain=gaussian.mean[:, None], chol=gaussian.chol)

    def to_gaussian(self) -> Gaussian:
        """Returns the Gaussian that this is with the constant feature."""
        return Gaussian(mean=self.gain[:, 0], chol=self.chol)

    def mean(self, features: Float[Array, "N F"]) -> Float[Array, "N D"]:
        """Returns the mean parameters given the features of N contexts."""
        return features @ self.gain.T

    @property
    def entropy(self) -> Float[Array, ""]:
        """The differential entropy, nats; the same in every context."""
        size = self.chol.shape[0]
        return jnp.log(jnp.diagonal(self.chol)).sum() + 0.5 * size * jnp.log(2 * jnp.pi * jnp.e)


def sample_inside(
    key: Array,
    means: Float[Array, "N D"],
    chol: Float[Array, "D D"],
    lower: tuple[float, ...],
    upper: tuple[float, ...],
) -> Float[Array, "N D"]:
    """Returns a draw of N(mean, chol chol') for each row.

    A draw outside the bounds is replaced as a whole, up to 100 times; the last one is clipped, as in the released code. All
    rows are drawn again together until none is left outside, so late in a training, with narrow distributions, this
    costs a draw or two.
    """
    low, high = jnp.asarray(lower, means.dtype), jnp.asarray(upper, means.dtype)

    def unfinished(state: tuple[Int[Array, ""], Array, Array, Bool[Array, " N"]]) -> Bool[Array, ""]:
        draws, _, _, inside = state
        return ~inside.all() & (draws <= MAX_REDRAWS)

    def redraw(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        draws, key, theta, inside = state
        key, key_draw = jax.random.split(key)
        new = means + jax.random.normal(key_draw, means.shape, means.dtype) @ chol.T
        theta = jnp.where(inside[:, None], theta, new)
        return draws + 1, key, theta, ((theta >= low) & (theta <= high)).all(axis=1)

    # "like" the means, so that under shard_map it varies over devices as they do
    inside = jnp.zeros_like(means[:, 0], bool)
    start = (jnp.zeros((), jnp.int32), key, jnp.zeros_like(means), inside)
    _, _, theta, _ = lax.while_loop(unfinished, redraw, start)
    return jnp.clip(theta, low, high)
