"""Frames of tasks that are drawn in the plane: walls, goal, and the path so far."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from spjax.analysis.snapshots import WALL_LOOK
from spjax.analysis.style import BAD, GOOD, MARK, NEUTRAL, styled
from spjax.analysis.text import axis_label
from spjax.rendering.film import Film
from spjax.rendering.record import Episode

DPI = 100
MARGIN = 0.06  # of the drawing, on each side


def frames(
    film: Film, size: tuple[int, int]
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Yields the frames of all episodes; size is (width, height) in pixels."""
    for episode in film.episodes:
        yield from _episode_frames(film, episode, size)


def box(film: Film) -> tuple[float, float, float, float]:
    """Returns (left, right, bottom, top) of all that is drawn, with a margin [m]."""
    points = [
        point
        for episode in film.episodes
        for wall in film.env.scenery(episode.context)
        for point in wall
    ]
    points += [film.env.goal] if film.env.goal else []
    corners = np.concatenate(
        [np.reshape(points, (-1, 2)), *(episode.path for episode in film.episodes)]
    )
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = MARGIN * (high - low).max()
    return low[0] - margin, high[0] + margin, low[1] - margin, high[1] + margin


def position(
    path: Float[np.ndarray, "time 2"], moment: float
) -> Float[np.ndarray, "2"]:
    """Returns where the path is between two control steps."""
    steps = np.arange(len(path))
    return np.array([np.interp(moment, steps, axis) for axis in path.T])


@styled
def _episode_frames(
    film: Film, episode: Episode, size: tuple[int, int]
) -> Iterator[np.ndarray]:
    figure = Figure(
        figsize=(size[0] / DPI, size[1] / DPI), dpi=DPI, layout="constrained"
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw_still(axes, film, episode)
    (line,) = axes.plot([], [], color=NEUTRAL, linewidth=2, animated=True, zorder=4)
    (dot,) = axes.plot(
        [], [], "o", color=NEUTRAL, markersize=10, animated=True, zorder=7
    )
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    for moment in film.moments(episode):
        if moment == episode.length:
            line.set_color(GOOD if episode.success else BAD)
            dot.set_color(line.get_color())
        now = position(episode.path, moment)
        line.set_data(*np.vstack([episode.path[: int(moment) + 1], now]).T)
        dot.set_data(now[:1], now[1:])
        canvas.restore_region(still)
        axes.draw_artist(line)
        axes.draw_artist(dot)
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _draw_still(axes: Axes, film: Film, episode: Episode) -> None:
    """Draws what does not move."""
    for wall in film.env.scenery(episode.context):
        axes.plot(*np.transpose(wall), **WALL_LOOK, zorder=2)
    axes.plot(
        *episode.path[0],
        "o",
        color="white",
        markeredgecolor=MARK,
        markersize=9,
        zorder=3,
    )
    if film.env.goal:
        axes.plot(
            *film.env.goal,
            "*",
            color="white",
            markeredgecolor=MARK,
            markersize=16,
            zorder=3,
        )
    left, right, bottom, top = box(film)
    across, along = film.env.plane
    axes.set_aspect("equal")
    axes.set(
        xlim=(left, right),
        ylim=(bottom, top),
        xlabel=axis_label(across, "m"),
        ylabel=axis_label(along, "m"),
    )
