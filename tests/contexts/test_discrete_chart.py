"""Coordinates around a discrete distribution, one row of which is never drawn, and the equation behind an update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Discrete
from spjax.contexts.discrete_chart import _invert

TABLE = [[0.0], [1.0], [4.0], [9.0]]
OLD = np.array([0.5, 0.3, 0.0, 0.2])
TARGET = np.array([0.1, 0.2, 0.0, 0.7])
Z = np.array([0.4, -1.1, 7.0, 2.0])  # the third says nothing
NEW = OLD * np.exp(Z) / (OLD @ np.exp(Z))


def divergence(p, q):
    there = p > 0
    return (p[there] * np.log(p[there] / q[there])).sum()


def test_coordinates_are_log_ratios_up_to_a_constant():
    with jax.enable_x64(True):
        old, target = (Discrete.from_weights(TABLE, x) for x in (OLD, TARGET))
        chart = old.chart
        contexts = jnp.array([[9.0], [0.0], [4.0], [1.2]])
        data = chart.prepare(old, target, contexts, jnp.ones(4, bool))
        z = jnp.asarray(Z)
        there = OLD > 0
        ratios = np.log(NEW[there] / OLD[there])
        np.testing.assert_allclose(chart.at(data, z).probs, NEW, rtol=1e-12)
        np.testing.assert_allclose(
            chart.coordinates(data, chart.at(data, z))[there], ratios, rtol=1e-12
        )
        np.testing.assert_allclose(
            chart.log_ratios(data, z), [ratios[2], ratios[0], 0.0, ratios[1]]
        )
        for direction, pair in (("old-new", (OLD, NEW)), ("new-old", (NEW, OLD))):
            np.testing.assert_allclose(
                chart.kl_from_old(data, z, direction), divergence(*pair), rtol=1e-12
            )
        np.testing.assert_allclose(
            chart.kl_to_target_gain(data, z),
            divergence(NEW, TARGET) - divergence(OLD, TARGET),
            rtol=1e-12,
        )


@pytest.mark.parametrize("share", [0.0, 1e-9, 0.01, 0.5, 0.999, 1 - 1e-9])
def test_the_equation_of_the_log_ratio_is_solved_to_rounding(share):
    """(1 - s) v - s exp(-v) is an increasing function of v."""
    exact = np.array([-40.0, -3.0, -0.2, 0.0, 0.7, 5.0, 30.0])
    if share > 0.9:
        exact = exact[1:-1]  # v from 30 is below the rounding of what it is found from
    right = (1 - share) * exact - share * np.exp(-exact)
    with jax.enable_x64(True):
        found = np.asarray(_invert(jnp.asarray(right), jnp.asarray(share)))
    again = (1 - share) * found - share * np.exp(-found)
    np.testing.assert_allclose(again, right, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-10)


def test_without_the_linear_part_the_log_ratio_is_a_logarithm():
    with jax.enable_x64(True):
        right = jnp.array([-20.0, -1.0, -0.05])
        found = _invert(right, jnp.asarray(1.0))
    np.testing.assert_allclose(found, -np.log([20.0, 1.0, 0.05]), atol=1e-10)
