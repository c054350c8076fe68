"""What a context family is: a distribution that can be drawn from, weighed, summarised, compared and charted.

A family is a pytree, so it vmaps over seeds as it is. Its chart (`spjax.contexts.chart`) makes it a curriculum's: nothing else in
the package asks which family it has.
"""

import abc
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PyTree

from spjax.contexts.chart import Chart
from spjax.contexts.space import ContextSpace
from spjax.settings import Part

Own = TypeVar("Own", bound="ContextDistribution")


@struct.dataclass
class Summary:
    """The first two moments, for metrics and pictures."""

    mean: Float[Array, " dim"]  # context units
    covariance: Float[Array, "dim dim"]  # squared context units

    @property
    def std(self) -> Float[Array, " dim"]:
        """Marginal standard deviations, context units."""
        return jnp.sqrt(jnp.diagonal(self.covariance))


@struct.dataclass
class Components:
    """The Gaussians that a distribution mixes, for metrics and pictures."""

    weights: Float[Array, " K"]  # 1 together
    means: Float[Array, "K dim"]  # context units
    covariances: Float[Array, "K dim dim"]  # squared context units


class ContextDistribution(Part, abc.ABC):
    """A distribution over contexts; subclasses are frozen dataclasses that JAX takes for pytrees (``flax.struct``)."""

    kind: ClassVar[str] = "distribution"

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """The number of context dimensions."""

    @property
    @abc.abstractmethod
    def chart(self) -> Chart[PyTree, PyTree]:
        """The family's coordinates around a distribution."""

    @abc.abstractmethod
    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns one draw; inside the space where one is given, and the family says how."""

    def sample_many(
        self, key: Array, space: ContextSpace | None, count: int
    ) -> Float[Array, "count dim"]:
        """Returns independent draws; by default one `sample` for each child of the key."""
        return jax.vmap(lambda key: self.sample(key, space))(
            jax.random.split(key, count)
        )

    @abc.abstractmethod
    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log density (log probability, for a family on points) in nats at one context."""

    @abc.abstractmethod
    def summary(self) -> Summary:
        """Returns mean and covariance."""

    def mixed(self) -> Components | None:
        """Returns what it mixes; None for a family that two moments, its draws or its settings show as well."""
        return None

    @abc.abstractmethod
    def kl_to(self: Own, other: Own) -> Float[Array, ""]:
        """Returns KL(self || other) in nats, ``other`` of the same family."""

    @abc.abstractmethod
    def check(self, space: ContextSpace, what: str) -> None:
        """Checks concrete values against the bounds; ``what`` names the distribution, such as "teacher.target".

        Raises:
            ValueError: one sentence that names the value and what would be right.
        """

    def check_target(self, target: "ContextDistribution") -> None:
        """Checks that KL(. || target) exists for whatever this distribution may become.

        Raises:
            ValueError: another family, or a target over another number of dimensions.
        """
        if type(target) is not type(self):
            raise ValueError(
                f"old and target must be of one family, got {type(self).__name__} and {type(target).__name__}"
            )
        if target.dim != self.dim:
            raise ValueError(
                f"target must have {self.dim} context dimensions as the old distribution, got {target.dim}"
            )

    def is_usable(self) -> Bool[Array, ""]:
        """Returns whether an update can work with these values; by default, whether all are finite."""
        usable = jnp.array(True)
        for leaf in jax.tree.leaves(self):
            usable &= jnp.isfinite(leaf).all()
        return usable


def decimals(values: ArrayLike) -> Any:
    """Returns an array as nested tuples of the numbers as they were typed.

    2.4 in single precision is 2.4, not 2.4000001, which may lie outside of a space.
    """
    array = np.asarray(values)
    return float(str(array)) if array.ndim == 0 else tuple(map(decimals, array))
