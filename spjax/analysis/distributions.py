"""Draws distributions of contexts: ellipses of Gaussians, contours on a box, dots of discrete ones."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from scipy import stats

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
    look: Mapping[str, Any],
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
    settings = record.settings["teacher"].get(which)
    settings = settings if isinstance(settings, Mapping) else {}
    table = settings.get("table")
    if table is not None and "mean" in settings:
        draw_product(axes, settings, dimensions, look)
        return
    if table is not None:
        weights = settings.get("weights")
        draw_atoms(axes, np.array(table, dtype=float)[:, dimensions], weights, look)
        return
    if "means" in settings:
        draw_mixture(axes, settings, dimensions, look)
        return
    if "lower" in settings:
        draw_boxed(axes, settings, dimensions, look)
        return
    moments = getattr(record, which)
    covariance = settings.get("covariance")
    spread = (
        np.diag(np.square(moments.std))
        if covariance is None
        else np.array(covariance, dtype=float)
    )
    mean = np.array(moments.mean)[dimensions]
    outline = ellipse(mean, spread[np.ix_(dimensions, dimensions)])
    axes.plot(*outline, zorder=2.5, **look)


def draw_atoms(
    axes: Axes,
    atoms: Float[np.ndarray, "atom 2"],
    weights: Sequence[float] | None,
    look: Mapping[str, Any],
) -> None:
    """Draws a dot for each atom that has weight, its area in proportion to it."""
    shares = np.ones(len(atoms)) if weights is None else np.array(weights, dtype=float)
    chosen = np.argsort(-shares)[:MOST_DOTS]
    chosen = chosen[shares[chosen] > 0]
    axes.scatter(
        atoms[chosen, 0],
        atoms[chosen, 1],
        s=40.0 * shares[chosen] / shares.max(),
        facecolors="none",
        edgecolors=look["color"],
        linewidths=0.8,
        zorder=2.5,
    )


def draw_product(
    axes: Axes,
    settings: Mapping[str, Any],
    dimensions: Sequence[int],
    look: Mapping[str, Any],
) -> None:
    """Draws atoms of two dimensions of the table, an ellipse of two others; of one of each a line for every row."""
    table = np.array(settings["table"], dtype=float)
    weights = settings.get("weights")
    rows = table.shape[1]
    mean = np.array(settings["mean"], dtype=float)
    covariance = settings.get("covariance")
    spread = (
        np.diag(np.square(np.array(settings["std"], dtype=float)))
        if covariance is None
        else np.array(covariance, dtype=float)
    )
    rest = [dimension - rows for dimension in dimensions]
    if max(rest) < 0:
        draw_atoms(axes, table[:, list(dimensions)], weights, look)
    elif min(rest) >= 0:
        axes.plot(*ellipse(mean[rest], spread[np.ix_(rest, rest)]), zorder=2.5, **look)
    else:
        of_rows = rest[0] < 0  # the horizontal dimension is the table's
        which = max(rest)
        reach = mean[which] + WIDTH * np.sqrt(spread[which, which]) * np.array([-1, 1])
        shares = np.ones(len(table)) if weights is None else np.array(weights, float)
        values = table[:, min(dimensions)]
        for value in np.unique(values):
            share = shares[values == value].sum() / shares.max()
            line = [(value, value), reach] if of_rows else [reach, (value, value)]
            axes.plot(*line, zorder=2.5, alpha=min(1.0, 0.15 + 0.85 * share), **look)


def draw_mixture(
    axes: Axes,
    settings: Mapping[str, Any],
    dimensions: Sequence[int],
    look: Mapping[str, Any],
) -> None:
    """Draws an ellipse for each component, the fainter the smaller its weight."""
    means = np.array(settings["means"], dtype=float)
    if settings.get("stds") is not None:
        covariances = [
            np.diag(np.square(np.array(row, dtype=float))) for row in settings["stds"]
        ]
    else:
        dim = means.shape[1]
        covariances = [
            np.array(row, dtype=float).reshape(dim, dim)
            for row in settings["covariances"]
        ]
    weights = settings.get("weights")
    shares = np.ones(len(means)) if weights is None else np.array(weights, dtype=float)
    shown = np.ix_(dimensions, dimensions)
    for mean, covariance, share in zip(
        means[:, dimensions], covariances, shares / shares.max(), strict=True
    ):
        outline = ellipse(mean, covariance[shown])
        axes.plot(*outline, zorder=2.5, alpha=0.25 + 0.75 * share, **look)


def draw_boxed(
    axes: Axes,
    settings: Mapping[str, Any],
    dimensions: Sequence[int],
    look: Mapping[str, Any],
) -> None:
    """Draws the outline of the smallest area with as much of the mass as an ellipse has; of all of the box, its border."""
    grids, densities = [], []
    for dimension in dimensions:
        one = _marginal(settings, dimension)
        low, high = settings["lower"][dimension], settings["upper"][dimension]
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


def _marginal(settings: Mapping[str, Any], dimension: int) -> Any:
    """Returns SciPy's distribution of one dimension of a family on a box."""
    low, high = settings["lower"][dimension], settings["upper"][dimension]
    if "a" in settings:
        return stats.beta(
            settings["a"][dimension], settings["b"][dimension], low, high - low
        )
    mean, std = settings["mean"][dimension], settings["std"][dimension]
    return stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)


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
