"""What is drawn of a distribution: where its outline lies, and how much of the mass it has inside."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from spjax.analysis.distributions import (
    INSIDE,
    centres,
    draw_boxed,
    draw_mixture,
    draw_product,
)
from spjax.runs.schema import RunRecord

LOOK = {"color": "black", "linestyle": "solid", "linewidth": 1.0}
BOX = {"lower": [-4.0, 0.5], "upper": [4.0, 8.0]}


def drawn(draw, settings):
    """Returns the axes with a distribution over two dimensions."""
    axes = Figure().add_subplot()
    draw(axes, settings, [0, 1], LOOK)
    return axes


def outline(axes):
    """Returns the points of the only contour."""
    (contour,) = axes.collections
    return np.concatenate([path.vertices for path in contour.get_paths()])


def test_the_uniform_beta_is_its_box():
    points = outline(drawn(draw_boxed, {"a": [1, 1], "b": [1, 1], **BOX}))
    np.testing.assert_allclose(points.min(axis=0), BOX["lower"], atol=0.05)
    np.testing.assert_allclose(points.max(axis=0), BOX["upper"], atol=0.05)


def test_a_narrow_truncated_gaussian_is_the_circle_of_two_standard_deviations():
    points = outline(drawn(draw_boxed, {"mean": [1.0, 4.0], "std": [0.3, 0.3], **BOX}))
    radius = np.hypot(*(points - [1.0, 4.0]).T)
    np.testing.assert_allclose(radius, 0.6, rtol=0.03)


def test_an_outline_holds_as_much_as_that_of_a_gaussian():
    points = outline(drawn(draw_boxed, {"a": [30, 2], "b": [10, 9], **BOX}))
    one, other = stats.beta(30, 10, -4.0, 8.0), stats.beta(2, 9, 0.5, 7.5)
    level = one.logpdf(points[:, 0]) + other.logpdf(points[:, 1])
    draws = np.random.default_rng(0)
    sample = one.rvs(4000, draws), other.rvs(4000, draws)
    inside = one.logpdf(sample[0]) + other.logpdf(sample[1]) > np.median(level)
    assert inside.mean() == pytest.approx(INSIDE, abs=0.02)


def test_a_mixture_is_an_ellipse_for_each_component_fainter_with_less_weight():
    rows = {"means": [[0, 4], [2, 3]], "stds": [[1, 1], [0.5, 0.2]]}
    first, second = drawn(draw_mixture, {**rows, "weights": [0.75, 0.25]}).lines
    assert first.get_alpha() == 1.0
    assert second.get_alpha() == pytest.approx(0.5)
    np.testing.assert_allclose(second.get_xdata().max(), 3.0, atol=1e-3)
    np.testing.assert_allclose(second.get_ydata().max(), 3.4, atol=1e-3)
    matrices = {"stds": None, "covariances": [[1, 0.5, 0.5, 1], [0.25, 0, 0, 0.04]]}
    _, same = drawn(draw_mixture, {**rows, **matrices}).lines
    np.testing.assert_allclose(same.get_ydata(), second.get_ydata(), atol=1e-9)


def test_a_mixture_is_marked_at_its_components_and_everything_else_at_its_mean():
    moments = SimpleNamespace(mean=(1.0, 3.5))
    means = [[0.0, 4.0], [2.0, 3.0], [9.0, 9.0]]
    weighed = {"means": means, "weights": [0.5, 0.5, 0.0]}
    for target, marked in (
        (weighed, means[:2]),
        ({"means": means, "weights": None}, means),
        ({"mean": [1.0, 3.5]}, [[1.0, 3.5]]),
        (None, [[1.0, 3.5]]),
    ):
        settings = {"teacher": {"target": target}}
        record = Mock(spec=RunRecord, settings=settings, target=moments)
        np.testing.assert_array_equal(centres(record, "target"), marked)


def test_a_product_is_a_line_for_each_row_of_its_table():
    settings = {"table": [[-1.0], [2.0]], "weights": [1.0, 0.5], "mean": [4.0]}
    lines = drawn(draw_product, {**settings, "std": [0.5], "covariance": None}).lines
    assert [line.get_xdata()[0] for line in lines] == [-1.0, 2.0]
    np.testing.assert_allclose(lines[0].get_ydata(), [3.0, 5.0])
    assert lines[1].get_alpha() == pytest.approx(0.575)
