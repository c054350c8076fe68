"""Discrete times Gaussian: contexts of which some numbers choose among rows of a table, and the others vary continuously.

Objects, mazes or levels in the first dimensions, masses, places or sizes in the rest. Both parts are independent, so their
divergences add up.
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.catalogue import part
from spjax.contexts.base import ContextDistribution, Summary
from spjax.contexts.discrete import Discrete
from spjax.contexts.gaussian import Gaussian
from spjax.contexts.space import ContextSpace
from spjax.settings import Declared, Setting, Value

if TYPE_CHECKING:
    from spjax.contexts.product_chart import ProductChart

_ROWS = tuple[tuple[float, ...], ...]
_DECLARED = {
    one.name: one
    for one in (
        Declared(
            "table",
            _ROWS,
            dataclasses.MISSING,
            Setting(
                unit="context units",
                help="a row for each value of the first dimensions",
            ),
        ),
        Declared(
            "weights",
            tuple[float, ...] | None,
            None,
            Setting(above=0, help="of the rows; None for equal ones"),
        ),
        Declared(
            "mean",
            tuple[float, ...],
            dataclasses.MISSING,
            Setting(unit="context units", help="of each of the other dimensions"),
        ),
        *(Gaussian.declared()[name] for name in ("std", "covariance", "outside")),
    )
}
_OF_ROWS = ("table", "weights")


@part("distribution", "discrete-gaussian")
@struct.dataclass
class DiscreteGaussian(ContextDistribution):
    """A row of a table, and an independent Gaussian; a pytree, so it vmaps over seeds as it is."""

    discrete: Discrete  # of the first dimensions; every row has a weight
    gaussian: Gaussian  # of the others

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Returns the settings: table and weights, mean and std or covariance."""
        return _DECLARED

    def settings(self) -> dict[str, Value]:
        """Returns the settings of both parts."""
        rows = self.discrete.settings()
        return {name: rows[name] for name in _OF_ROWS} | self.gaussian.settings()

    @classmethod
    def made(cls, **values: Value) -> "DiscreteGaussian":
        """Returns the distribution with these settings; raises ValueError as `Discrete` and `Gaussian` do."""
        rows = {name: values[name] for name in _OF_ROWS if values.get(name)}
        others = {n: value for n, value in values.items() if n not in _OF_ROWS}
        made = cls(Discrete.made(**rows), Gaussian.made(**others))
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), made)

    def changed(self, **values: Value) -> "DiscreteGaussian":
        """Returns the distribution with other values of these settings."""
        rows = {name: values[name] for name in _OF_ROWS if name in values}
        others = {n: value for n, value in values.items() if n not in _OF_ROWS}
        return DiscreteGaussian(
            self.discrete.changed(**rows) if rows else self.discrete,
            self.gaussian.changed(**others) if others else self.gaussian,
        )

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return self.discrete.dim + self.gaussian.dim

    @property
    def chart(self) -> "ProductChart":
        """Coordinates of the weights, then those of the Gaussian."""
        from spjax.contexts.product_chart import (
            ProductChart,
        )  # which needs the class DiscreteGaussian

        return ProductChart()

    def split(
        self, context: Float[Array, " dim"]
    ) -> tuple[Float[Array, " rows"], Float[Array, " rest"]]:
        """Returns the part of the table and the continuous part of a context."""
        return context[: self.discrete.dim], context[self.discrete.dim :]

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns one draw of each part."""
        key_row, key_rest = jax.random.split(key)
        row = self.discrete.sample(key_row)
        rest = None if space is None else _part_of(space, self.discrete.dim, space.size)
        return jnp.concatenate([row, self.gaussian.sample(key_rest, rest)])

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns log probability of the nearest row plus log density of the rest, nats."""
        row, rest = self.split(context)
        return self.discrete.log_prob(row) + self.gaussian.log_prob(rest)

    def summary(self) -> Summary:
        """Returns mean and covariance."""
        rows, rest = self.discrete.summary(), self.gaussian.summary()
        return Summary(
            jnp.concatenate([rows.mean, rest.mean]),
            jax.scipy.linalg.block_diag(rows.covariance, rest.covariance),
        )

    def kl_to(self, other: "DiscreteGaussian") -> Float[Array, ""]:
        """Returns KL(self || other) in nats, the sum of both parts."""
        return self.discrete.kl_to(other.discrete) + self.gaussian.kl_to(other.gaussian)

    def is_usable(self) -> Bool[Array, ""]:
        """Returns whether both parts are."""
        return self.discrete.is_usable() & self.gaussian.is_usable()

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks both parts against their dimensions; raises ValueError with one sentence."""
        rows = self.discrete.dim
        if rows >= space.size:
            raise ValueError(
                f"{what}.table must leave at least one of the {space.size} dimensions to the gaussian, got rows of {rows} values"
            )
        self.discrete.check(_part_of(space, 0, rows), what)
        self.gaussian.check(_part_of(space, rows, space.size), what)
        if not np.isfinite(np.asarray(self.discrete.logits)).all():
            raise ValueError(
                f"{what}.weights must be positive; leave a row without weight out of the table"
            )

    def check_target(self, target: ContextDistribution) -> None:
        """Checks that the target is over the same table; raises ValueError with one sentence."""
        super().check_target(target)
        assert isinstance(target, DiscreteGaussian)
        self.discrete.check_target(target.discrete)
        self.gaussian.check_target(target.gaussian)


def _part_of(space: ContextSpace, first: int, end: int) -> ContextSpace:
    """Returns some of the dimensions of a space."""
    return ContextSpace(
        **{
            field.name: getattr(space, field.name)[first:end]
            for field in dataclasses.fields(space)
        }
    )
