from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.pictures.distances import distance_curves
from spjax.runs.read import load_run

MakeRun = Callable[..., Path]
SPDL, BOUND = CURRICULA[:2]


def test_a_line_is_a_seed_and_its_color_the_final_return(make_run: MakeRun) -> None:
    run = load_run(make_run(seeds=(1, 2, 3)))
    figure = distance_curves({"PPO": {SPDL: run}, "TRPO": {BOUND: run}}, [SPDL, BOUND])
    panels, bar = figure.axes[:-1], figure.axes[-1]
    assert [[text.get_text() for text in axes.texts] for axes in panels] == [
        [],
        ["not trained"],
        ["not trained"],
        [],
    ]
    assert [axes.get_title() for axes in panels[:2]] == [
        SPDL.label,
        BOUND.mathematical_label,
    ]
    returns = run.evaluation_curves("discounted_return", run.groups()[0]).values[:, -1]
    np.testing.assert_allclose(bar.get_ylim(), [returns.min(), returns.max()])
    lines = panels[0].lines
    darkness = [1 - np.mean(line.get_color()[:3]) for line in lines]
    assert np.argsort(darkness).tolist() == np.argsort(returns).tolist()
    curves = run.metric_curves("teacher.kl_to_target", run.groups()[0])
    assert [line.get_xdata().tolist() for line in lines] == [[5, 10, 15, 20]] * 3
    np.testing.assert_array_equal(
        [line.get_ydata() for line in lines], curves.values[:, 4::5]
    )
