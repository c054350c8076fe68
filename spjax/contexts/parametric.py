"""Context families in a few lines: numbers of any sign name a distribution, and automatic derivatives do the rest.

Such a family has vectors for settings and one formula each for draw, log density, moments and KL divergence. Its chart moves
the unconstrained numbers x in steps whose length is measured by the KL divergence: with F = L L' the Hessian of
KL(old || at(x)) at the old x, the Fisher information, the coordinates are z = L' (x - x_old), so KL is close to |z|^2 / 2.
"""

import abc
import dataclasses
import numbers
from collections.abc import Mapping
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import AbstractArray, Array, Bool, Float

from spjax.contexts.base import ContextDistribution, decimals
from spjax.contexts.chart import Chart, KlDirection
from spjax.contexts.space import ContextSpace
from spjax.settings import Declared, Value, check, check_value
from spjax.solvers.linalg import cholesky, solve_lower


class Vectors(ContextDistribution):
    """A family whose settings are vectors, one number a context dimension.

    What is typed is checked at once, what comes as arrays by `check`: JAX builds the class anew around tracers, batches and
    gradients too.
    """

    def __post_init__(self) -> None:
        """Turns typed numbers into arrays, and checks them; raises ValueError in one sentence."""
        leaves = [
            field.name
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if field.metadata.get("pytree_node", True)
        ]
        typed = {
            name: tuple(value)
            for name in leaves
            if _is_typed(value := getattr(self, name))
        }
        for name, value in typed.items():
            object.__setattr__(self, name, jnp.asarray(value, dtype=float))
        if typed and not (len(typed) == len(leaves) and self._are_shapes(typed)):
            self.check_typed(typed)

    @classmethod
    def made(cls, **values: Value) -> Self:
        """Returns the distribution with these settings, which `check` is to check."""
        return super().made(**_arrays(values, cls.declared()))

    def changed(self, **values: Value) -> Self:
        """Returns the distribution with other values of these settings; likewise."""
        return super().changed(**_arrays(values, self.declared()))

    def check_typed(self, typed: Mapping[str, tuple[float, ...]]) -> None:
        """Checks the ranges and the lengths of typed numbers; raises ValueError in one sentence that names the class."""
        what, declared = type(self).__name__, self.declared()
        for name, value in typed.items():
            check_value(f"{what}.{name}", declared[name], value)
        (first, size), *others = (
            (name, len(value)) for name, value in self._lengths(typed)
        )
        for name, count in others:
            if count != size:
                raise ValueError(
                    f"{what}.{name} needs as many values as {first}, {size}, got {count}"
                )

    def _lengths(
        self, typed: Mapping[str, tuple[float, ...]]
    ) -> list[tuple[str, tuple[float, ...]]]:
        """Returns what must be as long as one another."""
        return list(typed.items())

    def _are_shapes(self, typed: Mapping[str, tuple[float, ...]]) -> bool:
        """Says whether these may be the shapes of the leaves, which ``jax.tree.map`` puts in their place."""
        (one, *different) = set(typed.values())
        return not different and all(isinstance(number, int) for number in one)

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Returns the settings; a vector is spelled as a tuple of numbers."""
        return {
            name: dataclasses.replace(one, hint=tuple[float, ...])
            if _is_array(one.hint)
            else one
            for name, one in super().declared().items()
        }

    def settings(self) -> dict[str, Value]:
        """Returns the values of the settings, vectors as tuples of the shortest decimals."""
        return {
            name: decimals(value) if hasattr(value, "dtype") else value
            for name, value in super().settings().items()
        }

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return jax.tree.leaves(self)[0].shape[-1]

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks that every vector has one number a dimension, in its range; raises ValueError in one sentence."""
        for name, value in self.settings().items():
            if isinstance(value, tuple) and len(value) != space.size:
                raise ValueError(
                    f"{what}.{name} needs {space.size} values ({', '.join(space.names)}), got {len(value)}"
                )
            if np.ndim(value) > 1:
                raise ValueError(
                    f"{what}.{name} must be a vector, got shape {np.shape(value)}"
                )
        check(what, self)


class Parametric(Vectors):
    """A family of vectors that numbers of any sign name; differentiable formulas, twice and more."""

    @property
    def chart(self) -> "ParametricChart":
        """Unconstrained numbers, in steps that the KL divergence measures."""
        return ParametricChart()

    @abc.abstractmethod
    def unconstrained(self) -> Float[Array, " n"]:
        """Returns numbers that name the distribution; all reals are allowed."""

    @abc.abstractmethod
    def at(self, numbers: Float[Array, " n"]) -> Self:
        """Returns the distribution that these numbers name."""


@struct.dataclass
class ParametricData:
    """One problem."""

    old: Parametric
    target: Parametric
    contexts: Float[Array, "M dim"]
    mask: Bool[Array, " M"]
    root: Float[Array, "n n"]  # L


@dataclasses.dataclass(frozen=True)
class ParametricChart(Chart[Parametric, ParametricData]):
    """Coordinates around a distribution of any parametric family."""

    def size(self, old: Parametric) -> int:
        """Returns how many unconstrained numbers there are."""
        return old.unconstrained().size

    def prepare(
        self,
        old: Parametric,
        target: Parametric,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> ParametricData:
        """Returns the problem with the root of the Fisher information; the identity where there is none."""
        start = old.unconstrained()
        fisher = jax.hessian(lambda numbers: old.kl_to(old.at(numbers)))(start)
        root, positive = cholesky(fisher)
        root = jnp.where(positive, root, jnp.eye(start.size, dtype=start.dtype))

        # any root gives the same distributions, so none of their derivatives goes through it
        return ParametricData(old, target, contexts, mask, jax.lax.stop_gradient(root))

    def at(self, data: ParametricData, z: Float[Array, " n"]) -> Parametric:
        """Returns the distribution of x_old + L'^-1 z."""
        unit = solve_lower(data.root, jnp.eye(z.size, dtype=z.dtype))
        return data.old.at(data.old.unconstrained() + unit.T @ z)

    def coordinates(self, data: ParametricData, new: Parametric) -> Float[Array, " n"]:
        """Returns L' (x - x_old)."""
        return data.root.T @ (new.unconstrained() - data.old.unconstrained())

    def log_ratios(
        self, data: ParametricData, z: Float[Array, " n"]
    ) -> Float[Array, " M"]:
        """Returns log p_new(c) - log p_old(c) for every context."""
        new = self.at(data, z)
        ratios = jax.vmap(
            lambda context: new.log_prob(context) - data.old.log_prob(context)
        )(data.contexts)
        return jnp.where(data.mask, ratios, 0.0)

    def kl_from_old(
        self, data: ParametricData, z: Float[Array, " n"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns KL(old || new) or KL(new || old)."""
        new = self.at(data, z)
        return data.old.kl_to(new) if direction == "old-new" else new.kl_to(data.old)

    def kl_to_target_gain(
        self, data: ParametricData, z: Float[Array, " n"]
    ) -> Float[Array, ""]:
        """Returns KL(new || target) - KL(old || target)."""
        return self.at(data, z).kl_to(data.target) - data.old.kl_to(data.target)

    def rounded(
        self, data: ParametricData, z: Float[Array, " n"], dtype: jnp.dtype
    ) -> Parametric:
        """Returns the distribution at ``z`` in the caller's dtype; at zero the old one, bit for bit."""
        still = (z == 0).all()
        return jax.tree.map(
            lambda new, old: jnp.where(still, old, new).astype(dtype),
            self.at(data, z),
            data.old,
        )


def _is_typed(value: object) -> bool:
    """Says whether these are numbers that somebody typed."""
    return isinstance(value, tuple | list) and all(
        isinstance(number, numbers.Real) for number in value
    )


def _arrays(
    values: Mapping[str, Value], declared: Mapping[str, Declared]
) -> dict[str, Value]:
    """Returns typed numbers of traced settings as arrays."""
    return {
        name: jnp.asarray(value, dtype=float)
        if _is_typed(value) and not declared[name].setting.static
        else value
        for name, value in values.items()
    }


def _is_array(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)
