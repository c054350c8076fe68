"""The episode buffer against a Python list."""

import jax
import jax.numpy as jnp
import numpy as np

from spjax.episodes import Episodes, Maybe, masked_mean
from spjax.teachers.buffer import add, clear, init_buffer


def episodes(numbers, mask):
    """Returns rows whose every field is the given number."""
    numbers = jnp.asarray(numbers, jnp.float32)
    return Episodes(
        mask=jnp.asarray(mask),
        context=numbers[:, None],
        first_observation=numbers[:, None],
        episode_return=numbers,
        discounted_return=numbers,
        length=numbers.astype(jnp.int32),
        success=numbers > 0,
        ticket=(),
    )


def kept(buffer):
    return sorted(
        np.asarray(buffer.discounted_return)[np.asarray(buffer.mask)].tolist()
    )


def test_the_newest_episodes_are_kept_in_a_ring():
    random = np.random.default_rng(0)
    buffer, everything = init_buffer(7, 1, 1), []
    put = jax.jit(add)
    for round_number in range(12):
        mask = random.uniform(size=5) < 0.6
        numbers = np.arange(5) + 5 * round_number
        everything += numbers[mask].tolist()
        buffer = put(buffer, episodes(numbers, mask))
        assert kept(buffer) == everything[-7:]
        assert int(buffer.count) == len(everything)
        np.testing.assert_array_equal(buffer.context[:, 0], buffer.discounted_return)


def test_more_episodes_at_once_than_rows_keeps_the_last_ones():
    buffer = add(init_buffer(3, 1, 1), episodes(np.arange(8), np.ones(8, bool)))
    assert kept(buffer) == [5, 6, 7]


def test_clearing_empties_only_where_asked():
    buffer = add(init_buffer(3, 1, 1), episodes([4.0, 5.0], [True, True]))
    assert kept(clear(buffer, jnp.asarray(False))) == [4, 5]
    emptied = clear(buffer, jnp.asarray(True))
    assert kept(emptied) == []
    assert kept(add(emptied, episodes([9.0], [True]))) == [9]


def test_a_masked_mean_ignores_nan_in_rows_that_do_not_count():
    assert (
        float(
            masked_mean(jnp.array([1.0, jnp.nan, 3.0]), jnp.array([True, False, True]))
        )
        == 2.0
    )
    nothing = Maybe.mean(jnp.ones(2), jnp.zeros(2, bool))
    assert (float(nothing.value), bool(nothing.present)) == (0.0, False)
