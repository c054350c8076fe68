"""Advantages against hand-computed tables."""

import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based.gae import gae

NO = jnp.zeros((3, 1), bool)
LAST = jnp.array([[False], [False], [True]])


def column(*values):
    return jnp.asarray(values, jnp.float32)[:, None]


def test_a_finished_episode_matches_the_closed_form():
    result = gae(
        column(1, 1, 1), column(2, 2, 2), column(2, 2, 2), LAST, NO, 0.99, 0.95
    )
    decay = 0.99 * 0.95
    last, inner = 1 - 2, 1 + 0.99 * 2 - 2
    expected = [inner + decay * (inner + decay * last), inner + decay * last, last]
    np.testing.assert_allclose(result[:, 0], expected, rtol=1e-6)
    assert float(result[2, 0]) == -1.0


def test_a_time_limit_bootstraps_from_the_final_observation_and_an_end_does_not():
    value = column(20, 20, 20)
    cut = gae(column(1, 1, 1), value, value, NO, LAST, 0.95, 0.99)
    end = gae(column(1, 1, 1), value, value, LAST, NO, 0.95, 0.99)
    assert float(cut[2, 0] + 20) == pytest.approx(1 + 0.95 * 20)
    assert float(end[2, 0] + 20) == pytest.approx(1.0)


def test_both_kinds_of_end_in_one_batch_leak_nothing_into_earlier_episodes():
    """Twelve numbers by hand: gamma .5, lambda .5; columns are one slot with an end and one with a cut."""
    rewards = jnp.array([[1.0, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]])
    values = jnp.full((6, 2), 10.0)
    next_values = jnp.array([[10.0, 10], [10, 8], [10, 10], [10, 10], [10, 10], [4, 4]])
    terminated = np.zeros((6, 2), bool)
    truncated = np.zeros((6, 2), bool)
    terminated[1, 0] = truncated[1, 1] = True
    result = gae(
        rewards,
        values,
        next_values,
        jnp.asarray(terminated),
        jnp.asarray(truncated),
        0.5,
        0.5,
    )
    tail = [
        -2.0 + 0.25 * (-1.0 + 0.25 * (0.0 + 0.25 * -2.0)),
        -1.0 + 0.25 * (0.0 + 0.25 * -2.0),
        0.0 + 0.25 * -2.0,
        -2.0,
    ]
    with_end = [-4.0 + 0.25 * -8.0, -8.0]
    with_cut = [-4.0 + 0.25 * -4.0, -4.0]
    np.testing.assert_allclose(
        result, np.array([with_end + tail, with_cut + tail]).T, rtol=1e-6
    )
