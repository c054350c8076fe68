"""Truncated Gaussians: independent normals on a box, with the density that draws within the box have.

Each dimension is N(mean, std^2) given that lower <= c <= upper. In units of the old one, v = (c - mean_old) / std_old, it is an
exponential family with v and -v^2 / 2 and the natural parameters t2 = (std_old / std)^2 and t1 = t2 (mean - mean_old) / std_old.
The mean lies in the box, so no tail ever stands for all of the mass, and the std is at most twice the width of the box,
where the density of one in the middle varies by three parts in a hundred; both limits are linear in the parameters.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts.base import Summary
from spjax.contexts.exponential import Boxed, Natural
from spjax.contexts.space import ContextSpace
from spjax.settings import setting
from spjax.solvers.series import expm1_minus

WIDEST = 2.0  # std, in widths of the box


@struct.dataclass
class Cut:
    """What truncation changes, of the standardised distribution v = (c - mean) / std."""

    mass: Float[Array, " dim"]  # Z, of the normal within the box
    mean: Float[Array, " dim"]  # E[v]
    loss: Float[Array, " dim"]  # 1 - E[v^2]


@part("distribution", "truncated-gaussian")
@struct.dataclass
class TruncatedGaussian(Boxed):
    """Independent normals, truncated to a box."""

    mean: Float[Array, " dim"] = setting(
        unit="context units", help="of the normal before it is truncated, in the box"
    )
    std: Float[Array, " dim"] = setting(
        above=0, unit="context units", help="likewise; at most 2 widths of the box"
    )

    @property
    def ends(self) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """The bounds, from the mean in standard deviations."""
        low = (self.low - self.mean) / self.std
        return low, low + self.width / self.std

    @property
    def cut(self) -> Cut:
        """What truncation does."""
        low, high = self.ends
        mass = _mass(low, high)
        at_low, at_high = _density(low), _density(high)
        return Cut(
            mass=mass,
            mean=(at_low - at_high) / mass,
            loss=(high * at_high - low * at_low) / mass,
        )

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns one draw; it lies in the box."""
        standard = jax.random.truncated_normal(
            key, *self.ends, self.mean.shape, self.mean.dtype
        )
        context = self.mean + self.std * standard
        context = jnp.clip(context, self.low, self.low + self.width)
        return context if space is None else space.clip(context)

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log density in nats at one context of the box."""
        standard = (context - self.mean) / self.std
        scale = jnp.log(self.std * self.cut.mass) + 0.5 * math.log(2 * math.pi)
        return (-0.5 * standard**2 - scale).sum()

    def summary(self) -> Summary:
        """Returns mean and covariance of what is drawn."""
        cut = self.cut
        variance = self.std**2 * (1 - cut.loss - cut.mean**2)
        return Summary(self.mean + self.std * cut.mean, jnp.diag(variance))

    def moved(self, change: Natural) -> "TruncatedGaussian":
        """Returns the distribution with natural parameters (0, 1) + change."""
        second = 1 + change[:, 1]
        return dataclasses.replace(
            self,
            mean=self.mean + self.std * change[:, 0] / second,
            std=self.std / jnp.sqrt(second),
        )

    def change_to(self, other: "TruncatedGaussian") -> Natural:
        """Returns the natural parameters of the other less (0, 1)."""
        first = (other.mean - self.mean) / self.std * (self.std / other.std) ** 2
        second = (self.std - other.std) * (self.std + other.std) / other.std**2
        return jnp.stack([first, second], axis=-1)

    def centred(self, context: Float[Array, " dim"]) -> Natural:
        """Returns v and -v^2 / 2 less their means."""
        cut, standard = self.cut, (context - self.mean) / self.std
        square = 0.5 * (1 - cut.loss - standard**2)
        return jnp.stack([standard - cut.mean, square], axis=-1)

    def gap(self, change: Natural) -> Float[Array, " dim"]:
        """Returns KL(self || moved): that of the normals, and what truncation changes."""
        first, second = change[:, 0], 1 + change[:, 1]
        cut, (low, high) = self.cut, self.ends
        normal = 0.5 * (expm1_minus(jnp.log1p(change[:, 1])) + first**2 / second)
        moments = -first * cut.mean - 0.5 * change[:, 1] * cut.loss
        root, mean = jnp.sqrt(second), first / second
        mass = _mass((low - mean) * root, (high - mean) * root)
        return normal + moments + jnp.log(mass / cut.mass)

    def limits(self, change: Natural) -> Float[Array, " m"]:
        """Returns how far the mean is outside of the box, and how far the std is above its largest; times t2."""
        first, second = change[:, 0], 1 + change[:, 1]
        low, high = self.ends
        widest = (self.std / (WIDEST * self.width)) ** 2
        return jnp.concatenate(
            [low * second - first, first - high * second, widest - second]
        )

    def check_box(
        self,
        what: str,
        dimensions: Sequence[str],
        vectors: Mapping[str, tuple[float, ...]],
    ) -> None:
        """Checks the box, that the mean lies in it and that the std is not too large; raises ValueError in one sentence."""
        super().check_box(what, dimensions, vectors)
        boxes = list(zip(dimensions, self.lower, self.upper, strict=True))
        for (name, low, high), mean in zip(
            boxes, vectors.get("mean", ()), strict=False
        ):
            if not low <= mean <= high:
                raise ValueError(
                    f"{what}.mean of {name} must lie in the box [{low:g}, {high:g}], got {mean:g}"
                )
        for (name, low, high), std in zip(boxes, vectors.get("std", ()), strict=False):
            if not 0 < std <= WIDEST * (high - low):
                raise ValueError(
                    f"{what}.std of {name} must be positive and at most {WIDEST:g} widths of the box, "
                    f"{WIDEST * (high - low):g}, got {std:g}"
                )


def _mass(
    low: Float[Array, " dim"], high: Float[Array, " dim"]
) -> Float[Array, " dim"]:
    """Returns the standard normal's mass between low <= 0 and high >= 0, a sum of what is on both sides."""
    return 0.5 * (jax.lax.erf(high / 2**0.5) - jax.lax.erf(low / 2**0.5))


def _density(x: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Returns the standard normal density."""
    return jnp.exp(-0.5 * x**2) / np.sqrt(2 * np.pi).astype(x.dtype)
