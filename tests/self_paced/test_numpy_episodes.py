"""Context updates from NumPy arrays, of any number of episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.padding import padded, padded_length
from spjax.self_paced import update_context
from spjax.solvers.augmented_lagrangian import Result
from tests.outside.compilations import counts_something, no_compilation

OLD = Gaussian.from_std([0.0, 4.25], [2.0, 1.9])
TARGET = Gaussian.from_std([2.5, 0.5], [0.1, 0.1])
SETTINGS = {"alpha": 0.01, "max_kl": 0.05}


def episodes(count):
    contexts = np.random.default_rng(count).normal(OLD.mean, [2.0, 1.9], (count, 2))
    return contexts, 4.0 - np.abs(contexts[:, 0]), np.ones(count, bool)


@pytest.mark.slow
def test_another_number_of_episodes_compiles_nothing_and_gives_what_the_exact_one_does():
    assert counts_something()
    exact = update_context(OLD, TARGET, *map(jnp.asarray, episodes(30)), **SETTINGS)
    update_context(OLD, TARGET, *episodes(3), **SETTINGS)
    with no_compilation():
        for count in (1, 30, 31, 700, 1024):
            new, record = update_context(OLD, TARGET, *episodes(count), **SETTINGS)
            assert int(record.result) == Result.CONVERGED
            if count == 30:
                jax.tree.map(
                    lambda one, other: np.testing.assert_allclose(
                        one, other, rtol=1e-5, atol=1e-6
                    ),
                    (new, record.kl, record.effective_sample_size),
                    (exact[0], exact[1].kl, exact[1].effective_sample_size),
                )
        nothing, record = update_context(
            OLD, TARGET, np.zeros((0, 2)), np.zeros(0), np.zeros(0, bool), **SETTINGS
        )
    assert record.result == Result.NO_DATA
    jax.tree.map(np.testing.assert_array_equal, nothing, OLD)


def test_rows_are_filled_up_to_a_few_lengths():
    lengths = [padded_length(count) for count in (0, 1, 1024, 1025, 4097)]
    assert lengths == [1024, 1024, 1024, 4096, 16384]
    rows = padded(np.array([[1.0, 2.0]]), 3)
    np.testing.assert_array_equal(rows, [[1, 2], [0, 0], [0, 0]])
    assert padded(np.ones(2, bool), 3).tolist() == [True, True, False]
