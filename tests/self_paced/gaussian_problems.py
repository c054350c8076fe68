"""Batches for the tests of the closed-form update, and the update compiled over them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.self_paced.closed_form import update_gaussian
from tests.self_paced.problems import problem_batch

PARTS = pytest.mark.parametrize("moves_scale", [False, True], ids=["mean", "scale"])


def update(problem, moves_scale, reached):
    return update_gaussian(
        Gaussian(problem.old_mean, problem.old_chol),
        Gaussian(problem.target_mean, problem.target_chol),
        problem.contexts,
        problem.values,
        problem.mask,
        moves_scale=moves_scale,
        max_kl=problem.max_kl,
        performance_bound=problem.performance_bound,
        reached=reached,
        std_floor=problem.std_floor,
    )


SINGLE = jax.jit(update)
BATCHED = jax.jit(jax.vmap(update, in_axes=(0, None, 0)))


def step(batch, moves_scale, reached=False):
    """Updates a batch in its own dtype; returns NumPy arrays."""
    reached = np.full(len(batch.values), reached)
    with jax.enable_x64(batch.values.dtype == np.float64):
        return jax.tree.map(
            np.asarray, BATCHED(jax.tree.map(jnp.asarray, batch), moves_scale, reached)
        )


@functools.cache
def family_batch(dtype, dim=3):
    """The shared problems, their old distributions given the target's shape, V_LB clearly below the performance."""
    batch = problem_batch("float64", dim)
    diagonals = [
        np.diagonal(chol, axis1=1, axis2=2)
        for chol in (batch.old_chol, batch.target_chol)
    ]
    chol = (
        np.exp(np.log(diagonals[0] / diagonals[1]).mean(axis=1))[:, None, None]
        * batch.target_chol
    )
    whitened = np.linalg.solve(
        batch.old_chol, (batch.contexts - batch.old_mean[:, None]).transpose(0, 2, 1)
    )
    batch = batch._replace(
        old_chol=chol,
        contexts=batch.old_mean[:, None] + (chol @ whitened).transpose(0, 2, 1),
        std_floor=np.where(
            batch.std_floor > 0, np.diagonal(chol, axis1=1, axis2=2), 0.0
        ),
        performance_bound=batch.performance_bound - 1e-3,
    )
    return jax.tree.map(
        lambda leaf: leaf if leaf.dtype == bool else leaf.astype(dtype), batch
    )


def unreachable(batch):
    return batch._replace(performance_bound=batch.performance_bound + 1e3)


def slopes(problem):
    """Returns the derivatives of the importance-weighted performance by d and tau at the old distribution."""
    whitened = np.linalg.solve(
        problem.old_chol, (problem.contexts[problem.mask] - problem.old_mean).T
    ).T
    values = problem.values[problem.mask]
    return values @ whitened / values.size, values @ (
        (whitened**2).sum(axis=1) - whitened.shape[1]
    ) / 2 / values.size
