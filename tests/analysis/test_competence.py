"""Competence maps, on episodes whose success is known."""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest

from spjax.analysis.competence import competence_map, curriculum_way, draw_maps
from spjax.runs.read import load_run
from tests.made_run import point_mass


def episodes(dim, lanes, values=3):
    """Returns a row a lane and grid point; those at the lower bound of the first context succeed, in the first lane alone."""
    task = point_mass(dim)
    axes = np.linspace(task.lower, task.upper, values).T
    rows = [
        {
            "lane": lane,
            **{f"context.{name}": c for name, c in zip(task.names, place, strict=True)},
            "success": bool(lane == 0 and place[0] == task.lower[0]),
            "discounted_return": float(place[1]) if dim > 1 else float(place[0]),
        }
        for lane in range(lanes)
        for place in itertools.product(*axes.tolist())
    ]
    return pa.Table.from_pylist(rows)


def one_dimensional(run):
    """Returns the run as if its contexts were the first of them alone."""
    config = run.config

    def first(record):
        fields = [field.name for field in dataclasses.fields(record)]
        return dataclasses.replace(
            record, **{name: getattr(record, name)[:1] for name in fields}
        )

    table = run.metrics
    place = table.column_names.index("teacher.context_mean")
    means = [row[:1] for row in table["teacher.context_mean"].to_pylist()]
    return dataclasses.replace(
        run,
        config=dataclasses.replace(
            config,
            context_space=first(config.context_space),
            target=first(config.target),
            initial=first(config.initial),
        ),
        metrics=table.set_column(place, "teacher.context_mean", pa.array(means)),
    )


@pytest.mark.parametrize("dim", [2, 3])
def test_a_map_shows_means_over_seeds_and_other_contexts_for_each_pair(make_run, dim):
    run = load_run(make_run(dim=dim, seeds=(1, 2)))
    figure = competence_map(run, episodes(dim, lanes=2))
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert len(panels) == 2 * (dim - 1)
    for axes in panels[::2]:
        (mesh,) = axes.collections
        np.testing.assert_array_equal(
            np.reshape(mesh.get_array(), (3, 3)), [[0.5, 0, 0]] * 3
        )
        assert mesh.get_clim() == (0, 1)
    width = np.reshape(panels[1].collections[0].get_array(), (3, 3))
    np.testing.assert_allclose(width, np.repeat([[0.5], [4.25], [8]], 3, axis=1))
    target = panels[0].lines[-1]
    assert (*target.get_xdata(), *target.get_ydata()) == (2.5, 0.5)


def test_one_context_is_drawn_as_curves_with_the_way_of_its_mean(make_run):
    run = one_dimensional(load_run(make_run(seeds=(1, 2))))
    figure = competence_map(run, episodes(1, lanes=2))
    success, returned, way = figure.axes
    np.testing.assert_array_equal(success.lines[0].get_ydata(), [0.5, 0, 0])
    np.testing.assert_array_equal(returned.lines[0].get_ydata(), [-4, 0, 4])
    iterations, means = curriculum_way(run, 0)
    np.testing.assert_array_equal(way.lines[0].get_xdata(), means[:, 0])
    np.testing.assert_array_equal(way.lines[0].get_ydata(), iterations)


def test_the_way_starts_where_the_curriculum_does(make_run):
    run = load_run(make_run(seeds=(1, 2)))
    iterations, means = curriculum_way(run, 1)
    np.testing.assert_array_equal(iterations, range(21))
    np.testing.assert_array_equal(means[0], run.config.initial.mean)
    recorded = run.metrics.filter(run.metrics["lane"].to_numpy() == 1)
    expected = recorded["teacher.context_mean"].to_pylist()
    np.testing.assert_array_equal(means[1:], expected)


def test_without_a_distribution_the_way_is_that_of_the_drawn_contexts(make_run):
    run = load_run(make_run(teacher="random", schedule=None, seeds=(1,)))
    iterations, means = curriculum_way(run, 0)
    np.testing.assert_array_equal(iterations, [0, 5, 10, 15, 20])
    first = np.reshape(run.evaluation["contexts"][0].as_py(), (-1, 3))
    np.testing.assert_allclose(means[0], first.mean(axis=0))


def test_each_value_of_a_sweep_has_a_map_of_its_own(make_run, tmp_path):
    swept = tuple({"teacher.schedule.zeta": zeta} for zeta in (0.8, 1.6))
    run = load_run(make_run(dim=2, seeds=(1,), swept=swept))
    written = draw_maps(run, episodes(2, lanes=2), tmp_path / "map.png")
    assert [path.name for path in written] == [
        "map-teacher.schedule.zeta-0.8.png",
        "map-teacher.schedule.zeta-1.6.png",
    ]
    assert all(path.stat().st_size > 1000 for path in written)
