"""The Default curriculum of the paper: every task comes from the target distribution, or is its mean."""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value


@part("teacher", "default")
@struct.dataclass
class Target(Teacher):
    """Contexts of the target distribution."""

    def init(self, key: Array, space: ContextSpace) -> None:
        """Returns nothing."""

    def sample(
        self, state: None, key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns a context of the target."""
        return self.aims_at.sample(key, space)

    def sample_many(
        self, state: None, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns contexts of the target."""
        return self.aims_at.sample_many(key, space, count)

    def update(
        self, state: None, key: Array, episodes: Episodes, value: Value
    ) -> tuple[None, None]:
        """Learns nothing."""
        return None, None


@part("teacher", "target-mean")
@struct.dataclass
class TargetMean(Target):
    """The mean of the target distribution, over and over: the one task of a search without contexts (CMA-ES)."""

    def sample(
        self, state: None, key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns the mean of the target."""
        return self.aims_at.summary().mean

    def sample_many(
        self, state: None, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns the mean of the target, over and over."""
        return self.test_contexts(key, space, count)

    def test_contexts(
        self, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns the mean of the target, over and over."""
        return jnp.broadcast_to(self.aims_at.summary().mean, (count, space.size))
