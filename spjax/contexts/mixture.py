"""Mixtures of Gaussians: curricula with several modes, for targets that are reached by more than one way.

There is no formula for the divergence of two mixtures. With the components matched by their numbers,

    KL(sum_i w_i p_i || sum_i v_i q_i) <= KL(w || v) + sum_i w_i KL(p_i || q_i)

is one of an upper bound (the divergence of number and context together), so an update that keeps the bound keeps the promise.
The target has as many components as the initial distribution, each the end of the way of one.
"""

import dataclasses
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts.base import Components, ContextDistribution, Summary, decimals
from spjax.contexts.gaussian import Gaussian, Outside
from spjax.contexts.space import ContextSpace
from spjax.contexts.weights import kl_of_weights
from spjax.settings import Declared, Setting, Value, nearest

if TYPE_CHECKING:
    from spjax.contexts.mixture_chart import MixtureChart

_ROWS = tuple[tuple[float, ...], ...]
_DECLARED = {
    one.name: one
    for one in (
        Declared(
            "means",
            _ROWS,
            dataclasses.MISSING,
            Setting(unit="context units", help="a row for each component"),
        ),
        Declared(
            "stds",
            _ROWS | None,
            None,
            Setting(
                unit="context units",
                above=0,
                help="likewise, of independent dimensions",
            ),
        ),
        Declared(
            "covariances",
            _ROWS | None,
            None,
            Setting(
                unit="squared context units",
                help="likewise, its matrix row by row, in place of stds",
            ),
        ),
        Declared(
            "weights",
            tuple[float, ...] | None,
            None,
            Setting(above=0, help="of the components, 1 together; None for equal ones"),
        ),
        Gaussian.declared()["outside"],
    )
}


@part("distribution", "mixture")
@struct.dataclass
class Mixture(ContextDistribution):
    """One of several Gaussians, drawn by their weights; a pytree, so it vmaps over seeds as it is."""

    weights: Float[Array, " K"]  # > 0; they sum to 1 up to rounding
    components: Gaussian  # all of them, stacked: its mean is [K, dim]

    @classmethod
    def of(cls, components: list[Gaussian], weights: list[float]) -> "Mixture":
        """Returns the mixture of these Gaussians; the weights must be positive, and 1 together. Call it outside jit.

        Raises:
            ValueError: weights that are not, or as many of them as there are no components.
        """
        shares = np.asarray(weights, dtype=float)
        sizes = sorted({component.dim for component in components})
        if len(sizes) > 1:
            raise ValueError(
                f"components of a mixture must have as many dimensions as one another, got {sizes}"
            )
        if not components or shares.shape != (len(components),):
            raise ValueError(
                f"a mixture of {len(components)} components needs as many weights, got {shares.size}"
            )
        if not (np.isfinite(shares) & (shares > 0)).all():
            raise ValueError(
                f"weights of a mixture must be positive and finite, got {shares.tolist()}"
            )
        if abs(shares.sum() - 1) > 1e-5:
            raise ValueError(
                f"weights of a mixture must sum to 1, got {shares.tolist()}, which sum to {shares.sum():g}"
            )
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *components)
        return cls(jnp.asarray(shares, stacked.mean.dtype), stacked)

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Returns the settings: means, stds or covariances, and weights."""
        return _DECLARED

    def settings(self) -> dict[str, Value]:
        """Returns the settings, covariances where dimensions are correlated."""
        parts = [self.component(i).settings() for i in range(len(self.weights))]
        independent = all(one["std"] is not None for one in parts)
        covariances = np.asarray(jax.vmap(lambda one: one.covariance)(self.components))
        rows = covariances.reshape(len(parts), -1)
        return {
            "means": tuple(one["mean"] for one in parts),
            "stds": tuple(one["std"] for one in parts) if independent else None,
            "covariances": None if independent else decimals(rows),
            "weights": decimals(self.weights),
            "outside": self.components.outside,
        }

    @classmethod
    def made(cls, **values: Value) -> "Mixture":
        """Returns the mixture with these settings.

        Raises:
            ValueError: neither stds nor covariances, or not as many as means; an unknown name; and as `of`.
        """
        known = cls.declared()
        for name in values:
            if name not in known:
                raise ValueError(
                    f"a mixture has no setting {name!r}; {nearest(name, known)}"
                )
        means, stds = values.get("means", ()), values.get("stds")
        spreads = values.get("covariances") if stds is None else stds
        if spreads is None or (stds is not None and values.get("covariances")):
            raise ValueError("a mixture needs either stds or covariances")
        if len(means) != len(spreads) or not means:
            raise ValueError(
                f"a mixture needs as many rows of stds or covariances as of means, got {len(spreads)} and {len(means)}"
            )
        outside = values.get("outside", "clip")
        components = [
            _component(mean, spread, stds is None, outside)
            for mean, spread in zip(means, spreads, strict=True)
        ]
        weights = values.get("weights")
        equal = [1 / len(means)] * len(means)
        return cls.of(components, equal if weights is None else list(weights))

    def changed(self, **values: Value) -> "Mixture":
        """Returns the mixture with other values of these settings; one of stds and covariances replaces the other."""
        old = self.settings()
        if values.get("stds") is not None:
            old["covariances"] = None
        if values.get("covariances") is not None:
            old["stds"] = None
        means = values["means"] if "means" in values else old["means"]
        if len(means) != len(old["means"]):
            old["weights"] = None
        return self.made(**{**old, **values})

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return self.components.mean.shape[-1]

    @property
    def chart(self) -> "MixtureChart":
        """Log ratios of the weights, and the Gaussian's coordinates for each component."""
        from spjax.contexts.mixture_chart import (
            MixtureChart,
        )  # which needs the class Mixture

        return MixtureChart()

    @property
    def log_weights(self) -> Float[Array, " K"]:
        """The log weights, nats."""
        return jnp.log(self.weights / self.weights.sum())

    def component(self, number: int | Array) -> Gaussian:
        """Returns one of the Gaussians."""
        return jax.tree.map(lambda leaf: leaf[number], self.components)

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns a draw of a component that is drawn first."""
        key_number, key_context = jax.random.split(key)
        number = jax.random.categorical(key_number, self.log_weights)
        return self.component(number).sample(key_context, space)

    def log_probs(self, context: Float[Array, " dim"]) -> Float[Array, " K"]:
        """Returns weight times density of each component, in nats."""
        densities = jax.vmap(lambda one: one.log_prob(context))(self.components)
        return self.log_weights + densities

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log density in nats at one context."""
        return jax.nn.logsumexp(self.log_probs(context))

    def summary(self) -> Summary:
        """Returns mean and covariance of the whole."""
        weights, means = jnp.exp(self.log_weights), self.components.mean
        mean = weights @ means
        apart = means - mean[None]
        within = jax.vmap(lambda one: one.covariance)(self.components)
        covariance = (weights[:, None, None] * within).sum(axis=0)
        return Summary(mean, covariance + (weights[:, None] * apart).T @ apart)

    def mixed(self) -> Components:
        """Returns weights, means and covariances of the components."""
        covariances = jax.vmap(lambda one: one.covariance)(self.components)
        return Components(jnp.exp(self.log_weights), self.components.mean, covariances)

    def kl_to(self, other: "Mixture") -> Float[Array, ""]:
        """Returns KL(w || v) + sum w_i KL(p_i || q_i), an upper bound of KL(self || other), nats."""
        apart = jax.vmap(lambda p, q: p.kl_to(q))(self.components, other.components)
        return (
            kl_of_weights(self.log_weights, other.log_weights)
            + (jnp.exp(self.log_weights) * apart).sum()
        )

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks every component as a Gaussian; raises ValueError with one sentence."""
        for number in range(len(self.weights)):
            self.component(number).check(space, f"{what}, component {number}")
        shares = np.asarray(self.weights)
        if not (np.isfinite(shares) & (shares > 0)).all():
            raise ValueError(
                f"{what}: weights must be positive and finite, got {shares.tolist()}"
            )

    def check_target(self, target: ContextDistribution) -> None:
        """Checks that the target has as many components; raises ValueError with one sentence."""
        super().check_target(target)
        assert isinstance(target, Mixture)
        if target.weights.shape != self.weights.shape:
            raise ValueError(
                f"old and target must have as many components, got {len(self.weights)} and {len(target.weights)}; "
                "several components may have the same end"
            )


def _component(
    mean: tuple[float, ...],
    spread: tuple[float, ...],
    correlated: bool,
    outside: Outside,
) -> Gaussian:
    """Returns a Gaussian of standard deviations, or of a covariance row by row."""
    if not correlated:
        return Gaussian.made(mean=mean, std=spread, outside=outside)
    if len(spread) != len(mean) ** 2:
        raise ValueError(
            f"a covariance of {len(mean)} dimensions needs {len(mean) ** 2} values, row by row, got {len(spread)}"
        )
    matrix = np.reshape(spread, (len(mean), len(mean)))
    made = Gaussian.from_covariance(np.asarray(mean), matrix, outside)
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), made)
