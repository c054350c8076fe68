"""A Gaussian over contexts as a flat parameter vector, with analytic gradients, in NumPy.

Parameters: mean (d), log of the diagonal of the Cholesky factor L (d), strictly lower entries of L row by row. Every
function with a gradient returns (value, gradient over the parameters), in float64.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def from_std(mean: Vector, std: Vector) -> Vector:
    """Returns the parameters of the Gaussian with independent dimensions."""
    return np.concatenate(
        [mean, np.log(std), np.zeros(mean.size * (mean.size - 1) // 2)]
    )


def unpack(parameters: Vector) -> tuple[Vector, Vector]:
    """Returns the mean (d,) and the Cholesky factor (d, d)."""
    dim = dimension(parameters)
    chol = np.diag(np.exp(parameters[dim : 2 * dim]))
    chol[np.tril_indices(dim, -1)] = parameters[2 * dim :]
    return parameters[:dim], chol


def dimension(parameters: Vector) -> int:
    """Returns d, from the d (d + 3) / 2 parameters."""
    return round((np.sqrt(9 + 8 * parameters.size) - 3) / 2)


def log_density(parameters: Vector, contexts: Vector) -> Vector:
    """Returns log p(c) of contexts (M, d), up to the constant of the Gaussian."""
    mean, chol = unpack(parameters)
    whitened = (contexts - mean) @ np.linalg.inv(chol).T
    return -0.5 * (whitened**2).sum(axis=1) - np.log(np.diag(chol)).sum()


def expectation(
    parameters: Vector, contexts: Vector, old_log_density: Vector, values: Vector
) -> tuple[float, Vector]:
    """Returns the importance-weighted mean of the values (M,) of contexts (M, d) that the old distribution drew."""
    mean, chol = unpack(parameters)
    inverse = np.linalg.inv(chol)
    whitened = (contexts - mean) @ inverse.T
    log_ratio = (
        -0.5 * (whitened**2).sum(axis=1) - np.log(np.diag(chol)).sum() - old_log_density
    )
    weights = np.exp(log_ratio) * values / values.size
    d_mean = inverse.T @ (weights @ whitened)
    d_chol = inverse.T @ (whitened.T * weights) @ whitened
    return weights.sum(), _gradient(chol, d_mean, d_chol, -weights.sum())


def kl_to_target(parameters: Vector, target: Vector) -> tuple[float, Vector]:
    """Returns KL(parameters || target) in nats."""
    mean, chol = unpack(parameters)
    target_mean, target_chol = unpack(target)
    inverse = np.linalg.inv(target_chol)
    ratio, shift = inverse @ chol, inverse @ (mean - target_mean)
    value = _kl(ratio, shift)
    return value, _gradient(chol, inverse.T @ shift, inverse.T @ ratio, -1.0)


def kl_from_old(parameters: Vector, old: Vector) -> tuple[float, Vector]:
    """Returns KL(old || parameters) in nats, the direction of the published code's trust region."""
    mean, chol = unpack(parameters)
    old_mean, old_chol = unpack(old)
    inverse = np.linalg.inv(chol)
    ratio, shift = inverse @ old_chol, inverse @ (old_mean - mean)
    d_chol = -inverse.T @ (ratio @ ratio.T + np.outer(shift, shift))
    return _kl(ratio, shift), _gradient(chol, -inverse.T @ shift, d_chol, 1.0)


def _kl(ratio: Vector, shift: Vector) -> float:
    """Returns the divergence of N(shift, ratio ratio') from the standard normal."""
    return (
        0.5 * ((ratio**2).sum() + (shift**2).sum() - shift.size)
        - np.log(np.diag(ratio)).sum()
    )


def _gradient(chol: Vector, d_mean: Vector, d_chol: Vector, d_log_det: float) -> Vector:
    """Returns the gradient over the parameters; that of a term in log det L comes apart from that over L."""
    strict = d_chol[np.tril_indices(d_mean.size, -1)]
    return np.concatenate([d_mean, np.diag(d_chol) * np.diag(chol) + d_log_det, strict])
