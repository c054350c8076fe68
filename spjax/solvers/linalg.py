"""Linear algebra of the small matrices of a context distribution, unrolled over rows at trace time.

Context spaces have a handful of dimensions. Written out row by row these factorisations fuse with the code around them,
and no LAPACK call stands inside a vmapped ``while_loop`` (batched LAPACK calls there can block XLA's CPU thread pool).
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def solve_lower(chol: Float[Array, "n n"], rhs: Float[Array, "n *columns"]) -> Float[Array, "n *columns"]:
    """Returns ``chol^-1 rhs`` by forward substitution; ``chol`` is lower triangular with a non-zero diagonal."""
    rows: list[Array] = []
    for i in range(chol.shape[0]):
        rest = sum((chol[i, j] * rows[j] for j in range(i)), start=jnp.zeros_like(rhs[i]))
        rows.append((rhs[i] - rest) / chol[i, i])
    return jnp.stack(rows)


def cholesky(matrix: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Bool[Array, ""]]:
    """Returns the lower Cholesky factor and whether the (symmetric) matrix was positive definite.

    Only the lower triangle is read. Where the flag is False the factor is finite but meaningless.
    """
    size = matrix.shape[0]
    factor = [[jnp.zeros_like(matrix[0, 0])] * size for _ in range(size)]
    positive = jnp.all(jnp.isfinite(matrix))
    for j in range(size):
        pivot = matrix[j, j] - sum(factor[j][k] ** 2 for k in range(j))
        positive &= pivot > 0
        factor[j][j] = jnp.sqrt(jnp.where(pivot > 0, pivot, 1.0))
        for i in range(j + 1, size):
            inner = matrix[i, j] - sum(factor[i][k] * factor[j][k] for k in range(j))
            factor[i][j] = inner / factor[j][j]
    return jnp.stack([jnp.stack(row) for row in factor]), positive


def solve_positive(matrix: Float[Array, "n n"], rhs: Float[Array, "n *columns"]) -> Float[Array, "n *columns"]:
    """Returns ``matrix^-1 rhs`` of a symmetric positive definite matrix, by Gauss-Jordan elimination without row swaps.

    A pivot that is negative is replaced by its absolute value and one close to zero by a small positive number, that is,
    a positive diagonal is added to an indefinite matrix; so minus the solution is always a direction of descent for a
    gradient ``rhs``. Where the matrix is positive definite, nothing is changed.
    """
    size = matrix.shape[0]
    floor = 1e-12 * jnp.maximum(jnp.abs(jnp.diagonal(matrix)).max(), 1e-30)
    table = jnp.concatenate([matrix, rhs.reshape(size, -1)], axis=1)
    for k in range(size):
        pivot = jnp.maximum(jnp.abs(table[k, k]), floor)
        unit_row = table[k] / pivot
        is_pivot = (jnp.arange(size) == k)[:, None]
        table = jnp.where(is_pivot, unit_row, table - table[:, k, None] * unit_row)
    return table[:, size:].reshape(rhs.shape)
