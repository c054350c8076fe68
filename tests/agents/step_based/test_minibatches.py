"""Shuffled minibatches."""

import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based.minibatches import minibatches, packed, shuffled


@pytest.mark.parametrize("size", [1, 7, 2048, 100_000])
def test_a_shuffle_is_a_permutation_and_mixes(size, key):
    order = np.asarray(shuffled(key, size))
    np.testing.assert_array_equal(np.sort(order), np.arange(size))
    if size > 1000:
        assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 0.1
        assert (order[1:] == order[:-1] + 1).mean() < 0.01


def test_minibatches_hold_every_row_once_and_drop_what_is_left_over(key):
    rows = jnp.arange(10.0)[:, None]
    batches = np.asarray(minibatches(key, rows, 4))
    assert batches.shape == (2, 4, 1)
    assert len(np.unique(batches)) == 8


def test_packed_rows_come_apart_as_they_went_in():
    batch = (jnp.arange(6.0).reshape(3, 2), jnp.arange(3.0) + 10)
    rows, unpack = packed(batch)
    assert rows.shape == (3, 3)
    for before, after in zip(batch, unpack(rows[::-1]), strict=True):
        np.testing.assert_array_equal(before[::-1], after)
