"""The Random curriculum: tasks drawn uniformly over the bounds."""

from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value


@part("teacher", "random")
@struct.dataclass
class Random(Teacher):
    """Uniform contexts."""

    def init(self, key: Array, space: ContextSpace) -> None:
        """Returns nothing."""

    def sample(
        self, state: None, key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns a uniform context."""
        return space.sample_uniform(key)

    def update(
        self, state: None, key: Array, episodes: Episodes, value: Value
    ) -> tuple[None, None]:
        """Learns nothing."""
        return None, None
