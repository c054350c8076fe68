from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spjax.analysis.curricula import CURRICULA
from spjax.analysis.distances import AT_TARGET, distance_curves, iterations_to_target
from spjax.analysis.run import Run, load_run

MakeRun = Callable[..., Path]
SPDL, BOUND = CURRICULA[:2]


def with_distances(folder: Path, distances: dict[int, list[float]]) -> Run:
    """Gives a run folder these KL divergences to the target, by seed; an entry an iteration, the first is iteration 1."""
    rows = [
        {"lane": lane, "seed": seed, "iteration": iteration, "teacher.kl_to_target": kl}
        for lane, (seed, values) in enumerate(distances.items())
        for iteration, kl in enumerate(values, start=1)
    ]
    for part in (folder / "metrics").iterdir():
        part.unlink()
    pq.write_table(pa.Table.from_pylist(rows), folder / "metrics" / "000001.parquet")
    return load_run(folder)


def test_contexts_arrive_when_they_are_near_the_target_for_good(make_run: MakeRun) -> None:
    folder = make_run(seeds=(1, 2, 3), num_iterations=6, evaluate_every=2)
    far, near = 9.0, 0.0
    distances = {
        1: [far, near, far, near, near, near],  # the third iteration is not evaluated
        2: [near, near, near, 2 * AT_TARGET, far, near],
        3: [near, near, near, near, near, far],
    }
    run = with_distances(folder, distances)
    arrival = iterations_to_target(run, run.groups()[0])
    np.testing.assert_allclose(arrival.iterations, [2.0, 5.0, 6.0])  # 5: halfway from 2 to 0 times the limit
    assert arrival.never_reached == 1


def test_a_line_is_a_seed_and_its_color_the_final_return(make_run: MakeRun) -> None:
    run = load_run(make_run(seeds=(1, 2, 3)))
    figure = distance_curves({"PPO": {SPDL: run}, "TRPO": {BOUND: run}}, [SPDL, BOUND])
    panels, bar = figure.axes[:-1], figure.axes[-1]
    assert [[text.get_text() for text in axes.texts] for axes in panels] == [[], ["not trained"], ["not trained"], []]
    assert [axes.get_title() for axes in panels[:2]] == [SPDL.label, BOUND.mathematical_label]
    returns = run.evaluation_curves("discounted_return", run.groups()[0]).values[:, -1]
    np.testing.assert_allclose(bar.get_ylim(), [returns.min(), returns.max()])
    lines = panels[0].lines
    darkness = [1 - np.mean(line.get_color()[:3]) for line in lines]
    assert np.argsort(darkness).tolist() == np.argsort(returns).tolist()
    curves = run.metric_curves("teacher.kl_to_target", run.groups()[0])
    assert [line.get_xdata().tolist() for line in lines] == [[5, 10, 15, 20]] * 3
    np.testing.assert_array_equal([line.get_ydata() for line in lines], curves.values[:, 4::5])
