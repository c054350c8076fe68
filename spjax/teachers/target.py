"""The Default curriculum of the paper: every task comes from the target distribution."""

from flax import struct
from jaxtyping import Array, Float

from spjax.contexts import ContextSpace, Gaussian
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value


@struct.dataclass
class Target(Teacher):
    """Settings: the target distribution, in context units."""

    target_mean: tuple[float, ...]
    target_std: tuple[float, ...]

    def init(self, key: Array, space: ContextSpace, observation_size: int) -> None:
        """Returns nothing."""

    def sample(self, state: None, key: Array, space: ContextSpace) -> Float[Array, " dim"]:
        """Returns a context of the target, clipped to the bounds."""
        return space.clip(Gaussian.from_std(self.target_mean, self.target_std).sample(key))

    def update(self, state: None, key: Array, episodes: Episodes, value: Value) -> tuple[None, None]:
        """Learns nothing."""
        return None, None

    def check(self, space: ContextSpace) -> None:
        """Checks the target against the bounds."""
        check_gaussian(space, "target", self.target_mean, self.target_std)


def check_gaussian(space: ContextSpace, what: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Raises ValueError with one clear sentence where a mean lies outside the bounds or a std is not positive."""
    space.check(mean, f"teacher.{what}_mean")
    if len(std) != space.size:
        raise ValueError(f"teacher.{what}_std needs {space.size} values ({', '.join(space.names)}), got {len(std)}")
    for name, value in zip(space.names, std, strict=True):
        if not 0 < value < float("inf"):
            raise ValueError(f"teacher.{what}_std of {name} must be positive and finite, got {value:g}")
