"""Shuffled minibatches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based.minibatches import minibatches, packed, shuffled
from spjax.agents.step_based.replay import Replay


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


def test_a_random_order_of_very_many_rows_has_no_runs_of_neighbours_that_tied(key):
    """With too few random bits beside the index, ties keep their order: half of the neighbours should ascend."""
    order = np.asarray(shuffled(key, 2**18))
    np.testing.assert_array_equal(np.sort(order), np.arange(2**18))
    assert (np.diff(order) > 0).mean() == pytest.approx(0.5, abs=0.01)


def test_packed_rows_come_apart_as_they_went_in():
    batch = (jnp.arange(6.0).reshape(3, 2), jnp.arange(3.0) + 10)
    rows, unpack = packed(batch)
    assert rows.shape == (3, 3)
    for before, after in zip(batch, unpack(rows[::-1]), strict=True):
        np.testing.assert_array_equal(before[::-1], after)


def test_packed_rows_of_matrices_come_apart_as_they_went_in():
    batch = {"image": jnp.arange(24.0).reshape(3, 4, 2), "number": jnp.arange(3.0)}
    rows, unpack = packed(batch)
    assert rows.shape == (3, 9)
    jax.tree.map(np.testing.assert_array_equal, unpack(rows), batch)


@pytest.mark.parametrize(
    "leaf", [jnp.array([2**24 + 1]), jnp.array([True]), jnp.array([1.0], jnp.bfloat16)]
)
def test_rows_that_one_matrix_would_round_are_refused_in_a_sentence(leaf):
    sentence = rf"^rows to pack must all be float32, got {leaf.dtype} for 'count'$"
    with pytest.raises(ValueError, match=sentence):
        packed({"angle": jnp.ones((1, 2)), "count": leaf})
    with pytest.raises(ValueError, match=r"^rows to pack must all be float32"):
        Replay.empty(10, {"angle": jnp.ones((1, 2)), "count": leaf})
    replay = Replay.empty(10, {"angle": jnp.ones((1, 2)), "count": jnp.ones(1)})
    with pytest.raises(ValueError, match=r"^rows to pack must all be float32"):
        replay.add({"angle": jnp.ones((1, 2)), "count": leaf})
