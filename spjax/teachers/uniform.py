"""The Random curriculum: tasks drawn uniformly over the bounds."""

from flax import struct
from jaxtyping import Array, Float

from spjax.contexts import ContextSpace
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value


@struct.dataclass
class Random(Teacher):
    """Has no settings and no state."""

    def init(self, key: Array, space: ContextSpace, observation_size: int) -> None:
        """Returns nothing."""

    def sample(self, state: None, key: Array, space: ContextSpace) -> Float[Array, " dim"]:
        """Returns a uniform context."""
        return space.sample_uniform(key)

    def update(self, state: None, key: Array, episodes: Episodes, value: Value) -> tuple[None, None]:
        """Learns nothing."""
        return None, None

    def check(self, space: ContextSpace) -> None:
        """Has nothing to check."""
