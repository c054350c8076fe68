"""Draws distributions of contexts: ellipses of Gaussians, contours on a box, dots of discrete ones."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from scipy import stats
from scipy.stats.distributions import rv_frozen

from spjax.analysis.style import Look
from spjax.runs.schema import RunRecord

WIDTH = 2.0  # standard deviations that an ellipse reaches to
MOST_DOTS = 2000
INSIDE = 1 - np.exp(-(WIDTH**2) / 2)  # share of a Gaussian within its ellipse
GRID = 200  # points of a density, in each dimension


def draw_distribution(
    axes: Axes,
    record: RunRecord,
    which: Literal["initial", "target"],
    shown: Sequence[int],
    look: Look,
) -> None:
    """Draws the initial or the target distribution of a run over two context dimensions.

    Args:
        axes: where to.
        record: of the run.
        which: of the two.
        shown: the horizontal and the vertical dimension.
        look: colour and line.
    """
    dimensions = list(shown)
    found = record.settings["teacher"].get(which)
    settings = found if isinstance(found, Mapping) else {}
    table = settings.get("table")
    if table is not None and "mean" in settings:
        draw_product(axes, settings, dimensions, look)
        return
    if table is not None:
        atoms = _numbers(settings, "table")[:, dimensions]
        draw_atoms(axes, atoms, _weights(settings, len(atoms)), look)
        return
    if "means" in settings:
        draw_mixture(axes, settings, dimensions, look)
        return
    if "lower" in settings:
        draw_boxed(axes, settings, dimensions, look)
        return
    moments = getattr(record, which)
    spread = (
        np.diag(np.square(moments.std))
        if settings.get("covariance") is None
        else _numbers(settings, "covariance")
    )
    mean = np.array(moments.mean)[dimensions]
    outline = ellipse(mean, spread[np.ix_(dimensions, dimensions)])
    axes.plot(*outline, zorder=2.5, **look)


def centres(
    record: RunRecord, which: Literal["initial", "target"]
) -> Float[np.ndarray, "centre dim"]:
    """Returns where a distribution of a run is to be marked: its mean, of a mixture that of each component with weight."""
    found = record.settings["teacher"].get(which)
    if isinstance(found, Mapping) and "means" in found:
        means = _numbers(found, "means")
        return np.asarray(means[_weights(found, len(means)) > 0])
    return np.array(getattr(record, which).mean, dtype=float)[None]


def draw_atoms(
    axes: Axes,
    atoms: Float[np.ndarray, "atom 2"],
    weights: Float[np.ndarray, " atom"],
    look: Look,
) -> None:
    """Draws a dot for each atom that has weight, its area in proportion to it."""
    chosen = np.argsort(-weights)[:MOST_DOTS]
    chosen = chosen[weights[chosen] > 0]
    axes.scatter(
        atoms[chosen, 0],
        atoms[chosen, 1],
        s=40.0 * weights[chosen] / weights.max(),
        facecolors="none",
        edgecolors=look["color"],
        linewidths=0.8,
        zorder=2.5,
    )


def draw_product(
    axes: Axes,
    settings: Mapping[str, object],
    dimensions: Sequence[int],
    look: Look,
) -> None:
    """Draws atoms of two dimensions of the table, an ellipse of two others; of one of each a line for every row."""
    table, mean = _numbers(settings, "table"), _numbers(settings, "mean")
    weights = _weights(settings, len(table))
    rows = table.shape[1]
    spread = _spread(settings)
    rest = [dimension - rows for dimension in dimensions]
    if max(rest) < 0:
        draw_atoms(axes, table[:, list(dimensions)], weights, look)
    elif min(rest) >= 0:
        axes.plot(*ellipse(mean[rest], spread[np.ix_(rest, rest)]), zorder=2.5, **look)
    else:
        of_rows = rest[0] < 0  # the horizontal dimension is the table's
        which = max(rest)
        reach = mean[which] + WIDTH * np.sqrt(spread[which, which]) * np.array([-1, 1])
        values = table[:, min(dimensions)]
        for value in np.unique(values):
            share = weights[values == value].sum() / weights.max()
            line = [(value, value), reach] if of_rows else [reach, (value, value)]
            axes.plot(*line, zorder=2.5, alpha=min(1.0, 0.15 + 0.85 * share), **look)


def draw_mixture(
    axes: Axes,
    settings: Mapping[str, object],
    dimensions: Sequence[int],
    look: Look,
) -> None:
    """Draws an ellipse for each component, the fainter the smaller its weight."""
    weights, means, covariances = mixed_by(settings)
    shown = np.ix_(dimensions, dimensions)
    for mean, covariance, share in zip(
        means[:, dimensions], covariances, weights / weights.max(), strict=True
    ):
        outline = ellipse(mean, covariance[shown])
        axes.plot(*outline, zorder=2.5, alpha=0.25 + 0.75 * share, **look)


def draw_boxed(
    axes: Axes,
    settings: Mapping[str, object],
    dimensions: Sequence[int],
    look: Look,
) -> None:
    """Draws the outline of the smallest area with as much of the mass as an ellipse has; of all of the box, its border."""
    grids, densities = [], []
    for dimension in dimensions:
        one = _marginal(settings, dimension)
        low = _numbers(settings, "lower")[dimension]
        high = _numbers(settings, "upper")[dimension]
        # dense where the mass is, and to the border
        points = np.concatenate(
            [one.ppf(np.linspace(1e-4, 1 - 1e-4, GRID)), np.linspace(low, high, GRID)]
        )
        grid = np.unique(np.clip(points, low, high))
        density = one.pdf(0.5 * (grid[1:] + grid[:-1]))
        middles = 0.5 * (grid[1:] + grid[:-1])
        grids.append((np.concatenate([[low], middles, [high]]), np.diff(grid)))
        densities.append(np.pad(density, 1))  # so that contours close at the border
    (x, width), (y, height) = grids
    joint = densities[0][:, None] * densities[1][None]
    mass = (joint[1:-1, 1:-1] * width[:, None] * height[None]).ravel()
    order = np.argsort(-joint[1:-1, 1:-1].ravel())
    last = np.searchsorted(np.cumsum(mass[order]), INSIDE * mass.sum())
    level = joint[1:-1, 1:-1].ravel()[order[min(last, len(order) - 1)]]
    axes.contour(
        x,
        y,
        joint.T,
        levels=[level * (1 - 1e-9)],
        colors=[look["color"]],
        linewidths=look.get("linewidth"),
        linestyles=[look.get("linestyle", "solid")],
        zorder=2.5,
    )


def mixed_by(
    settings: Mapping[str, object],
) -> tuple[
    Float[np.ndarray, " K"],
    Float[np.ndarray, "K dim"],
    Float[np.ndarray, "K dim dim"],
]:
    """Returns weights, means and covariances of the Gaussians of a mixture, or of each row of a table with its Gaussian."""
    if "means" in settings:
        means = _numbers(settings, "means")
        count, dim = means.shape
        covariances = (
            _numbers(settings, "covariances").reshape(count, dim, dim)
            if settings.get("stds") is None
            else np.array([np.diag(stds**2) for stds in _numbers(settings, "stds")])
        )
        return _weights(settings, count), means, covariances
    table, mean = _numbers(settings, "table"), _numbers(settings, "mean")
    count, rows = table.shape
    covariance = np.zeros((rows + mean.size, rows + mean.size))
    covariance[rows:, rows:] = _spread(settings)
    means = np.hstack([table, np.tile(mean, (count, 1))])
    return _weights(settings, count), means, np.tile(covariance, (count, 1, 1))


def ellipse(
    mean: Float[np.ndarray, "2"],
    covariance: Float[np.ndarray, "2 2"],
    num_points: int = 100,
) -> Float[np.ndarray, "2 point"]:
    """Returns the line at `WIDTH` standard deviations of a Gaussian in every direction."""
    angles = np.linspace(0.0, 2 * np.pi, num_points)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean[:, None] + WIDTH * root @ circle)


def _marginal(settings: Mapping[str, object], dimension: int) -> rv_frozen:
    """Returns SciPy's distribution of one dimension of a family on a box."""

    def of(name: str) -> float:
        return float(_numbers(settings, name)[dimension])

    low, high = of("lower"), of("upper")
    if "a" in settings:
        return stats.beta(of("a"), of("b"), low, high - low)
    mean, std = of("mean"), of("std")
    return stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)


def _spread(settings: Mapping[str, object]) -> Float[np.ndarray, "dim dim"]:
    """Returns the covariance of a Gaussian's settings."""
    if settings.get("covariance") is None:
        return np.diag(_numbers(settings, "std") ** 2)
    return _numbers(settings, "covariance")


def _numbers(settings: Mapping[str, object], name: str) -> np.ndarray:
    """Returns a setting of several numbers."""
    return np.array(settings[name], dtype=float)


def _weights(settings: Mapping[str, object], count: int) -> Float[np.ndarray, " atom"]:
    """Returns the weights of atoms or components; ones where the settings have none."""
    if settings.get("weights") is None:
        return np.ones(count)
    return _numbers(settings, "weights")
