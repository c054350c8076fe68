"""The context space: names, units and bounds of the task parameters."""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


@dataclasses.dataclass(frozen=True)
class ContextSpace:
    """An axis-aligned box of tasks; static and hashable."""

    names: tuple[str, ...]
    units: tuple[str, ...]  # "1" for a dimensionless context
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __post_init__(self) -> None:
        if (
            not len(self.names)
            == len(self.units)
            == len(self.lower)
            == len(self.upper)
            > 0
        ):
            raise ValueError(
                "names, units, lower and upper must have one entry per context dimension"
            )
        for name, low, high in zip(self.names, self.lower, self.upper, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(
                    f"bounds of context {name!r} must be finite with lower < upper, got [{low}, {high}]"
                )

    @property
    def size(self) -> int:
        """The number of context dimensions."""
        return len(self.names)

    def clip(self, context: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """Returns the nearest context inside the bounds."""
        lower = lax.broadcast_to_rank(
            jnp.asarray(self.lower, context.dtype), context.ndim
        )
        upper = lax.broadcast_to_rank(
            jnp.asarray(self.upper, context.dtype), context.ndim
        )
        return jnp.clip(context, lower, upper)

    def fold(self, context: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Returns a context, reflected at the bounds that it is beyond; never farther from a place inside than it was."""
        lower = jnp.asarray(self.lower, context.dtype)
        upper = jnp.asarray(self.upper, context.dtype)
        above = lower + jnp.abs(context - lower)
        return self.clip(upper - jnp.abs(upper - above))

    def sample_uniform(self, key: Array) -> Float[Array, " dim"]:
        """Returns a context drawn uniformly over the bounds."""
        lower, upper = jnp.asarray(self.lower), jnp.asarray(self.upper)
        return jax.random.uniform(key, lower.shape, lower.dtype, lower, upper)

    def describe(self, context: Sequence[float]) -> str:
        """Returns a context in words, for example "gate position 2.5 m, gate width 0.5 m"."""
        parts = zip(self.names, context, self.units, strict=True)
        return ", ".join(
            f"{name} {value:g}" + ("" if unit == "1" else f" {unit}")
            for name, value, unit in parts
        )

    def check(self, context: Sequence[float], what: str = "context") -> None:
        """Checks one concrete context.

        Raises:
            ValueError: wrong length, not finite, or outside the bounds; the message names the dimension and its range.
        """
        if len(context) != self.size:
            raise ValueError(
                f"{what} needs {self.size} values ({', '.join(self.names)}), got {len(context)}"
            )
        for name, unit, low, high, value in zip(
            self.names, self.units, self.lower, self.upper, context, strict=True
        ):
            if not low <= value <= high:  # False for NaN too
                where = f"[{low:g}, {high:g}]" + ("" if unit == "1" else f" {unit}")
                raise ValueError(
                    f"{what}: {name} = {value:g} lies outside its bounds {where}"
                )
