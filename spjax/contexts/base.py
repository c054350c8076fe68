"""stub"""
import abc
from typing import Any, ClassVar
import jax
from flax import struct
from jaxtyping import Array, Float
from spjax.contexts.space import ContextSpace
from spjax.settings import Part

@struct.dataclass
class Summary:
    mean: Float[Array, " dim"]
    std: Float[Array, " dim"]
    covariance: Float[Array, "dim dim"]

class ContextDistribution(Part, abc.ABC):
    kind: ClassVar[str] = "distribution"
    @abc.abstractmethod
    def sample(self, key: Array, space: ContextSpace | None = None) -> Float[Array, " dim"]: ...
    def sample_many(self, key: Array, space: ContextSpace | None, count: int) -> Float[Array, "count dim"]:
        return jax.vmap(lambda k: self.sample(k, space))(jax.random.split(key, count))
    @abc.abstractmethod
    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]: ...
    @abc.abstractmethod
    def summary(self) -> Summary: ...
    @abc.abstractmethod
    def kl_to(self, other: Any) -> Float[Array, ""]: ...
    @abc.abstractmethod
    def check(self, space: ContextSpace, what: str) -> None: ...
