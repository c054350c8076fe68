"""Compiled context updates over batches of problems, shared by the tests of this folder."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.context_problems import NASTY, make_problem
from spjax.contexts import Gaussian
from spjax.self_paced import update_context
from spjax.solvers.augmented_lagrangian import DEFAULT_CONFIG

LANES = 4 * len(NASTY)


@functools.cache
def problem_batch(dtype="float32", dim=3):
    """A batch of `LANES` problems, each kind four times; float arrays in ``dtype``, on the host."""
    batch = jax.tree.map(
        lambda *leaves: np.stack(leaves),
        *[make_problem(seed, dim) for seed in range(LANES)],
    )
    return jax.tree.map(
        lambda leaf: leaf if leaf.dtype == bool else leaf.astype(dtype), batch
    )


@functools.cache
def updater(
    rule,
    direction="old-new",
    precision="float64",
    config=DEFAULT_CONFIG,
    search_outliers=False,
):
    """A compiled update of a whole batch; under the rule "bound", ``reached`` is an argument more."""

    def update(problem, reached):
        if rule == "proportion":
            settings = {"alpha": problem.alpha}
        else:
            settings = {
                "performance_bound": problem.performance_bound,
                "reached": reached,
            }
        return update_context(
            Gaussian(problem.old_mean, problem.old_chol),
            Gaussian(problem.target_mean, problem.target_chol),
            problem.contexts,
            problem.values,
            problem.mask,
            max_kl=problem.max_kl,
            std_floor=problem.std_floor,
            kl_direction=direction,
            precision=precision,
            config=config,
            search_outliers=search_outliers,
            **settings,
        )

    return jax.jit(jax.vmap(update))


def run(rule, batch, direction="old-new", reached=None, **settings):
    """Updates a batch in its own dtype; returns NumPy arrays."""
    reached = np.zeros(len(batch.values), bool) if reached is None else reached
    with jax.enable_x64(batch.values.dtype == np.float64):
        new, update = updater(rule, direction, **settings)(
            jax.tree.map(jnp.asarray, batch), jnp.asarray(reached)
        )
        return jax.tree.map(np.asarray, new), jax.tree.map(np.asarray, update)


def lane(batch, index):
    """One problem of a batch, in float64."""
    return jax.tree.map(
        lambda leaf: (
            leaf[index] if leaf.dtype == bool else leaf[index].astype(np.float64)
        ),
        batch,
    )
