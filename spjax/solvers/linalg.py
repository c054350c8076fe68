"""Linear algebra of small matrices in plain operations.

No LAPACK call stands inside a vmapped ``while_loop`` (batched LAPACK calls there can block XLA's CPU thread pool). Matrices
of a context distribution have a handful of rows: written out row by row at trace time these factorisations fuse with the
code around them. Larger ones, of an episodic policy or of value features, take one loop over the rows.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

UNROLLED = 12  # largest size that is written out at trace time


def solve_lower(
    chol: Float[Array, "n n"], rhs: Float[Array, " n *columns"]
) -> Float[Array, " n *columns"]:
    """Returns ``chol^-1 rhs`` by forward substitution; ``chol`` is lower triangular with a non-zero diagonal."""
    size = chol.shape[0]
    if size > UNROLLED:

        def substitute(i: Array, solved: Array) -> Array:
            return solved.at[i].set(
                (rhs[i] - chol[i] @ solved) / chol[i, i]
            )  # rows from i on are still zero

        return lax.fori_loop(0, size, substitute, jnp.zeros_like(rhs))
    rows: list[Array] = []
    for i in range(size):
        rest = sum(
            (chol[i, j] * rows[j] for j in range(i)), start=jnp.zeros_like(rhs[i])
        )
        rows.append((rhs[i] - rest) / chol[i, i])
    return jnp.stack(rows)


def cholesky(
    matrix: Float[Array, "n n"],
) -> tuple[Float[Array, "n n"], Bool[Array, ""]]:
    """Returns the lower Cholesky factor and whether the (symmetric) matrix was positive definite.

    Only the lower triangle is read. Where the flag is False the factor is finite but meaningless.
    """
    if matrix.shape[0] > UNROLLED:
        return _looped_cholesky(matrix)
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


def solve_positive(
    matrix: Float[Array, "n n"], rhs: Float[Array, " n *columns"]
) -> Float[Array, " n *columns"]:
    """Returns ``matrix^-1 rhs`` of a symmetric positive definite matrix, by Gauss-Jordan elimination without row swaps.

    A pivot that is negative is replaced by its absolute value and one close to zero by a small positive number, that is,
    a positive diagonal is added to an indefinite matrix; so minus the solution is always a direction of descent for a
    gradient ``rhs``. Where the matrix is positive definite, nothing is changed.
    """
    size = matrix.shape[0]
    floor = 1e-12 * jnp.maximum(jnp.abs(jnp.diagonal(matrix)).max(), 1e-30)

    def eliminate(k: int | Array, table: Array) -> Array:
        unit_row = table[k] / jnp.maximum(jnp.abs(table[k, k]), floor)
        is_pivot = (jnp.arange(size) == k)[:, None]
        return jnp.where(is_pivot, unit_row, table - table[:, k, None] * unit_row[None])

    table = jnp.concatenate([matrix, rhs.reshape(size, -1)], axis=1)
    if size > UNROLLED:
        table = lax.fori_loop(0, size, eliminate, table)
    else:
        for k in range(size):
            table = eliminate(k, table)
    return table[:, size:].reshape(rhs.shape)


def _looped_cholesky(
    matrix: Float[Array, "n n"],
) -> tuple[Float[Array, "n n"], Bool[Array, ""]]:
    """Builds the transposed factor, whose rows run along memory, one row after the other: nothing else of size n^2 is written."""
    size = matrix.shape[0]
    lower = jnp.tril(matrix)

    def append_row(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        upper, positive = carry
        row = lower[:, k] - upper[:, k] @ upper  # rows from k on are still zero
        diagonal = jnp.sqrt(jnp.where(row[k] > 0, row[k], 1.0))
        right = (jnp.arange(size) > k) & (row[k] > 0)
        return upper.at[k].set(
            jnp.where(right, row / diagonal, 0.0).at[k].set(diagonal)
        ), positive & (row[k] > 0)

    start = (jnp.zeros_like(lower), jnp.all(jnp.isfinite(lower)))
    upper, positive = lax.fori_loop(0, size, append_row, start)
    return upper.T, positive
