"""Coordinates around a discrete times a Gaussian distribution: those of the weights, then those of the Gaussian."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts.chart import Chart, KlDirection
from spjax.contexts.gaussian_chart import GaussianChart, GaussianData
from spjax.contexts.product import DiscreteGaussian
from spjax.contexts.weights import WeightCoordinates, kl_of_weights

GAUSSIAN = GaussianChart()


@struct.dataclass
class ProductData:
    """One problem."""

    old: DiscreteGaussian
    part: GaussianData
    log_target: Float[Array, " N"]  # log weights of the target
    rows: Int[Array, " M"]  # of the episodes' contexts
    mask: Bool[Array, " M"]
    weights: WeightCoordinates


@dataclasses.dataclass(frozen=True)
class ProductChart(Chart[DiscreteGaussian, ProductData]):
    """Coordinates around a product; derivatives are automatic."""

    def size(self, old: DiscreteGaussian) -> int:
        """Returns N - 1, and k (k + 3) / 2 of the Gaussian."""
        return old.discrete.logits.shape[-1] - 1 + GAUSSIAN.size(old.gaussian)

    def prepare(
        self,
        old: DiscreteGaussian,
        target: DiscreteGaussian,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> ProductData:
        """Returns the problem, with the row of every context."""
        rows, rest = jax.vmap(old.split)(contexts)
        return ProductData(
            old=old,
            part=GAUSSIAN.prepare(old.gaussian, target.gaussian, rest, mask),
            log_target=target.discrete.log_probs,
            rows=jax.vmap(old.discrete.nearest)(rows),
            mask=mask,
            weights=WeightCoordinates.around(old.discrete.log_probs),
        )

    def at(self, data: ProductData, z: Float[Array, " n"]) -> DiscreteGaussian:
        """Returns the distribution at ``z``; the old one, but for rounding, at zero."""
        size = data.weights.size
        logits = data.weights.log_old + data.weights.change(z[:size])
        return DiscreteGaussian(
            dataclasses.replace(data.old.discrete, logits=logits),
            GAUSSIAN.at(data.part, z[size:]),
        )

    def coordinates(
        self, data: ProductData, new: DiscreteGaussian
    ) -> Float[Array, " n"]:
        """Returns where ``at`` is this distribution."""
        weights = data.weights.coordinates(new.discrete.log_probs)
        return jnp.concatenate([weights, GAUSSIAN.coordinates(data.part, new.gaussian)])

    def log_ratios(
        self, data: ProductData, z: Float[Array, " n"]
    ) -> Float[Array, " M"]:
        """Returns the sum of both parts' for every context."""
        size = data.weights.size
        of_row = data.weights.change(z[:size])[data.rows]
        return jnp.where(
            data.mask, of_row + GAUSSIAN.log_ratios(data.part, z[size:]), 0.0
        )

    def kl_from_old(
        self, data: ProductData, z: Float[Array, " n"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns KL(old || new) or KL(new || old)."""
        size, old = data.weights.size, data.weights.log_old
        new = old + data.weights.change(z[:size])
        pair = (old, new) if direction == "old-new" else (new, old)
        rest = GAUSSIAN.kl_from_old(data.part, z[size:], direction)
        return kl_of_weights(*pair) + rest

    def kl_to_target_gain(
        self, data: ProductData, z: Float[Array, " n"]
    ) -> Float[Array, ""]:
        """Returns KL(new || target) - KL(old || target)."""
        size, old = data.weights.size, data.weights.log_old
        new = old + data.weights.change(z[:size])
        of_weights = kl_of_weights(new, data.log_target)
        of_weights -= kl_of_weights(old, data.log_target)
        return of_weights + GAUSSIAN.kl_to_target_gain(data.part, z[size:])

    def rounded(
        self, data: ProductData, z: Float[Array, " n"], dtype: jnp.dtype
    ) -> DiscreteGaussian:
        """Returns the distribution at ``z`` in the caller's dtype; at zero the old one, bit for bit."""
        still = (z == 0).all()
        return jax.tree.map(
            lambda new, old: jnp.where(still, old, new).astype(dtype),
            self.at(data, z),
            data.old,
        )
