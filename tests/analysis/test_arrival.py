"""When contexts are at the target, and the panels that show it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spjax.analysis.arrival import AT_TARGET, iterations_to_target, panel_iterations
from spjax.analysis.snapshots import context_snapshots
from spjax.runs.read import load_run
from tests.made_run import with_distances

MakeRun = Callable[..., Path]


def test_contexts_arrive_when_they_are_near_the_target_for_good(
    make_run: MakeRun,
) -> None:
    folder = make_run(seeds=(1, 2, 3), num_iterations=6, evaluate_every=2)
    far, near = 9.0, 0.0
    distances = {
        1: [far, near, far, near, near, near],  # the third iteration is not evaluated
        2: [near, near, near, 2 * AT_TARGET, far, near],
        3: [near, near, near, near, near, far],
    }
    run = with_distances(folder, distances)
    arrival = iterations_to_target(run, run.groups()[0])
    np.testing.assert_allclose(
        arrival.iterations, [2.0, 5.0, 6.0]
    )  # 5: halfway from 2 to 0 times the limit
    assert arrival.never_reached == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrival", "panels"),
    [
        (200, [0, 50, 100, 150, 200, 500]),
        (20, [0, 5, 10, 15, 20, 500]),
        (500, [0, 100, 200, 300, 400, 500]),
        (1000, [0, 100, 200, 300, 400, 500]),  # never
    ],
)
def test_panels_are_start_half_way_arrival_and_end_of_the_run(
    make_run: MakeRun, arrival: int, panels: list
) -> None:
    folder = make_run(seeds=(1, 2, 3), num_iterations=500)
    falls = [0.0 if iteration >= arrival else 9.0 for iteration in range(1, 501)]
    run = with_distances(
        folder, {1: falls, 2: falls, 3: [9.0] * 500}
    )  # the median counts
    assert panel_iterations(run) == panels
    titles = [
        axes.get_title() for axes in context_snapshots(run).axes if axes.get_title()
    ]
    assert titles == [f"iteration {iteration}" for iteration in panels]


def test_panels_are_evenly_spaced_where_nothing_says_how_far_the_target_is(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(teacher="random", schedule=None, num_iterations=500))
    assert panel_iterations(run) == [0, 100, 200, 300, 400, 500]
    assert panel_iterations(load_run(make_run(num_iterations=15))) == [0, 5, 10, 15]
