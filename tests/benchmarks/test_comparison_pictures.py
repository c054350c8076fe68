import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from benchmarks.paper.pictures.curricula import (
    CURRICULA,
    Curriculum,
    curriculum_curves,
    curriculum_of,
)
from benchmarks.paper.pictures.rollouts import rollout_grid
from benchmarks.paper.pictures.trade_off import trade_off_figure
from spjax.analysis import statistics
from spjax.analysis.records import record
from spjax.runs.read import load_run
from spjax.runs.results import Record
from tests.made_run import REFERENCE

MakeRun = Callable[..., Path]
SPDL, DEFAULT = CURRICULA[0], CURRICULA[5]


def test_a_run_is_known_by_teacher_and_schedule(make_run: MakeRun) -> None:
    assert curriculum_of(load_run(make_run()).config) is SPDL
    assert (
        curriculum_of(load_run(make_run(teacher="default", schedule=None)).config)
        is DEFAULT
    )
    with pytest.raises(
        ValueError, match=r"^'bandit' is none of SPDL \(ζ\), SPDL \(V_LB\), "
    ):
        curriculum_of(load_run(make_run(teacher="bandit", schedule=None)).config)


def test_every_curriculum_has_a_look_of_its_own() -> None:
    assert len({curriculum.look[0] for curriculum in CURRICULA}) == len(CURRICULA)


def test_curves_of_a_curriculum_look_the_same_in_every_panel(make_run: MakeRun) -> None:
    spdl, default = (
        load_run(make_run()),
        load_run(make_run(teacher="default", schedule=None)),
    )
    flat = load_run(make_run(dim=2))
    figure = curriculum_curves({"3-D": [default, spdl], "2-D": [flat]})
    left, right = figure.axes
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["3-D", "2-D"]
    color = {
        line.get_label(): line.get_color()
        for line in left.lines
        if len(line.get_xdata()) > 2
    }
    assert [color[name] for name in ("Default", "SPDL (ζ)")] == [
        DEFAULT.look[0],
        SPDL.look[0],
    ]
    assert right.lines[0].get_color() == SPDL.look[0]
    recorded = flat.evaluation_curves("discounted_return", flat.groups()[0])
    np.testing.assert_allclose(
        right.lines[0].get_ydata(), statistics.mean(recorded.values)
    )
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["SPDL (ζ)", "Default"]


def test_returns_below_zero_are_in_the_picture_and_zero_always_is(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run())
    place = run.evaluation.column_names.index("discounted_return")
    lower = pc.subtract(run.evaluation["discounted_return"], 20.0)
    below = dataclasses.replace(
        run, evaluation=run.evaluation.set_column(place, "discounted_return", lower)
    )
    lowest = statistics.two_standard_errors(
        below.evaluation_curves("discounted_return", below.groups()[0]).values
    ).low
    (axes,) = curriculum_curves({"3-D": [run]}).axes
    assert axes.get_ylim()[0] == 0
    for axes in curriculum_curves({"3-D": [run], "again": [below]}).axes:
        assert axes.get_ylim()[0] == pytest.approx(lowest.min())


def test_dashed_lines_are_the_final_returns_in_print(make_run: MakeRun) -> None:
    runs = [
        load_run(make_run(reference=REFERENCE)),
        load_run(make_run(teacher="random", schedule=None)),
    ]
    figure = curriculum_curves({"3-D": runs})
    dashed = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert [list(line.get_ydata()) for line in dashed] == [[8.45, 8.45]]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[-1] == "the paper's final return"


def test_the_grid_of_rollouts_has_one_path_a_seed_and_counts_those_at_the_goal(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(seeds=(1, 2, 3, 4, 5, 6)))
    assert run.trajectories is not None
    first = [row for row in run.trajectories.to_pylist() if row["episode"] == 0]
    reached = sum(row["success"] for row in first)
    figure = rollout_grid({"TRPO": {}, "PPO": {SPDL: run}}, [SPDL, DEFAULT])
    top, untrained, panel, _ = figure.axes
    assert [top.get_title(), untrained.get_title()] == ["SPDL (ζ)", "Default"]
    assert [top.get_ylabel(), panel.get_ylabel()] == ["TRPO", "PPO"]
    paths = [line.get_xydata() for line in panel.lines if len(line.get_xdata()) > 2]
    assert sorted(path[-1].tolist() for path in paths) == sorted(
        [row["x"][-1], row["y"][-1]] for row in first
    )
    assert [text.get_text() for text in panel.texts] == [f"{reached} of 6"]
    assert [text.get_text() for text in untrained.texts] == ["not trained"]


def swept(
    name: str, value: float, metric: str, values: list[float], never: int | None = None
) -> Record:
    method = {
        "experiment": "trade-off",
        "env": "point-mass-3d",
        "agent": "trpo",
        "teacher": "self-paced",
    }
    threshold = 5.0 if metric == "iterations_to_threshold" else None
    return record(
        **method,
        metric=metric,
        seeds=[1, 2],
        values=values,
        settings={"teacher.max_kl": 0.05, name: value},
        threshold=threshold,
        never_reached=never,
    )


def test_the_trade_off_shows_returns_on_the_left_and_iterations_on_the_right() -> None:
    zeta = [
        swept("teacher.schedule.zeta", 0.4, "discounted_return", [6.0, 8.0]),
        swept("teacher.schedule.zeta", 1.6, "discounted_return", [2.0, 3.0]),
        swept(
            "teacher.schedule.zeta", 0.4, "iterations_to_threshold", [100.0, 140.0], 0
        ),
        swept(
            "teacher.schedule.zeta", 1.6, "iterations_to_threshold", [400.0, 60.0], 1
        ),
    ]
    figure = trade_off_figure(
        {
            "teacher.schedule.zeta": zeta,
            "teacher.schedule.offset": [_renamed(entry) for entry in zeta],
        }
    )
    left, other, right, _ = figure.axes
    assert [left.get_xlabel(), other.get_xlabel()] == ["$\\zeta$", "$K_\\alpha$"]
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.4", "1.6"]
    assert left.lines[0].get_xydata().tolist() == [[0.4, 7.0], [1.6, 2.5]]
    assert right.lines[0].get_xydata().tolist() == [[0.4, 120.0], [1.6, 230.0]]
    bars = [segment[:, 1].tolist() for segment in left.collections[0].get_segments()]
    np.testing.assert_allclose(
        bars, [[7 - 2**-0.5, 7 + 2**-0.5], [2.5 - 0.125**0.5, 2.5 + 0.125**0.5]]
    )
    assert [text.get_text() for text in right.texts] == ["1"]
    assert right.get_ylabel() == "iterations to a return of 5"


@pytest.mark.slow
def test_a_swept_zero_has_a_place_of_its_own() -> None:
    offsets = [
        swept("teacher.schedule.offset", offset, metric, [1.0, 2.0], 0)
        for metric in ("discounted_return", "iterations_to_threshold")
        for offset in (0, 1, 9)
    ]
    axes = trade_off_figure({"teacher.schedule.offset": offsets}).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "9"]
    places = axes.transData.transform([(offset, 1.0) for offset in (0, 1, 9)])[:, 0]
    assert np.isfinite(places).all()
    assert np.diff(places).min() > 50  # pixels


def _renamed(entry: Record) -> Record:
    settings = {
        name.replace("zeta", "offset"): value
        for name, value in entry["settings"].items()
    }
    return Record(**{**entry, "settings": settings})


def test_a_curriculum_outside_the_paper_says_so() -> None:
    assert [
        curriculum.label for curriculum in CURRICULA if not curriculum.in_paper
    ] == ["SPGL"]
    assert (
        Curriculum("self-paced", "bound", "SPDL (V_LB)").mathematical_label
        == "SPDL ($V_{LB}$)"
    )
