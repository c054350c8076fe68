"""The picture of a reward against one parameter, with paths that some of its values give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from spjax.analysis import statistics
from spjax.analysis.snapshots import WALL_LOOK
from spjax.analysis.style import MARK, PALETTE, styled
from spjax.analysis.text import axis_label


@dataclass(frozen=True)
class Slice:
    """Rewards along one parameter of a task."""

    title: str
    places: Float[np.ndarray, " point"]  # values of the parameter, m
    rewards: Float[np.ndarray, "point rollout"]
    paths: Mapping[
        float, Float[np.ndarray, "time 2"]
    ]  # some of the values -> the path that it gives, m
    walls: Sequence[Sequence[tuple[float, float]]]  # polylines, m


@styled
def landscape_figure(slices: Sequence[Slice]) -> Figure:
    """Returns a column a slice: paths above, mean reward and its 10-90 % band below; colours are values of the parameter."""
    figure = Figure(figsize=(10.0, 5.6), layout="constrained")
    panels = figure.subplots(2, len(slices), sharey="row", squeeze=False)
    for (above, below), part in zip(panels.T, slices, strict=True):
        for wall in part.walls:
            above.plot(*np.transpose(wall), **WALL_LOOK, zorder=2)
        for (place, path), color in zip(part.paths.items(), PALETTE, strict=False):
            above.plot(path[:, 0], path[:, 1], color=color, zorder=3)
            below.axvline(place, color=color, linewidth=1.2, linestyle="dotted")
        above.plot(
            0.0, 0.0, "*", color="white", markeredgecolor=MARK, markersize=14, zorder=4
        )
        above.set(xlim=(-2.5, 8.5), title=part.title, xlabel=axis_label("x", "m"))
        band = statistics.quantiles(part.rewards.T)
        below.fill_between(
            part.places, band.low, band.high, color=PALETTE[0], alpha=0.25, linewidth=0
        )
        below.plot(part.places, part.rewards.mean(axis=1), color=PALETTE[0])
        below.set_xlabel(axis_label("set-point of the first controller", "m"))
    panels[0, 0].set_ylabel(axis_label("y", "m"))
    panels[1, 0].set_ylabel("reward")
    return figure
