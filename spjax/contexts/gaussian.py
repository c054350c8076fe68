"""Gaussian context distributions: the p(c | nu) of Klink et al. (2021), Section 5.

Full covariance, kept as its Cholesky factor. All functions are pure, differentiable and work under ``jit`` and ``vmap``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts.base import ContextDistribution, Summary, decimals
from spjax.contexts.sampling import sample_inside
from spjax.contexts.space import ContextSpace
from spjax.settings import Declared, Setting, Value
from spjax.solvers.linalg import solve_lower

if TYPE_CHECKING:
    from spjax.contexts.gaussian_chart import GaussianChart

Outside = Literal["clip", "redraw"]


_DECLARED = {
    one.name: one
    for one in (
        Declared(
            "mean",
            tuple[float, ...],
            (),
            Setting(unit="context units", help="of each dimension"),
        ),
        Declared(
            "std",
            tuple[float, ...] | None,
            None,
            Setting(unit="context units", above=0, help="of independent dimensions"),
        ),
        Declared(
            "covariance",
            tuple[tuple[float, ...], ...] | None,
            None,
            Setting(unit="squared context units", help="row by row, in place of std"),
        ),
        Declared(
            "outside",
            Literal["clip", "redraw"],
            "clip",
            Setting(static=True, help="what happens to draws outside of the bounds"),
        ),
    )
}


@part("distribution", "gaussian")
@struct.dataclass
class Gaussian(ContextDistribution):
    """N(mean, chol @ chol.T) over contexts; a pytree, so it vmaps over seeds as it is."""

    mean: Float[Array, " dim"]  # context units
    chol: Float[Array, "dim dim"]  # lower triangular, positive diagonal, context units
    outside: Outside = struct.field(
        pytree_node=False, default="clip"
    )  # what becomes of draws outside the space

    @classmethod
    def from_std(
        cls,
        mean: ArrayLike | Sequence[ArrayLike],
        std: ArrayLike | Sequence[ArrayLike],
        outside: Outside = "clip",
    ) -> "Gaussian":
        """Returns the Gaussian with independent dimensions; ``std`` must be positive where it can be seen (outside jit)."""
        mean, std = jnp.asarray(mean, dtype=float), jnp.asarray(std, dtype=float)
        if mean.shape != std.shape or mean.ndim != 1:
            raise ValueError(
                f"mean and std must be vectors of one length, got shapes {mean.shape} and {std.shape}"
            )
        if not isinstance(std, jax.core.Tracer) and not bool(
            jnp.all((std > 0) & jnp.isfinite(std))
        ):
            raise ValueError(
                f"std of a gaussian must be positive and finite, got {np.asarray(std).tolist()}"
            )
        return cls(mean=mean, chol=jnp.diag(std), outside=outside)

    @classmethod
    def from_covariance(
        cls, mean: ArrayLike, covariance: ArrayLike, outside: Outside = "clip"
    ) -> "Gaussian":
        """Returns the Gaussian with this covariance. Call it outside jit.

        Raises:
            ValueError: the covariance is not symmetric positive definite, or the shapes disagree.
                Inside jit use `spjax.solvers.linalg.cholesky`, which returns a flag instead.
        """
        mean, covariance = (
            np.asarray(mean, dtype=float),
            np.asarray(covariance, dtype=float),
        )
        if mean.ndim != 1:
            raise ValueError(f"mean must be a vector, got shape {mean.shape}")
        if covariance.shape != (mean.size, mean.size) or not np.allclose(
            covariance, covariance.T, rtol=1e-6
        ):
            raise ValueError(
                f"covariance must be symmetric with shape {(mean.size, mean.size)}"
            )
        try:
            chol = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"covariance is not positive definite: {covariance.tolist()}"
            ) from None
        return cls(
            mean=jnp.asarray(mean, dtype=float),
            chol=jnp.asarray(chol, dtype=float),
            outside=outside,
        )

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Returns the settings: mean, and std or covariance."""
        return _DECLARED

    def settings(self) -> dict[str, Value]:
        """Returns the settings; the covariance where dimensions are correlated, else None, and the std."""
        chol = np.asarray(self.chol)
        independent = not np.tril(chol, -1).any()
        return {
            "mean": decimals(self.mean),
            "std": decimals(np.diagonal(chol)) if independent else None,
            "covariance": None if independent else decimals(self.covariance),
            "outside": self.outside,
        }

    @classmethod
    def made(cls, **values: Value) -> "Gaussian":
        """Returns the Gaussian with these settings."""
        outside = values.get("outside", "clip")
        mean: tuple[float, ...] = values.get("mean", ())
        std: tuple[float, ...] | None = values.get("std")
        covariance: ArrayLike | None = values.get("covariance")
        if covariance is not None and std is None:
            return cls.from_covariance(
                np.asarray(mean), np.asarray(covariance), outside
            )
        if std is None or covariance is not None:
            raise ValueError("a gaussian needs either std or covariance")
        if len(mean) != len(std):
            raise ValueError(
                f"a gaussian needs as many values of std as of mean, got {len(std)} and {len(mean)}"
            )
        return cls(
            jnp.asarray(mean, jnp.float32),
            jnp.diag(jnp.asarray(std, jnp.float32)),
            outside,
        )

    def changed(self, **values: Value) -> "Gaussian":
        """Returns the Gaussian with other values of these settings; one of std and covariance replaces the other."""
        old = self.settings()
        if values.get("std") is not None:
            old["covariance"] = None
        if values.get("covariance") is not None:
            old["std"] = None
        return self.made(**{**old, **values})

    @property
    def covariance(self) -> Float[Array, "dim dim"]:
        """The covariance matrix, squared context units."""
        return self.chol @ self.chol.T

    @property
    def std(self) -> Float[Array, " dim"]:
        """The marginal standard deviations, context units."""
        return jnp.sqrt((self.chol**2).sum(axis=1))

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return self.mean.shape[-1]

    @property
    def chart(self) -> "GaussianChart":
        """Whitened coordinates, with hand-written derivatives."""
        from spjax.contexts.gaussian_chart import (
            GaussianChart,
        )  # which needs the class Gaussian

        return GaussianChart()

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns one draw, reparameterised, so differentiable in mean and chol.

        In a space a draw outside is moved to the nearest context inside ("clip") or drawn again ("redraw").
        """
        if space is not None and self.outside == "redraw":
            return self.sample_many(key, space, 1)[0]
        context = self.mean + self.chol @ jax.random.normal(
            key, self.mean.shape, self.mean.dtype
        )
        return context if space is None else space.clip(context)

    def sample_many(
        self, key: Array, space: ContextSpace | None, count: int
    ) -> Float[Array, "count dim"]:
        """Returns independent draws; "redraw" draws all of them from one key until none lies outside."""
        if space is None or self.outside == "clip":
            return super().sample_many(key, space, count)
        means = jnp.broadcast_to(self.mean, (count, space.size))
        return sample_inside(key, means, self.chol, space.lower, space.upper)

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log density in nats at one context."""
        whitened = solve_lower(self.chol, context - self.mean)
        log_det = jnp.log(jnp.diagonal(self.chol)).sum()
        return (
            -0.5 * (whitened**2).sum()
            - log_det
            - 0.5 * self.mean.size * jnp.log(2 * jnp.pi)
        )

    def summary(self) -> Summary:
        """Returns mean and covariance."""
        return Summary(mean=self.mean, covariance=self.covariance)

    def kl_to(self, other: "Gaussian") -> Float[Array, ""]:
        """Returns KL(self || other) in nats."""
        return kl_divergence(self, other)

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks that the mean lies in the space and the factor has one positive, finite diagonal entry a dimension.

        Raises:
            ValueError: one sentence with "<what>.mean" or "<what>.std".
        """
        names = ", ".join(space.names)
        if np.ndim(self.mean) != 1:
            raise ValueError(
                f"{what}.mean needs {space.size} values ({names}), got shape {np.shape(self.mean)}"
            )
        space.check(decimals(self.mean), f"{what}.mean")
        shape = np.shape(self.chol)
        if shape != (space.size, space.size):
            got = shape[0] if shape == shape[:1] * 2 else f"a factor of shape {shape}"
            raise ValueError(
                f"{what}.std needs {space.size} values ({names}), got {got}"
            )
        for name, value, pivot in zip(
            space.names, decimals(self.std), np.diagonal(self.chol), strict=True
        ):
            if not (0 < value < float("inf") and pivot > 0):
                raise ValueError(
                    f"{what}.std of {name} must be positive and finite, got {value:g}"
                )
        if self.outside not in get_args(Outside):
            raise ValueError(
                f'{what}: outside must be "clip" or "redraw", got {self.outside!r}'
            )


def kl_divergence(p: Gaussian, q: Gaussian) -> Float[Array, ""]:
    """Returns KL(p || q) in nats; finite only where both diagonals are positive.

    The log-determinant is taken together with the trace as ``expm1(2t) - 2t``, t = log(p_ii / q_ii), so nearly equal
    distributions do not cancel: the result is >= 0 in float32 too.
    """
    ratio = solve_lower(q.chol, p.chol)
    shift = solve_lower(q.chol, p.mean - q.mean)
    log_scale = jnp.log(jnp.diagonal(ratio))
    off_diagonal = jnp.tril(ratio, -1)
    return 0.5 * (
        _expm1_minus(2 * log_scale).sum() + (off_diagonal**2).sum() + (shift**2).sum()
    )


def _expm1_minus(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Returns exp(x) - 1 - x >= 0 without cancellation near zero (Taylor series where |x| is small)."""
    small = jnp.abs(x) < 0.02
    near = jnp.where(small, x, 0.0)
    series = near**2 * (0.5 + near * (1 / 6 + near * (1 / 24 + near / 120)))
    return jnp.where(small, series, jnp.expm1(x) - x)
