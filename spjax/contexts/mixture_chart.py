"""Coordinates around a mixture of Gaussians: those of its weights (`spjax.contexts.weights`), then those of each component.

Component i moves by the coordinates of its Gaussian (`spjax.contexts.gaussian_chart`) divided by sqrt(w_i), since its
divergence counts with w_i. Derivatives are automatic.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.contexts.chart import Chart, KlDirection
from spjax.contexts.gaussian_chart import GaussianChart, GaussianData
from spjax.contexts.mixture import Mixture
from spjax.contexts.weights import WeightCoordinates, kl_of_weights

GAUSSIAN = GaussianChart()


@struct.dataclass
class MixtureData:
    """One problem."""

    old: Mixture
    parts: GaussianData  # of all components, stacked
    log_target: Float[Array, " K"]  # log weights of the target
    start: Float[Array, " K"]  # KL(old || target) of each component
    shares: Float[Array, "M K"]  # log probability of each component, given the context
    mask: Bool[Array, " M"]
    weights: WeightCoordinates


@dataclasses.dataclass(frozen=True)
class MixtureChart(Chart[Mixture, MixtureData]):
    """Coordinates around a mixture."""

    def size(self, old: Mixture) -> int:
        """Returns K - 1, and k (k + 3) / 2 for each component."""
        count = old.weights.shape[-1]
        return count - 1 + count * old.dim * (old.dim + 3) // 2

    def prepare(
        self,
        old: Mixture,
        target: Mixture,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> MixtureData:
        """Returns the problem of every component, and which of them a context is likely to be of."""
        parts = jax.vmap(
            lambda one, end: GAUSSIAN.prepare(one, end, contexts, mask)
        )(old.components, target.components)  # fmt: skip
        shares = jax.nn.log_softmax(jax.vmap(old.log_probs)(contexts))
        apart = jax.vmap(lambda one, end: one.kl_to(end))
        return MixtureData(
            old=old,
            parts=parts,
            log_target=target.log_weights,
            start=apart(old.components, target.components),
            shares=shares,
            mask=mask,
            weights=WeightCoordinates.around(old.log_weights),
        )

    def at(self, data: MixtureData, z: Float[Array, " n"]) -> Mixture:
        """Returns the mixture at ``z``; the old one, but for rounding, at zero."""
        change, parts = self._split(data, z)
        components = jax.vmap(GAUSSIAN.at)(data.parts, parts)
        return Mixture(jnp.exp(data.old.log_weights + change), components)

    def coordinates(self, data: MixtureData, new: Mixture) -> Float[Array, " n"]:
        """Returns where ``at`` is this mixture."""
        parts = jax.vmap(GAUSSIAN.coordinates)(data.parts, new.components)
        shrunk = parts / data.weights.stretch[:, None]
        weights = data.weights.coordinates(new.log_weights)
        return jnp.concatenate([weights, shrunk.reshape(-1)])

    def log_ratios(
        self, data: MixtureData, z: Float[Array, " n"]
    ) -> Float[Array, " M"]:
        """Returns the log of the mean over components, given the context, of the ratio of each."""
        change, parts = self._split(data, z)
        ratios = jax.vmap(GAUSSIAN.log_ratios)(data.parts, parts).T
        ratio = jax.nn.logsumexp(data.shares + change[None] + ratios, axis=1)
        return jnp.where(data.mask, ratio, 0.0)

    def kl_from_old(
        self, data: MixtureData, z: Float[Array, " n"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns the bound of KL(old || new) or KL(new || old)."""
        change, parts = self._split(data, z)
        old = data.old.log_weights
        new = old + change
        apart = jax.vmap(lambda one, z: GAUSSIAN.kl_from_old(one, z, direction))(
            data.parts, parts
        )
        first, second = (old, new) if direction == "old-new" else (new, old)
        return kl_of_weights(first, second) + (jnp.exp(first) * apart).sum()

    def kl_to_target_gain(
        self, data: MixtureData, z: Float[Array, " n"]
    ) -> Float[Array, ""]:
        """Returns the change of the bound of KL(. || target)."""
        change, parts = self._split(data, z)
        old = data.old.log_weights
        new = old + change
        gains = jax.vmap(GAUSSIAN.kl_to_target_gain)(data.parts, parts)
        moved = jnp.exp(old) * jnp.expm1(change)  # w' - w
        of_weights = kl_of_weights(new, data.log_target) - kl_of_weights(
            old, data.log_target
        )
        return of_weights + (jnp.exp(new) * gains + moved * data.start).sum()

    def rounded(
        self, data: MixtureData, z: Float[Array, " n"], dtype: jnp.dtype
    ) -> Mixture:
        """Returns the mixture at ``z`` in the caller's dtype; at zero the old one, bit for bit."""
        still = (z == 0).all()
        return jax.tree.map(
            lambda new, old: jnp.where(still, old, new).astype(dtype),
            self.at(data, z),
            data.old,
        )

    def _split(
        self, data: MixtureData, z: Float[Array, " n"]
    ) -> tuple[Float[Array, " K"], Float[Array, "K n_component"]]:
        """Returns log w' - log w, and the coordinates of the components."""
        size, stretch = data.weights.size, data.weights.stretch
        parts = z[size:].reshape(stretch.size, -1) * stretch[:, None]
        return data.weights.change(z[:size]), parts
