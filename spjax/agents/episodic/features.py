"""Features of contexts, for value functions and policies: static and hashable, functions of a batch of contexts."""

import abc
import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.settings import Part, setting


class Features(Part, abc.ABC):
    """What value functions and policies are linear in."""

    kind = "features"

    @abc.abstractmethod
    def __call__(self, contexts: Float[Array, "N dim"]) -> Float[Array, "N F"]:
        """Returns the features of each context."""

    def arrays(self, dim: int) -> dict[str, np.ndarray]:
        """Returns what these features of so many contexts are made of, as `spjax.agents.formula.Formula` takes it.

        Raises:
            ValueError: they are not made of arrays that it knows.
        """
        raise ValueError(
            f"a policy of the features {type(self).__name__} cannot be exported: they have no `arrays`"
        )

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks whether they are for contexts of this space; raises ValueError with one clear sentence."""


@part("features", "radial-basis")
@dataclasses.dataclass(frozen=True)
class RadialBasis(Features):
    """Gaussian bumps on a grid, normalised to sum 1 at each context, and a constant 1.

    The activation of centre m is exp(-sum_k w_k (c_k - m_k)^2); the centres lie evenly inside the bounds, none on them.
    """

    lower: tuple[float, ...] = setting(
        static=True, unit="context units", help="of the grid"
    )
    upper: tuple[float, ...] = setting(
        static=True, unit="context units", help="of the grid"
    )
    counts: tuple[int, ...] = setting(
        static=True, least=1, help="centres along each dimension"
    )
    inverse_widths: tuple[float, ...] = setting(
        static=True, least=0, unit="1 / squared context units", help="w"
    )

    def __post_init__(self) -> None:
        each = self.lower, self.upper, self.counts, self.inverse_widths
        lengths = [len(one) for one in each]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"lower, upper, counts and inverse_widths must have one entry per context dimension, got {lengths} entries"
            )

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks that the grid has the dimensions of the space."""
        if len(self.counts) != space.size:
            grid = f"a grid of {len(self.counts)} dimensions"
            raise ValueError(
                f"{what} has {grid}, contexts of this task have {space.size}"
            )

    @property
    def centres(self) -> np.ndarray:
        """The grid, [centre, dim]."""
        axes = [
            np.linspace(low, high, count + 2)[1:-1]
            for low, high, count in zip(
                self.lower, self.upper, self.counts, strict=True
            )
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(
            -1, len(axes)
        )

    def arrays(self, dim: int) -> dict[str, np.ndarray]:
        """Returns the centres and the inverse widths."""
        return {
            "centres": self.centres.astype(np.float32),
            "inverse_widths": np.asarray(self.inverse_widths, np.float32),
        }

    def __call__(self, contexts: Float[Array, "N dim"]) -> Float[Array, "N F"]:
        """Returns the bumps and the constant, last."""
        centres = jnp.asarray(self.centres, contexts.dtype)
        inverse_widths = jnp.asarray(self.inverse_widths, contexts.dtype)

        offsets = contexts[:, None] - centres[None]  # [N, centre, dim]
        bumps = jax.nn.softmax(
            -(inverse_widths[None, None] * offsets**2).sum(axis=-1), axis=-1
        )
        return jnp.concatenate([bumps, jnp.ones_like(bumps[:, :1])], axis=1)


@part("features", "polynomial")
@dataclasses.dataclass(frozen=True)
class Polynomial(Features):
    """All monomials up to a degree, the constant first; degree 1 gives the linear policies of the paper."""

    degree: int = setting(1, static=True, least=0, help="largest sum of exponents")

    def __call__(self, contexts: Float[Array, "N dim"]) -> Float[Array, "N F"]:
        """Returns the monomials by degree: 1, c_0, c_1, c_0^2, c_0 c_1, c_1^2, ..."""
        columns = [
            contexts[:, factors].prod(axis=1)
            for factors in self._monomials(contexts.shape[1])
        ]
        return jnp.stack([jnp.ones_like(contexts[:, 0]), *columns], axis=1)

    def arrays(self, dim: int) -> dict[str, np.ndarray]:
        """Returns the exponents [F, dim]."""
        exponents = [
            np.bincount(factors, minlength=dim) for factors in self._monomials(dim)
        ]
        return {"exponents": np.stack([np.zeros(dim, int), *exponents])}

    def _monomials(self, dim: int) -> list[tuple[int, ...]]:
        """Returns the contexts that each monomial but the constant multiplies."""
        return [
            factors
            for degree in range(1, self.degree + 1)
            for factors in itertools.combinations_with_replacement(range(dim), degree)
        ]
