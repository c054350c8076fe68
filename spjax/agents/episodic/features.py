"""Features of contexts, for value functions and policies: static and hashable, functions of a batch of contexts."""

import dataclasses
import itertools
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Features(Protocol):
    """What value functions and policies are linear in."""

    def __call__(self, contexts: Float[Array, "N dim"]) -> Float[Array, "N F"]:
        """Returns the features of each context."""
        ...


@dataclasses.dataclass(frozen=True)
class RadialBasis:
    """Gaussian bumps on a grid, normalised to sum 1 at each context, and a constant 1.

    The activation of centre m is exp(-sum_k w_k (c_k - m_k)^2); the centres lie evenly inside the bounds, none on them.
    """

    lower: tuple[float, ...]  # of the grid, context units
    upper: tuple[float, ...]
    counts: tuple[int, ...]  # centres along each dimension
    inverse_widths: tuple[float, ...]  # w, 1 / squared context units

    def __post_init__(self) -> None:
        lengths = {len(self.lower), len(self.upper), len(self.counts), len(self.inverse_widths)}
        if len(lengths) > 1:
            raise ValueError("lower, upper, counts and inverse_widths must have one entry per context dimension")

    @property
    def centres(self) -> np.ndarray:
        """The grid, [centre, dim]."""
        axes = [
            np.linspace(low, high, count + 2)[1:-1]
            for low, high, count in zip(self.lower, self.upper, self.counts, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def __call__(self, contexts: Float[Array, "N dim"]) -> Float[Array, "N F"]:
        """Returns the bumps and the constant, last."""
        offsets = contexts[:, None] - jnp.asarray(self.centres, contexts.dtype)
        bumps = jax.nn.softmax(-(jnp.asarray(self.inverse_widths, contexts.dtype) * offsets**2).sum(axis=-1), axis=-1)
        return jnp.concatenate([bumps, jnp.ones_like(bumps[:, :1])], axis=1)


@dataclasses.dataclass(frozen=True)
class Polynomial:
    """All monomials up to a degree, the constant first; degree 1 gives the linear policies of the paper."""

    degree: int

    def __post_init__(self) -> None:
        if self.degree < 0:
            raise ValueError(f"the degree of polynomial features must be at least 0, got {self.degree}")

    def __call__(self, contexts: Float[Array, "N dim"]) -> Float[Array, "N F"]:
        """Returns the monomials by degree: 1, c_0, c_1, c_0^2, c_0 c_1, c_1^2, ..."""
        columns = [jnp.ones_like(contexts[:, 0])]
        for degree in range(1, self.degree + 1):
            for factors in itertools.combinations_with_replacement(range(contexts.shape[1]), degree):
                columns.append(contexts[:, factors].prod(axis=1))
        return jnp.stack(columns, axis=1)
