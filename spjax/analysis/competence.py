"""What a policy can do over the context space, and the way that its curriculum went there."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import matplotlib.patheffects as effects
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from spjax.analysis.distributions import centres
from spjax.analysis.snapshots import NUM_LANES, evenly_spaced, seed_handles
from spjax.analysis.style import MARK, PALETTE, Look, legend_below, save, styled
from spjax.analysis.text import axis_label, settings_suffix
from spjax.runs.read import Run

CONTEXT_MEAN = "teacher.context_mean"
QUANTITIES = (("success", "success rate"), ("discounted_return", "discounted return"))
_OUTLINE = [effects.Stroke(linewidth=2.8, foreground="white"), effects.Normal()]
_MARK_LOOK: Look = {
    "linestyle": "",
    "markerfacecolor": "white",
    "markeredgecolor": MARK,
    "markeredgewidth": 1.2,
    "zorder": 5,
    "clip_on": False,
}
_TARGET_LOOK: Look = {**_MARK_LOOK, "marker": "*", "markersize": 14}
_START_LOOK: Look = {**_MARK_LOOK, "marker": "o", "markersize": 6}

# of one lane: iterations [point], and the means of its contexts then [point, dim]
Way: TypeAlias = tuple[np.ndarray, np.ndarray]


def draw_maps(run: Run, episodes: pa.Table, path: Path) -> list[Path]:
    """Writes the competence map of a run, one for each value of its sweep, and returns the files.

    Args:
        run: the run folder.
        episodes: a row each, on a grid of contexts, as `spjax evaluate --out` writes them.
        path: of the picture, in the format of its suffix; the names of several end in the swept settings.
    """
    return [
        save(
            competence_map(part, own),
            path.with_name(f"{path.stem}{suffix}{path.suffix}"),
        )
        for part, own, suffix in _parts(run, episodes)
    ]


@styled
def competence_map(run: Run, episodes: pa.Table) -> Figure:
    """Returns success rate and return over the context space, the curriculum's way and the target.

    With two contexts or more a row shows the first one and another, as means over the values of all others; a line is the
    mean of the contexts that a seed was trained in, from the start on. With one context, curves.

    Args:
        run: the lanes that the episodes are of; the ways of up to four are drawn, evenly spread.
        episodes: on a grid of contexts.
    """
    contexts = np.stack(
        [
            _numbers(episodes, f"context.{name}")
            for name in run.config.context_space.names
        ],
        axis=1,
    )
    lanes = evenly_spaced(range(len(run.config.lanes)), NUM_LANES)
    ways = [curriculum_way(run, lane) for lane in lanes]
    draw = _draw_line if contexts.shape[1] == 1 else _draw_planes
    return draw(run, contexts, episodes, lanes, ways)


def curriculum_way(
    run: Run, lane: int
) -> tuple[Int[np.ndarray, " point"], Float[np.ndarray, "point dim"]]:
    """Returns iterations and the mean of the contexts that a lane is trained in then.

    It is the teacher's own where it moves a distribution, else the mean of the contexts that were drawn at each evaluation.
    """
    mine = pc.field("lane") == lane
    if CONTEXT_MEAN in run.metrics.column_names:
        rows = run.metrics.select(["lane", "iteration", CONTEXT_MEAN]).filter(mine)
        means = np.asarray(rows[CONTEXT_MEAN].to_pylist(), float)
        start = np.asarray(run.config.initial.mean, float)[None]
        iterations = np.asarray(rows["iteration"].to_pylist(), int)
        return np.append([0], iterations), np.concatenate([start, means])
    rows = run.evaluation.select(["lane", "iteration", "contexts"]).filter(mine)
    dim = len(run.config.context_space.names)
    samples = [np.reshape(row, (-1, dim)) for row in rows["contexts"].to_pylist()]
    iterations = np.asarray(rows["iteration"].to_pylist(), int)
    return iterations, np.stack([points.mean(axis=0) for points in samples])


def _draw_planes(
    run: Run,
    contexts: Float[np.ndarray, "episode dim"],
    episodes: pa.Table,
    lanes: list[int],
    ways: list[Way],
) -> Figure:
    space = run.config.context_space
    rows = len(space.names) - 1
    figure = Figure(figsize=(9.0, 3.1 * rows + 0.8), layout="constrained")
    panels = figure.subplots(rows, len(QUANTITIES), squeeze=False, sharex=True)
    for column, (name, title) in enumerate(QUANTITIES):
        meshes = [
            mean_plane(contexts[:, [0, row + 1]], _numbers(episodes, name))
            for row in range(rows)
        ]
        low = 0.0 if name == "success" else min(mesh[2].min() for mesh in meshes)
        high = 1.0 if name == "success" else max(mesh[2].max() for mesh in meshes)
        for row, (x, y, values) in enumerate(meshes):
            axes = panels[row, column]
            image = axes.pcolormesh(
                x, y, values.T, shading="nearest", vmin=low, vmax=high, cmap="viridis"
            )
            axes.grid(False)
            for lane_color, (_, means) in zip(PALETTE[1:], ways, strict=False):
                way = means[:, [0, row + 1]]
                axes.plot(
                    *way.T, color=lane_color, linewidth=1.4, path_effects=_OUTLINE
                )
                axes.plot(*way[0], **_START_LOOK)
            for mean in centres(run.config, "target"):
                axes.plot(mean[0], mean[row + 1], **_TARGET_LOOK)
            axes.set_xlim(_around(x))
            axes.set_ylim(_around(y))
            axes.set_ylabel(axis_label(space.names[row + 1], space.units[row + 1]))
        panels[-1, column].set_xlabel(axis_label(space.names[0], space.units[0]))
        others = " over the other contexts" if rows > 1 else ""
        panels[0, column].set_title(f"{title}{', mean' if others else ''}{others}")
        figure.colorbar(image, ax=panels[:, column].tolist(), shrink=0.9)
    legend_below(figure, _handles(run, lanes))
    return figure


def _draw_line(
    run: Run,
    contexts: Float[np.ndarray, "episode dim"],
    episodes: pa.Table,
    lanes: list[int],
    ways: list[Way],
) -> Figure:
    space = run.config.context_space
    figure = Figure(figsize=(6.0, 6.6), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    places, inverse = np.unique(contexts[:, 0], return_inverse=True)
    for axes, (name, title) in zip(panels, QUANTITIES, strict=False):
        axes.plot(
            places, _means(_numbers(episodes, name), inverse, places.size), color=MARK
        )
        axes.set_ylabel(title)
    panels[0].set_ylim(-0.04, 1.04)
    for lane_color, (iterations, means) in zip(PALETTE[1:], ways, strict=False):
        panels[2].plot(means[:, 0], iterations, color=lane_color, linewidth=1.4)
        panels[2].plot(means[0, 0], iterations[0], **_START_LOOK)
    panels[2].set_ylabel("iteration")
    panels[2].set_xlabel(axis_label(space.names[0], space.units[0]))
    for axes in panels:
        for mean in centres(run.config, "target"):
            _draw_target_line(axes, mean[0])
    legend_below(figure, _handles(run, lanes))
    return figure


def _draw_target_line(axes: Axes, place: float) -> None:
    axes.axvline(place, color=MARK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.plot(place, 0, transform=axes.get_xaxis_transform(), **_TARGET_LOOK)


def _handles(run: Run, lanes: list[int]) -> list[Line2D]:
    """Returns the entries of the legend."""
    seeds = [run.config.lanes[lane].seed for lane in lanes]
    handles = seed_handles(seeds)
    for handle, color in zip(handles, PALETTE[1:], strict=False):
        handle.set(color=color, marker="", linestyle="solid")
        handle.set_label(f"contexts of {handle.get_label()}")
    handles.append(Line2D([], [], label="start", **_START_LOOK))
    handles.append(Line2D([], [], label="target", **_TARGET_LOOK))
    return handles


def mean_plane(
    places: Float[np.ndarray, "episode 2"], values: Float[np.ndarray, " episode"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the values of two contexts, and means [first, second] over the episodes in each pair of them."""
    x, i = np.unique(places[:, 0], return_inverse=True)
    y, j = np.unique(places[:, 1], return_inverse=True)
    means = _means(values, i * y.size + j, x.size * y.size)
    return x, y, means.reshape(x.size, y.size)


def _means(
    values: Float[np.ndarray, " episode"], cell: Int[np.ndarray, " episode"], count: int
) -> Float[np.ndarray, " cell"]:
    totals = np.bincount(cell, weights=values, minlength=count)
    numbers = np.bincount(cell, minlength=count)
    return np.where(numbers > 0, totals / np.maximum(numbers, 1), np.nan)


def _around(values: Float[np.ndarray, " value"]) -> tuple[float, float]:
    """Returns the limits of an axis that shows the cells of these values in full."""
    half = 0.5 * (values[1] - values[0])
    return float(values[0] - half), float(values[-1] + half)


def _numbers(table: pa.Table, name: str) -> Float[np.ndarray, " row"]:
    return np.asarray(table[name].to_numpy(zero_copy_only=False), float)


def _parts(run: Run, episodes: pa.Table) -> Iterator[tuple[Run, pa.Table, str]]:
    """Yields the lanes of each setting, their episodes, and what the name of their picture ends in."""
    for group in run.groups():
        own = episodes.filter(pc.field("lane").isin(list(group.lanes)))
        yield run.only(group), own, settings_suffix(group.settings)
