"""The context update in the coordinates of the old distribution, with hand-written first and second derivatives.

With the old distribution N(m0, L0 L0') whiten contexts as u = L0^-1 (c - m0) and write the new one by the map that whitens
*its* samples: v = W u + w, W lower triangular with a positive diagonal, so m = m0 - L0 W^-1 w and L = L0 W^-1. The unknown is
Z = [W - I, w], n = k (k + 3) / 2 numbers. Z = 0 is the old distribution, and the 1e6 in condition between a wide old
distribution and a narrow target is gone. In these coordinates

    log p_new(c) - log p_old(c) = (|u|^2 - |v|^2) / 2 + sum log W_jj,
    KL(old || new) = [sum(W_jj^2 - 1 - 2 log W_jj) + sum off(W)^2 + |w|^2] / 2,
    KL(new || q)   = [|R X|^2 - k] / 2 + sum log W_jj + const,   X = [W w; 0 1]^-1,  R = Lq^-1 [L0, m0 - mq],

and with entries (i, j) of Z the second derivative of |R X|^2 / 2 is
S_ii' (X X')_jj' + X_ji' (X S)_j'i + X_j'i (X S)_ji', S = X' R' R X.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.contexts.chart import Chart, Coefficients, Gradients, KlDirection
from spjax.contexts.gaussian import Gaussian
from spjax.solvers.linalg import solve_lower

SECOND_START = 0.7  # distance from the old mean, in units of the trust region's radius


@struct.dataclass
class GaussianData:
    """One problem in whitened coordinates."""

    old: Gaussian
    features: Float[Array, "dim+1 M"]  # columns [u, 1]; zero where masked out
    to_target: Float[Array, "dim dim+1"]  # R of the target
    floored: Bool[Array, " dim"]  # whether a dimension has a standard-deviation floor
    caps: Float[Array, " dim"]  # W_jj - 1 <= cap keeps the floor
    lowest: Float[
        Array, " dim"
    ]  # what the Cholesky factor's diagonal may not fall below, context units


@dataclasses.dataclass(frozen=True)
class GaussianChart(Chart[Gaussian, GaussianData]):
    """Coordinates around a Gaussian: the free entries of Z, row by row."""

    has_floors = True

    def size(self, old: Gaussian) -> int:
        """Returns k (k + 3) / 2."""
        return old.dim * (old.dim + 3) // 2

    def prepare(
        self,
        old: Gaussian,
        target: Gaussian,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> GaussianData:
        """Returns whitened contexts and target; without floors."""
        whitened = solve_lower(old.chol, (contexts - old.mean[None]).T)
        features = jnp.where(
            mask, jnp.concatenate([whitened, jnp.ones_like(whitened[:1])]), 0.0
        )
        shift = (old.mean - target.mean)[:, None]
        return GaussianData(
            old=old,
            features=features,
            to_target=solve_lower(
                target.chol, jnp.concatenate([old.chol, shift], axis=1)
            ),
            floored=jnp.zeros(old.dim, bool),
            caps=jnp.zeros_like(old.mean),
            lowest=jnp.zeros_like(old.mean),
        )

    def with_floor(
        self, data: GaussianData, std_floor: Float[Array, " dim"]
    ) -> GaussianData:
        """Returns data with lower bounds of the Cholesky factor's diagonal, context units; 0 where there is none."""
        floored = std_floor > 0
        diagonal = jnp.diagonal(data.old.chol)
        caps = jnp.maximum(0.0, diagonal / jnp.where(floored, std_floor, 1.0) - 1.0)
        return dataclasses.replace(
            data, floored=floored, caps=caps, lowest=jnp.minimum(std_floor, diagonal)
        )

    def at(self, data: GaussianData, z: Float[Array, " n"]) -> Gaussian:
        """Returns N(m0 + L0 d, L0 T T' L0'); exactly the old one at zero."""
        old = data.old
        step = inverse(to_matrix(z, old.dim))
        mean = old.mean + old.chol @ step[:-1, -1]
        return dataclasses.replace(old, mean=mean, chol=old.chol @ step[:-1, :-1])

    def coordinates(self, data: GaussianData, new: Gaussian) -> Float[Array, " n"]:
        """Returns the free entries of Z = [L^-1 L0 - I, L^-1 (m0 - m)]."""
        old = data.old
        difference = jnp.concatenate(
            [old.chol - new.chol, (old.mean - new.mean)[:, None]], axis=1
        )
        return solve_lower(new.chol, difference)[layout(old.dim)]

    def log_ratios(
        self, data: GaussianData, z: Float[Array, " n"]
    ) -> Float[Array, " M"]:
        """Returns log p_new(c) - log p_old(c) for every context."""
        dim = data.caps.size
        z = to_matrix(z, dim)
        shift = z @ data.features  # v - u
        return jnp.log1p(_diagonal(z)).sum() - (
            shift * (data.features[:dim] + 0.5 * shift)
        ).sum(axis=0)

    def kl_from_old(
        self, data: GaussianData, z: Float[Array, " n"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns KL(old || new) or KL(new || old); exact, >= 0 in any precision."""
        z = to_matrix(z, data.caps.size)
        if direction == "new-old":
            z = inverse(z)[:-1] - jnp.eye(z.shape[0], z.shape[1], dtype=z.dtype)
        diagonal = _diagonal(z)
        return 0.5 * (z**2).sum() + _minus_log1p(diagonal).sum()

    def kl_to_target_gain(
        self, data: GaussianData, z: Float[Array, " n"]
    ) -> Float[Array, ""]:
        """Returns KL(new || target) - KL(old || target)."""
        z = to_matrix(z, data.caps.size)
        at_new = data.to_target @ inverse(z)
        change = -at_new[:, :-1] @ z[:, :-1]  # R X - R, last column below
        change = jnp.concatenate([change, -(at_new[:, :-1] @ z[:, -1:])], axis=1)
        return (
            0.5 * (change * (2 * data.to_target + change)).sum()
            + jnp.log1p(_diagonal(z)).sum()
        )

    def limits(self, data: GaussianData, z: Float[Array, " n"]) -> Float[Array, " dim"]:
        """Returns how far the diagonal of W is above what keeps the floors."""
        return jnp.where(
            data.floored, _diagonal(to_matrix(z, data.caps.size)) - data.caps, -1.0
        )

    def rounded(
        self, data: GaussianData, z: Float[Array, " n"], dtype: jnp.dtype
    ) -> Gaussian:
        """Returns the distribution at ``z`` in the caller's dtype, not below a floor by rounding."""
        exact = self.at(data, z)
        floored = jnp.where(
            jnp.eye(exact.dim, dtype=bool),
            jnp.maximum(exact.chol, data.lowest[None]),
            exact.chol,
        )
        return dataclasses.replace(
            exact, mean=exact.mean.astype(dtype), chol=floored.astype(dtype)
        )

    def gradients(
        self,
        data: GaussianData,
        z: Float[Array, " n"],
        weights: Float[Array, " M"],
        direction: KlDirection,
    ) -> Gradients:
        """Returns the first derivatives, by the formulas above."""
        dim = data.caps.size
        rows, columns = layout(dim)
        matrix = to_matrix(z, dim)
        x = inverse(matrix)
        logs = _log_gradient(matrix)

        weighted, scores = self._scores(data, z, weights)
        at_target = data.to_target @ x
        if direction == "new-old":
            from_old = logs - (x[:-1].T @ x[:-1] @ x.T)[rows, columns]
        else:
            from_old = z + np.where(rows == columns, 1.0, 0.0) - logs

        on_diagonal = np.where(
            (rows == columns) & (rows == np.arange(dim)[:, None]), 1.0, 0.0
        )
        return Gradients(
            gain=scores @ weighted,
            to_target=logs - (at_target.T @ at_target @ x.T)[rows, columns],
            from_old=from_old,
            limits=jnp.where(data.floored[:, None], on_diagonal, 0.0).astype(z.dtype),
        )

    def curvature(
        self,
        data: GaussianData,
        z: Float[Array, " n"],
        weights: Float[Array, " M"],
        direction: KlDirection,
        coefficients: Coefficients,
    ) -> Float[Array, "n n"]:
        """Returns the second derivative of the weighted sum, by the formulas above."""
        dim = data.caps.size
        rows, columns = layout(dim)
        same_row = rows[:, None] == rows[None]
        matrix = to_matrix(z, dim)
        x = inverse(matrix)
        at_target = data.to_target @ x

        weighted, scores = self._scores(data, z, weights)
        moments = (data.features * weighted[None]) @ data.features.T
        total = (scores * weighted[None]) @ scores.T - jnp.where(
            same_row, moments[columns][:, columns], 0.0
        )
        total = coefficients.gain * total
        log_weight = coefficients.gain * weighted.sum() + coefficients.to_target

        middle = coefficients.to_target * (at_target.T @ at_target)
        if direction == "new-old":
            middle += coefficients.from_old * (x[:-1].T @ x[:-1])
            log_weight += coefficients.from_old
        else:
            total += coefficients.from_old * jnp.eye(rows.size, dtype=z.dtype)
            log_weight -= coefficients.from_old
        mixed = x[columns][:, rows] * (x @ middle)[columns][:, rows].T
        total += (
            middle[rows][:, rows] * (x @ x.T)[columns][:, columns] + mixed + mixed.T
        )
        return total - log_weight * jnp.diag(_log_gradient(matrix) ** 2)

    def outlying_start(self, data: GaussianData) -> Float[Array, " n"]:
        """Returns a point of the trust region whose mean is shifted towards the context farthest from the old mean."""
        dim = data.caps.size
        distances = (data.features[:dim] ** 2).sum(axis=0)
        farthest = (distances == distances.max()).astype(distances.dtype)
        direction = data.features[:dim] @ (farthest / farthest.sum())
        shift = (
            -SECOND_START
            * direction
            / jnp.sqrt((direction**2).sum() + jnp.finfo(direction.dtype).tiny)
        )
        rows, columns = layout(dim)
        return jnp.where(columns == dim, shift[rows], 0.0)

    def _scores(
        self, data: GaussianData, z: Float[Array, " n"], weights: Float[Array, " M"]
    ) -> tuple[Float[Array, " M"], Float[Array, "n M"]]:
        """Returns weight times importance ratio, and the gradient of the log ratio, for every context."""
        weighted = weights * jnp.exp(self.log_ratios(data, z))
        matrix = to_matrix(z, data.caps.size)
        whitened = data.features[:-1] + matrix @ data.features
        products = [
            whitened[i] * data.features[j]
            for i, j in zip(*layout(data.caps.size), strict=True)
        ]
        return weighted, _log_gradient(matrix)[:, None] - jnp.stack(products)


def layout(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows and columns of Z that the unknowns fill, in order."""
    pairs = [(i, j) for i in range(dim) for j in [*range(i + 1), dim]]
    return np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])


def to_matrix(z: Float[Array, " n"], dim: int) -> Float[Array, "dim dim+1"]:
    """Returns Z = [W - I, w] from its free entries."""
    rows, columns = layout(dim)
    place = np.zeros((rows.size, dim, dim + 1))
    place[np.arange(rows.size), rows, columns] = 1
    return jnp.tensordot(z, jnp.asarray(place, z.dtype), 1)


def inverse(z: Float[Array, "dim dim+1"]) -> Float[Array, "dim+1 dim+1"]:
    """Returns X = [W w; 0 1]^-1 = [T d; 0 1]: the new distribution is m0 + L0 (T u + d), u standard normal."""
    dim = z.shape[0]
    last = jnp.zeros((1, dim + 1), z.dtype).at[0, dim].set(1.0)
    top = solve_lower(
        z[:, :dim] + jnp.eye(dim, dtype=z.dtype),
        jnp.eye(dim, dim + 1, dtype=z.dtype) - _last_column(z),
    )
    return jnp.concatenate([top, last])


def _log_gradient(z: Float[Array, "dim dim+1"]) -> Float[Array, " n"]:
    """Returns the gradient of sum log W_jj."""
    rows, columns = layout(z.shape[0])
    return jnp.where(rows == columns, 1.0 / (1.0 + z[rows, columns]), 0.0)


def _diagonal(z: Float[Array, "dim dim+1"]) -> Float[Array, " dim"]:
    return jnp.diagonal(z[:, :-1])


def _last_column(z: Float[Array, "dim dim+1"]) -> Float[Array, "dim dim+1"]:
    return jnp.where(jnp.arange(z.shape[1]) == z.shape[0], z, 0.0)


def _minus_log1p(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Returns x - log(1 + x) >= 0 without cancellation near zero (Taylor series where |x| is small)."""
    small = jnp.abs(x) < 0.01
    near = jnp.where(small, x, 0.0)
    series = near**2 * (
        1 / 2
        - near * (1 / 3 - near * (1 / 4 - near * (1 / 5 - near * (1 / 6 - near / 7))))
    )
    return jnp.where(small, series, x - jnp.log1p(jnp.where(small, 0.0, x)))
