"""Pictures of sweeps and of several runs, from made-up run folders."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spjax.analysis import distributions
from spjax.analysis.curves import MOST_NAMED, learning_curve
from spjax.analysis.pictures import distinct_labels, plot_run, plot_runs
from spjax.analysis.sweep import grid_of, outcomes_of, sweep_picture
from spjax.cli import main
from spjax.cli.report import BEST_ROWS, WORST_ROWS, extremes
from spjax.runs.read import load_run
from spjax.runs.schema import Moments

MakeRun = Callable[..., Path]
ZETA, OFFSET, MAX_KL = (
    "teacher.schedule.zeta",
    "teacher.schedule.offset",
    "teacher.max_kl",
)
TWO = tuple({ZETA: zeta, OFFSET: offset} for zeta in (1.6, 0.4) for offset in (5, 10))
MANY = tuple({ZETA: 0.1 * number} for number in range(1, 31))


def with_returns(folder: Path, returns: Callable[[int, int], float]) -> Path:
    """Gives a run folder these returns, by lane and iteration."""
    for part in (folder / "evaluation").iterdir():
        table = pq.read_table(part)
        rows = zip(
            table["lane"].to_pylist(), table["iteration"].to_pylist(), strict=True
        )
        column = pa.array([returns(lane, iteration) for lane, iteration in rows])
        place = table.column_names.index("discounted_return")
        pq.write_table(table.set_column(place, "discounted_return", column), part)
    return folder


def test_outcomes_are_final_means_and_crossings_of_a_threshold(
    make_run: MakeRun,
) -> None:
    # lane -> its final return; all rise linearly from 2
    finals = [12.0, 10.0, 7.0, 7.0, 2.0, 2.0, 4.0, 6.0]
    folder = with_returns(
        make_run(swept=TWO, seeds=(1, 2)),
        lambda lane, iteration: 2 + (finals[lane] - 2) * iteration / 20,
    )
    run = load_run(folder)
    final, crossing = outcomes_of(run)
    np.testing.assert_allclose(final.mean, [11.0, 7.0, 2.0, 5.0])
    np.testing.assert_allclose(final.error, np.array([1, 0, 0, 1]) / np.sqrt(2))
    # 80 % of the way from 2 to 11 is 9.2
    assert crossing.label == "iterations to 9.2"
    first = (20 * 7.2 / 10 + 20 * 7.2 / 8) / 2
    np.testing.assert_allclose(crossing.mean, [first, 20.0, 20.0, 20.0])

    grid = grid_of(run)
    assert grid.values == ((0.4, 1.6), (5, 10))
    np.testing.assert_array_equal(grid.places, [[1, 0], [1, 1], [0, 0], [0, 1]])


def test_two_settings_are_a_heat_map_with_each_mean_in_its_cell(
    make_run: MakeRun,
) -> None:
    finals = [11.0, 11.0, 7.0, 7.0, 2.0, 2.0, 5.0, 5.0]
    folder = with_returns(
        make_run(swept=TWO, seeds=(1, 2)),
        lambda lane, iteration: 2 + (finals[lane] - 2) * iteration / 20,
    )
    figure = sweep_picture(load_run(folder))
    returns = figure.axes[0]
    table = np.asarray(returns.images[0].get_array())
    np.testing.assert_allclose(table, [[2.0, 11.0], [5.0, 7.0]])  # offset by zeta
    assert [text.get_text() for text in returns.get_xticklabels()] == ["0.4", "1.6"]
    assert [text.get_text() for text in returns.get_yticklabels()] == ["5", "10"]
    written = {text.get_position(): text.get_text() for text in returns.texts}
    assert written[(1, 0)] == "11.0\n± 0.0"


def test_one_setting_is_points_and_three_are_lines(make_run: MakeRun) -> None:
    one = load_run(make_run(swept=MANY[:3], seeds=(1, 2)))
    points = sweep_picture(one).axes[0].containers[0].lines[0]
    np.testing.assert_array_equal(points.get_xdata(), [0, 1, 2])
    np.testing.assert_allclose(points.get_ydata(), outcomes_of(one)[0].mean)

    three = load_run(make_run(swept=tuple({**both, MAX_KL: 0.1} for both in TWO)))
    axes = sweep_picture(three).axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 5]
    assert len(lines) == len(TWO)
    best = max(lines, key=lambda line: line.get_linewidth())
    assert best.get_ydata()[3] == 1.0  # of the return's axis


def test_a_lane_without_a_result_leaves_its_cell_empty(make_run: MakeRun) -> None:
    folder = with_returns(
        make_run(swept=TWO, seeds=(1,)),
        lambda lane, iteration: np.nan if lane == 2 else float(lane + iteration),
    )
    table = np.asarray(
        sweep_picture(load_run(folder)).axes[0].images[0].get_array(), dtype=float
    )
    assert np.isnan(table[0, 0])
    assert np.isfinite(table).sum() == 3


def test_a_run_that_sweeps_nothing_has_no_such_picture(make_run: MakeRun) -> None:
    folder = make_run()
    assert "sweep" not in [path.stem for path in plot_run(folder)]
    with pytest.raises(ValueError, match="is no sweep"):
        sweep_picture(load_run(folder))


@pytest.mark.slow
def test_many_values_have_pictures_of_their_own_on_request_alone(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(swept=MANY[:5], seeds=(1,))
    assert main(["plot", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert f"each of the 5 settings: spjax plot {folder} --each" in printed
    stems = {path.stem for path in (folder / "pictures").iterdir()}
    assert stems == {"learning_curve", "success_rate", "kl_to_target", "alpha", "sweep"}
    asked = plot_run(folder, ["contexts"], each=True)
    assert len(asked) == 5
    assert plot_run(make_run(swept=MANY[:2]), ["contexts"], each=False) == []


def test_a_crowded_picture_names_a_few_curves_and_has_no_bands(
    make_run: MakeRun,
) -> None:
    run = load_run(make_run(swept=MANY, seeds=(1, 2)))
    figure = learning_curve([run], ["any"])
    (axes,) = figure.axes
    assert len(axes.lines) == len(MANY)
    assert not axes.collections
    (legend,) = figure.legends
    assert len(legend.get_texts()) == MOST_NAMED // 2
    assert axes.get_title(loc="left").endswith("6 of 30 curves are named")


def test_the_band_of_a_success_rate_stays_between_0_and_1(make_run: MakeRun) -> None:
    figure = learning_curve([load_run(make_run())], ["any"], metric="success_rate")
    heights = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() >= 0
    assert heights.max() <= 1


def test_runs_of_one_teacher_are_told_apart_by_the_settings_that_differ(
    make_run: MakeRun,
) -> None:
    runs = list(map(load_run, [make_run(zeta=1.2), make_run(), make_run(agent="sac")]))
    own = "self-paced (proportion)"
    assert distinct_labels(runs[:2]) == [
        f"{own}, $\\zeta$ = 1.2",
        f"{own}, $\\zeta$ = 1.6",
    ]
    assert distinct_labels(runs) == [
        f"PPO, {own}, $\\zeta$ = 1.2",
        f"PPO, {own}, $\\zeta$ = 1.6",
        f"SAC, {own}",
    ]


def test_a_setting_that_was_swept_tells_no_runs_apart(make_run: MakeRun) -> None:
    swept = ({"teacher.schedule.zeta": 0.8}, {"teacher.schedule.zeta": 1.0})
    runs = list(map(load_run, [make_run(swept=swept), make_run(swept=swept, zeta=1.2)]))
    assert distinct_labels(runs) == [run.path.name for run in runs]


def test_runs_share_pictures_and_are_told_apart(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run(), make_run(teacher="default", schedule=None)]
    assert distinct_labels(list(map(load_run, runs))) == [
        "self-paced (proportion)",
        "default",
    ]
    same = list(map(load_run, [make_run(), make_run()]))
    assert distinct_labels(same) == [run.path.name for run in same]
    out = tmp_path / "both"
    files = plot_runs(runs, out, ["learning-curve", "contexts"], ["svg", "pdf"])
    assert [path.name for path in files] == ["learning_curve.svg", "learning_curve.pdf"]
    text = files[0].read_text()
    assert "default" in text
    assert "self-paced (proportion)" in text
    assert files[1].read_bytes().startswith(b"%PDF")

    arguments = ["plot", *map(str, runs), "--out", str(out), "--only", "alpha"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"picture: {out}/alpha.png\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--format", "jpg"], "pictures are png, pdf or svg, got 'jpg'"),
        (["--out", "here"], "--out is for several runs"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(
    arguments: list[str],
    sentence: str,
    make_run: MakeRun,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plot", str(make_run()), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_runs_of_different_tasks_share_no_picture(
    make_run: MakeRun, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="runs of one task can share a picture"):
        plot_runs([make_run(), make_run(env="ball-catching")], tmp_path)
    assert not list(tmp_path.glob("*.png"))


def test_a_long_table_shows_the_highest_and_the_lowest() -> None:
    records = [{"metric": "discounted_return", "mean": float(i)} for i in range(30)]
    shown, left_out = extremes(records)
    assert left_out == 30 - BEST_ROWS - WORST_ROWS
    assert [record["mean"] for record in shown] == [
        *(29.0 - i for i in range(BEST_ROWS)),
        *(WORST_ROWS - 1.0 - i for i in range(WORST_ROWS)),
    ]
    assert extremes(records[:20]) == (records[:20], 0)


def test_an_ellipse_is_two_standard_deviations_away_in_every_direction() -> None:
    covariance = np.array([[4.0, 1.2], [1.2, 1.0]])
    outline = distributions.ellipse(np.array([3.0, -1.0]), covariance)
    away = outline - np.array([[3.0], [-1.0]])
    distance = np.einsum("ip,ij,jp->p", away, np.linalg.inv(covariance), away)
    np.testing.assert_allclose(distance, 4.0, rtol=1e-9)


def test_initial_and_target_are_ellipses_or_atoms(make_run: MakeRun) -> None:
    from matplotlib.figure import Figure

    record = load_run(make_run()).config
    axes = Figure().add_subplot()
    distributions.draw_distribution(axes, record, "initial", (0, 2), {"color": "k"})
    (line,) = axes.lines
    assert isinstance(record.initial, Moments)
    reach = [
        record.initial.mean[0] + 2 * record.initial.std[0] * sign for sign in (-1, 1)
    ]
    np.testing.assert_allclose(
        [line.get_xdata().min(), line.get_xdata().max()], reach, rtol=1e-3
    )

    axes = Figure().add_subplot()
    record.settings["teacher"]["target"] = {
        "distribution": "discrete",
        "table": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]],
        "weights": [1.0, 0.0, 0.25],
    }
    distributions.draw_distribution(axes, record, "target", (0, 2), {"color": "k"})
    (dots,) = axes.collections
    np.testing.assert_array_equal(dots.get_offsets(), [[0.0, 2.0], [6.0, 8.0]])
    np.testing.assert_allclose(dots.get_sizes(), [40.0, 10.0])
