from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.patches import Circle, Polygon

from benchmarks.paper.pictures.catching import (
    RESTING_NET,
    catch_rates,
    catching_snapshots,
    thrown_at,
)
from benchmarks.paper.pictures.curricula import ALL_CURRICULA, curriculum_of
from benchmarks.paper.records import final_success_rate
from spjax.analysis import statistics
from spjax.analysis.style import PALETTE
from spjax.envs.ball_catching_scene import ball_target
from spjax.runs.read import Run, load_run

MakeRun = Callable[..., Path]
SPDL, STARRED_SPDL = (
    next(c for c in ALL_CURRICULA if c.label == label)
    for label in ("SPDL (ζ)", "SPDL* (ζ)")
)
DEFAULT = next(c for c in ALL_CURRICULA if c.label == "Default")


@pytest.fixture
def make(make_run: MakeRun) -> Callable[..., Run]:
    """Returns a function that makes a run of ball catching."""
    return lambda **scenario: load_run(make_run(env="ball-catching", **scenario))


def test_the_plane_is_the_one_that_the_scene_throws_balls_at() -> None:
    contexts = np.array([[0.68, 0.9, 0.85], [np.pi / 8, 0.6, 4.0], [1.5, 1.1, 2.0]])
    expected = [ball_target(jnp.asarray(context)) for context in contexts]
    np.testing.assert_allclose(
        thrown_at(contexts), np.array(expected)[:, 1:], rtol=1e-6
    )
    np.testing.assert_allclose(
        thrown_at(contexts[0]), [-0.7, 1.316], atol=5e-4
    )  # the net at its home posture


@pytest.mark.parametrize(
    ("scenario", "label"),
    [
        ({"start": "target"}, "SPDL (ζ)"),
        ({"start": "initial"}, "SPDL* (ζ)"),
        ({"start": "initial", "schedule": "bound"}, "SPDL* (V_LB)"),
        ({"teacher": "goal-gan", "schedule": None, "start": "initial"}, "GoalGAN*"),
        ({"teacher": "alp-gmm", "schedule": None, "start": None}, "ALP-GMM"),
        ({"teacher": "default", "schedule": None, "start": None}, "Default"),
        (
            {"teacher": "default", "schedule": None, "start": None, "cloned": False},
            "Default*",
        ),
    ],
)
def test_a_run_is_starred_by_its_start_and_the_default_by_its_uncloned_policy(
    make: Callable[..., Run], scenario: dict, label: str
) -> None:
    assert curriculum_of(make(**scenario).config).label == label


def test_a_starred_curriculum_that_was_not_published_is_refused(
    make: Callable[..., Run],
) -> None:
    config = make(teacher="spgl", schedule=None, start="initial").config
    with pytest.raises(
        ValueError, match=r"^'spgl' with an asterisk is none of SPDL \(ζ\), "
    ):
        curriculum_of(config)


def test_an_asterisk_keeps_the_colour_and_changes_the_line() -> None:
    starred = [curriculum for curriculum in ALL_CURRICULA if curriculum.starred]
    assert [curriculum.label for curriculum in starred] == [
        "SPDL* (ζ)",
        "SPDL* (V_LB)",
        "GoalGAN*",
        "Default*",
    ]
    for curriculum in starred:
        name = curriculum.label.replace("*", "")
        sibling = next(other for other in ALL_CURRICULA if other.label == name)
        assert curriculum.look[0] == sibling.look[0]
        assert curriculum.look[1] != sibling.look[1]


def test_bars_are_mean_catch_rates_with_two_standard_errors_and_a_dot_a_seed(
    make: Callable[..., Run],
) -> None:
    run, other = (
        make(start="target", num_iterations=80),
        make(start="initial", num_iterations=60),
    )
    final = run.evaluation_curves("success_rate", run.groups()[0]).values[:, -1]
    assert np.ptp(final) > 0.01
    rates, other_rates = final_success_rate(run), final_success_rate(other)
    compared = [SPDL, STARRED_SPDL, DEFAULT]
    figure = catch_rates(
        {"TRPO": {SPDL: rates}, "PPO": {STARRED_SPDL: other_rates}}, compared
    )
    left, right = figure.axes
    (bar,) = left.patches
    mean, error = 100 * statistics.mean(final), 100 * statistics.standard_error(final)
    assert (bar.get_width(), bar.get_hatch()) == (pytest.approx(float(mean)), None)
    assert bar.get_y() + bar.get_height() / 2 == pytest.approx(0.0)
    (whisker,) = left.containers[1].lines[2][0].get_segments()
    np.testing.assert_allclose(whisker[:, 0], [mean - 2 * error, mean + 2 * error])
    np.testing.assert_allclose(left.collections[-1].get_offsets()[:, 0], 100 * final)
    (starred,) = right.patches
    assert starred.get_hatch()
    assert starred.get_y() + starred.get_height() / 2 == pytest.approx(1.0)
    assert [text.get_position()[1] for text in left.texts] == [1, 2]
    assert [(text.get_text(), text.get_position()[1]) for text in right.texts] == [
        ("not trained", 0),
        ("not trained", 2),
    ]
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "SPDL (ζ)",
        "SPDL* (ζ)",
        "Default",
    ]
    assert (left.get_title(loc="left"), right.get_xlabel()) == (
        "TRPO",
        "balls caught [%]",
    )


def points(axes: object, color: str) -> np.ndarray:
    (found,) = [
        c.get_offsets()
        for c in axes.collections
        if c.get_facecolor()[0, :3].tolist() == rgb(color)
    ]
    return np.asarray(found)


def rgb(color: str) -> list[float]:
    return [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def contexts(run: Run, seed: int, iteration: int) -> np.ndarray:
    rows = run.evaluation.to_pylist()
    (found,) = [
        row["contexts"]
        for row in rows
        if (row["seed"], row["iteration"]) == (seed, iteration)
    ]
    return np.reshape(found, (20, 3))


def test_snapshots_show_where_balls_are_thrown_at_and_their_distances(
    make: Callable[..., Run],
) -> None:
    runs = [
        make(start="target", num_iterations=110),
        make(seeds=(2, 3, 7), num_iterations=110),
    ]
    figure = catching_snapshots(runs)
    panels = np.reshape(figure.axes, (4, 4))
    assert [axes.get_title() for axes in panels[0]] == [
        f"iteration {k}" for k in (0, 50, 80, 110)
    ]
    names = [axes.get_ylabel().split("\n")[0] for axes in panels[[0, 2], 0]]
    assert names == ["SPDL (ζ)", "SPDL* (ζ)"]
    # the seeds that both have are 2 and 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "seed 2",
        "seed 3",
        "target",
        "resting net",
    ]
    for row, run in enumerate(runs):
        for column, iteration in ((0, 0), (2, 80)):
            shown = contexts(run, 3, iteration)
            plane, strip = panels[2 * row, column], panels[2 * row + 1, column]
            np.testing.assert_allclose(points(plane, PALETTE[1]), thrown_at(shown))
            np.testing.assert_allclose(points(strip, PALETTE[1])[:, 0], shown[:, 2])


def test_the_plane_has_the_reachable_sector_and_the_net_in_true_proportions(
    make: Callable[..., Run],
) -> None:
    axes = catching_snapshots([make(num_iterations=20)], [0, 5, 20]).axes[0]
    (sector,) = [patch.get_xy() for patch in axes.patches if type(patch) is Polygon]
    radii = np.hypot(sector[:, 0], sector[:, 1] - 0.75)
    assert (radii.min(), radii.max()) == (pytest.approx(0.6), pytest.approx(1.1))
    angles = np.arctan2(sector[:, 1] - 0.75, -sector[:, 0])
    assert (angles.min(), angles.max()) == (
        pytest.approx(np.pi / 8),
        pytest.approx(np.pi / 2),
    )
    (net,) = [patch for patch in axes.patches if isinstance(patch, Circle)]
    assert (net.center, net.radius) == (RESTING_NET, 0.06)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert axes.get_box_aspect() == pytest.approx((top - bottom) / (right - left))
    assert left < sector[:, 0].min() < sector[:, 0].max() < right


def test_grey_is_the_target_clipped_to_the_bounds(make: Callable[..., Run]) -> None:
    run = make(num_iterations=20)
    axes = catching_snapshots([run], [0, 5, 20]).axes[3]
    distances = points(axes, "#c4c4c4")[:, 0]
    assert (distances.min(), distances.max()) == (0.75, 4.0)
    assert abs(np.median(distances) - 2.375) < 4 * 1.2533 / np.sqrt(
        distances.size
    )  # the median of N(2.375, 1)
