"""Draws distributions of contexts: ellipses of Gaussians, dots of discrete ones."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from spjax.runs.schema import RunRecord

WIDTH = 2.0  # standard deviations that an ellipse reaches to
MOST_DOTS = 2000


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
    if table is not None:
        weights = settings.get("weights")
        draw_atoms(axes, np.array(table, dtype=float)[:, dimensions], weights, look)
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
