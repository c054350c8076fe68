import dataclasses
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spjax.analysis import statistics
from spjax.analysis.curves import (
    Series,
    alpha_curve,
    draw_band,
    kl_to_target_curve,
    learning_curve,
)
from spjax.analysis.pictures import Contexts, plot_run
from spjax.analysis.snapshots import context_line, context_snapshots, trajectory_picture
from spjax.analysis.text import settings_label
from spjax.runs.read import Run, load_run
from tests.made_run import REFERENCE

MakeRun = Callable[..., Path]
SWEPT = ({"teacher.schedule.zeta": 0.8}, {"teacher.schedule.zeta": 1.6})


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def curves(axes: Axes, count: int) -> list[np.ndarray]:
    """Returns the data of the lines with more than two points."""
    found = [line.get_xydata() for line in axes.lines if len(line.get_xdata()) > 2]
    assert len(found) == count
    return found


def size(png: Path) -> tuple[int, int]:
    header = png.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    return struct.unpack(">II", header[16:])


@pytest.mark.slow
def test_a_run_folder_becomes_pictures_that_fit_a_readme(make_run: MakeRun) -> None:
    folder = make_run(num_iterations=100)
    files = plot_run(folder)
    names = [
        "learning_curve",
        "success_rate",
        "kl_to_target",
        "alpha",
        "contexts",
        "trajectories",
    ]
    assert [file.relative_to(folder).as_posix() for file in files] == [
        f"pictures/{name}.png" for name in names
    ]
    assert sorted(file.name for file in (folder / "pictures").iterdir()) == sorted(
        file.name for file in files
    )
    for file in files:
        width, height = size(file)
        assert 900 <= width <= 1700
        assert 400 <= height <= 1100


@pytest.mark.slow
def test_what_was_not_recorded_is_not_drawn(make_run: MakeRun) -> None:
    files = plot_run(make_run(teacher="default", schedule=None, finished=False))
    assert [file.stem for file in files] == [
        "learning_curve",
        "success_rate",
        "contexts",
    ]


@pytest.mark.slow
def test_a_swept_run_has_snapshots_and_trajectories_for_each_value(
    make_run: MakeRun,
) -> None:
    stems = [file.stem for file in plot_run(make_run(swept=SWEPT))][4:]
    values = [f"teacher.schedule.zeta-{value}" for value in (0.8, 1.6)]
    assert [stem for stem in stems if stem != "sweep"] == [
        f"{name}-{value}" for name in ("contexts", "trajectories") for value in values
    ]


MINE = """
from matplotlib.figure import Figure

from spjax.analysis.pictures import Picture
from spjax.catalogue import part


@part("picture", "last-return")
class LastReturn(Picture):
    def draw(self, run):
        figure = Figure()
        returns = run.evaluation_curves("discounted_return", run.groups()[0]).values
        figure.subplots().hist(returns[:, -1])
        return figure


@part("picture", "nothing-to-show")
class Nothing(Picture):
    def draw(self, run):
        return None
"""


def plot(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs `spjax plot` in a process of its own."""
    command = [sys.executable, "-m", "spjax.cli", "plot", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_a_picture_in_a_users_file_is_drawn_with_the_others(
    make_run: MakeRun, tmp_path: Path
) -> None:
    folder, mine = make_run(), tmp_path / "mine.py"
    mine.write_text(MINE)
    done = plot(folder, "--use", mine)
    drawn = [
        Path(line.removeprefix("picture: ")).name for line in done.stdout.splitlines()
    ]
    ours = [
        "learning_curve",
        "success_rate",
        "kl_to_target",
        "alpha",
        "contexts",
        "trajectories",
    ]
    assert (drawn, done.stderr) == (
        [f"{name}.png" for name in (*ours, "last_return")],
        "",
    )
    assert sorted(file.name for file in (folder / "pictures").iterdir()) == sorted(
        drawn
    )


@pytest.mark.slow
def test_pictures_are_drawn_by_name(make_run: MakeRun, tmp_path: Path) -> None:
    folder, mine = make_run(), tmp_path / "mine.py"
    mine.write_text(MINE)
    done = plot(folder, "--only", "last-return", "contexts", "--use", mine)
    assert [file.name for file in sorted((folder / "pictures").iterdir())] == [
        "contexts.png",
        "last_return.png",
    ]
    assert done.returncode == 0
    done = plot(folder, "--only", "context")
    assert done.returncode == 2
    assert done.stderr == "spjax: unknown picture 'context'; did you mean 'contexts'?\n"
    with pytest.raises(
        ValueError, match="unknown picture 'last-return'"
    ):  # of another process
        plot_run(folder, ["last-return"])


def test_a_run_is_drawn_as_a_user_asks_for_it(make_run: MakeRun) -> None:
    assert [file.stem for file in plot_run(make_run(), ["success-rate"])] == [
        "success_rate"
    ]


def test_a_picture_apart_sees_the_lanes_of_its_value_alone(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Run] = []
    monkeypatch.setattr(Contexts, "draw", lambda self, run: seen.append(run))
    run = load_run(make_run(swept=SWEPT, seeds=(3, 7), frozen=(2,)))
    assert "contexts" not in "".join(file.stem for file in plot_run(run.path))
    first, second = seen
    assert [lane.seed for lane in second.config.lanes] == [3, 7]
    assert {lane.settings["teacher.schedule.zeta"] for lane in second.config.lanes} == {
        1.6
    }
    assert (
        first.num_frozen(first.groups()[0]),
        second.num_frozen(second.groups()[0]),
    ) == (0, 1)
    for read in ("evaluation_curves", "metric_curves"):
        whole = getattr(run, read)("discounted_return", run.groups()[1]).values
        np.testing.assert_array_equal(
            getattr(second, read)("discounted_return", second.groups()[0]).values, whole
        )
    assert second.trajectories is not None
    assert set(second.trajectories["lane"].to_pylist()) == {0, 1}


def test_the_learning_curve_is_the_mean_with_two_standard_errors_and_the_published_value(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(reference=REFERENCE))
    figure = learning_curve([run], ["self-paced"])
    axes = figure.axes[0]
    recorded = run.evaluation_curves("discounted_return", run.groups()[0])
    band = statistics.two_standard_errors(recorded.values)
    (curve,) = curves(axes, 1)
    np.testing.assert_allclose(
        curve, np.stack([recorded.iterations, band.middle], axis=1)
    )
    outline = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (outline.min(), outline.max()) == pytest.approx(
        (band.low.min(), band.high.max())
    )
    dashed = [
        line.get_ydata() for line in axes.lines if list(line.get_xdata()) == [0, 1]
    ]
    np.testing.assert_allclose(dashed, [[8.45, 8.45]])
    assert legend(figure) == ["self-paced", "Someone (2021), after 400: 8.45 ± 0.42"]
    assert axes.get_xlabel() == "iterations of 2,048 environment steps"
    assert axes.get_title(loc="left") == "mean ± 2 standard errors, 4 seeds"


def test_the_published_value_is_drawn_among_the_returns_that_it_is_one_of(
    make_run: MakeRun,
) -> None:
    printed = dataclasses.replace(REFERENCE, metric="episode_return")
    run = load_run(make_run(reference=printed))
    for metric, drawn in (("discounted_return", 0), ("episode_return", 1)):
        lines = learning_curve([run], ["self-paced"], metric).axes[0].lines
        dashed = [line for line in lines if list(line.get_xdata()) == [0, 1]]
        assert len(dashed) == drawn


@pytest.mark.parametrize(("length", "drawn"), [(400, [400.0]), (20, []), (500, [])])
def test_the_published_value_is_marked_at_the_end_of_a_run_of_its_length(
    make_run: MakeRun, length, drawn
) -> None:
    figure = learning_curve(
        [
            load_run(
                make_run(
                    num_iterations=length, evaluate_every=length, reference=REFERENCE
                )
            )
        ],
        ["self-paced"],
    )
    diamonds = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert [float(line.get_xdata()[0]) for line in diamonds] == drawn
    assert "Someone (2021), after 400: 8.45 ± 0.42" in legend(figure)


def test_a_single_point_shows(make_run: MakeRun) -> None:
    run = load_run(make_run())
    axes, series = (
        Figure().add_subplot(),
        Series(run, run.groups()[0], "curve", "black", "solid"),
    )
    for values, marker in (
        (np.array([np.nan, 3.0, np.nan]), "o"),
        (np.array([1.0, 2.0, np.nan]), "None"),
    ):
        assert (
            draw_band(
                axes, series, np.arange(3), statistics.Band(values, values, values)
            ).get_marker()
            == marker
        )


def test_the_quantile_band_shows_the_median(make_run: MakeRun) -> None:
    run = load_run(make_run())
    axes = learning_curve([run], ["self-paced"], spread="quantiles").axes[0]
    recorded = run.evaluation_curves("discounted_return", run.groups()[0])
    np.testing.assert_allclose(
        curves(axes, 1)[0][:, 1], np.median(recorded.values, axis=0)
    )


def test_a_swept_run_has_one_curve_a_value_and_no_published_line(
    make_run: MakeRun,
) -> None:
    figure = learning_curve(
        [load_run(make_run(swept=SWEPT, reference=REFERENCE))], ["self-paced"]
    )
    curves(figure.axes[0], 2)
    assert legend(figure) == ["$\\zeta$ = 0.8", "$\\zeta$ = 1.6"]


def test_runs_side_by_side_keep_their_labels_and_say_what_froze(
    make_run: MakeRun,
) -> None:
    runs = [
        load_run(make_run(frozen=(1,), reference=REFERENCE)),
        load_run(make_run(teacher="default", schedule=None)),
    ]
    figure = learning_curve(runs, ["curriculum", "none"])
    assert legend(figure) == [
        "curriculum, 1 of 4 frozen",
        "Someone (2021), after 400: 8.45 ± 0.42",
        "none",  # a run that carries nothing published
    ]
    colors = {line.get_color() for line in figure.axes[0].lines}
    assert len(colors) == 2


def test_every_run_needs_a_label(make_run: MakeRun) -> None:
    with pytest.raises(ValueError, match="got 2 labels for 1 runs"):
        learning_curve([load_run(make_run())], ["one", "two"])


def test_kl_to_the_target_is_drawn_on_a_logarithmic_axis(make_run: MakeRun) -> None:
    run = load_run(make_run())
    axes = kl_to_target_curve([run], ["self-paced"]).axes[0]
    assert (axes.get_yscale(), axes.get_ylabel()) == (
        "log",
        "KL to the target distribution [nats]",
    )
    recorded = run.metric_curves("teacher.kl_to_target", run.groups()[0])
    np.testing.assert_allclose(
        curves(axes, 1)[0][:, 1], np.median(recorded.values, axis=0)
    )


def test_alpha_shows_its_zeros_and_spreads_its_powers_of_ten(make_run: MakeRun) -> None:
    run = load_run(make_run())
    axes = alpha_curve([run], ["self-paced"]).axes[0]
    alpha = curves(axes, 1)[0][:, 1]
    assert (alpha[:10] == 0).all()
    low, first, last = axes.transData.transform(
        [(1, 0.0), (1, alpha[10]), (1, alpha[-1])]
    )[:, 1]
    assert low < first < last
    assert first - low > 10  # pixels: the first positive value is told apart from zero


def test_context_snapshots_have_a_column_an_iteration_and_a_row_a_dimension(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(num_iterations=70, seeds=(5, 11, 16, 20, 21, 22)))
    figure = context_snapshots(run, (0, 20, 30, 50, 65, 120))
    panels = np.reshape(figure.axes, (2, 5))
    assert [axes.get_title() for axes in panels[0]] == [
        f"iteration {k}" for k in (0, 20, 30, 50, 65)
    ]
    assert [axes.get_ylabel() for axes in panels[:, 0]] == [
        "gate width [m]",
        "friction [1/s]",
    ]
    assert legend(figure) == [
        *("seed 5", "seed 16", "seed 20", "seed 22"),
        *("initial", "target"),
    ]
    rows = {
        (row["lane"], row["iteration"]): row["contexts"]
        for row in run.evaluation.to_pylist()
    }
    drawn = panels[1, 2].collections[-1].get_offsets()
    np.testing.assert_allclose(drawn, np.reshape(rows[5, 30], (20, 3))[:, [0, 2]])
    for axes, target in zip(panels[:, 0], ([2.5, 0.5], [2.5, 0.0]), strict=True):
        *_, star = axes.lines
        assert star.get_xydata().tolist() == [target]


def test_contexts_of_one_dimension_are_drawn_over_the_iterations(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(num_iterations=30, dim=1, seeds=(5, 11)))
    figure = context_line(run, (0, 10, 30))
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "10", "30"]
    assert axes.get_ylabel() == "gate position [m]"
    assert legend(figure) == ["seed 5", "seed 11", "target"]
    contexts = {
        (row["lane"], row["iteration"]): row["contexts"]
        for row in run.evaluation.to_pylist()
    }
    drawn = np.asarray(axes.collections[3].get_offsets())
    np.testing.assert_allclose(drawn[:, 1], contexts[1, 10])
    assert ((drawn[:, 0] > 1) & (drawn[:, 0] < 1.5)).all()  # right of its iteration
    assert list(axes.lines[0].get_ydata()) == [2.5, 2.5]
    assert plot_run(run.path, ["contexts"])[0].stem == "contexts"


def test_short_runs_show_what_they_have(make_run: MakeRun) -> None:
    run = load_run(make_run(num_iterations=15, dim=2))
    figure = context_snapshots(run)
    assert [axes.get_title() for axes in figure.axes] == [
        f"iteration {k}" for k in (0, 5, 10, 15)
    ]


def test_trajectories_show_walls_start_goal_and_every_failure(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run())
    figure = trajectory_picture(run)
    assert run.trajectories is not None
    failures = [row for row in run.trajectories.to_pylist() if not row["success"]]
    successes = run.trajectories.num_rows - len(failures)
    assert 0 < len(failures) < successes
    lines = figure.axes[0].lines
    assert [line.get_xydata().tolist() for line in lines[:2]] == [
        [[-4, 0], [2.25, 0]],
        [[2.75, 0], [4, 0]],
    ]
    crosses = [
        line.get_xydata()[0].tolist() for line in lines if line.get_marker() == "x"
    ]
    assert crosses == [[row["x"][-1], row["y"][-1]] for row in failures]
    marked = [
        line.get_xydata()[0].tolist()
        for line in lines
        if line.get_marker() in ("o", "*")
    ]
    assert marked == [[0.0, 3.0], [0.0, -3.0]]
    ended = f"failure, × where it ended: {len(failures)}"
    assert legend(figure) == [f"success: {successes}", ended, "wall", "start", "goal"]


def test_a_task_names_its_plane_and_scenery_and_only_a_start_that_all_episodes_share_is_marked(
    make_run: MakeRun,
) -> None:
    folder = make_run()
    config = json.loads((folder / "config.json").read_text())
    config |= {"plane": ["x", "z"], "scenery_name": "ground", "goal": None}
    (folder / "config.json").write_text(json.dumps(config))
    run = load_run(folder)
    assert run.trajectories is not None
    paths = run.trajectories["x"].to_pylist()
    paths[0] = [value + 1.0 for value in paths[0]]
    column = run.trajectories.schema.get_field_index("x")
    run = dataclasses.replace(
        run, trajectories=run.trajectories.set_column(column, "x", pa.array(paths))
    )
    figure = trajectory_picture(run)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == (
        "x [m]",
        "z [m]",
    )
    assert legend(figure)[2:] == ["ground"]


def test_trajectories_of_a_run_that_goes_on_are_refused(make_run: MakeRun) -> None:
    run = load_run(make_run(finished=False))
    with pytest.raises(ValueError, match="has no trajectories yet"):
        trajectory_picture(run)


@pytest.mark.parametrize("part", ["teacher", "teacher.schedule", "agent"])
def test_swept_settings_have_their_symbols_whatever_part_they_belong_to(
    part: str,
) -> None:
    names = ("zeta", "offset", "performance_bound", "max_kl", "std_floor")
    symbols = ["$\\zeta$", "$K_\\alpha$", "$V_{LB}$", "$\\epsilon$", "$\\sigma_{LB}$"]
    label = settings_label({f"{part}.{name}": 2 for name in names})
    assert label == ", ".join(f"{symbol} = 2" for symbol in symbols)
    assert settings_label({f"{part}.discount": 0.9}) == "discount = 0.9"
