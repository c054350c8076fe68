"""The competence map of a report: success and return over a grid of contexts, and the curriculum's way on it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spjax.analysis.competence import QUANTITIES, curriculum_way, mean_plane
from spjax.analysis.snapshots import evenly_spaced
from spjax.reports.animation import MOST_FRAMES, MOST_SEEDS
from spjax.reports.numbers import inside, numbers, spread_out
from spjax.reports.series import Series


def maps(
    series: Sequence[Series], episodes: dict[str, pa.Table]
) -> list[dict[str, object]]:
    """Returns a map for each series whose run was played on a grid.

    Args:
        series: those that have curves.
        episodes: a row each, by the path of the run.
    """
    return [
        _map(one, episodes[str(one.run.path)]) | {"series": index}
        for index, one in enumerate(series)
        if str(one.run.path) in episodes
    ]


def _map(one: Series, episodes: pa.Table) -> dict[str, object]:
    space = one.run.config.context_space
    own = episodes.filter(pc.field("lane").isin(list(one.group.lanes)))
    contexts = np.stack(
        [np.asarray(own[f"context.{name}"], float) for name in space.names], axis=1
    )
    ways = []
    for lane in evenly_spaced(one.group.lanes, MOST_SEEDS):
        _, means = curriculum_way(one.run, lane)
        means = means[spread_out(len(means), MOST_FRAMES)]
        ways.append(inside(means, space.lower, space.upper))
    pairs = [(0, k) for k in range(1, len(space.names))] or [(0, 0)]
    return {
        "panels": [
            _panel(contexts[:, list(pair)], own, name, title) | {"pair": pair}
            for pair in pairs
            for name, title in QUANTITIES
        ],
        "ways": ways,
        "episodes": own.num_rows,
    }


def _panel(
    places: np.ndarray, own: pa.Table, name: str, title: str
) -> dict[str, object]:
    """Returns means over seeds, episodes and the contexts that are not shown, [first][second]."""
    values = np.asarray(own[name].to_numpy(zero_copy_only=False), float)
    x, y, means = mean_plane(places, values)
    return {
        "title": title,
        "share": name == "success",
        "x": numbers(x),
        "y": numbers(y),
        "means": [numbers(row, 3) for row in means],
    }
