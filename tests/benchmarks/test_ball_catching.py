"""Cells, tables and pictures of ball catching, from made-up run folders."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.paper import figure_ball_catching, table_1, table_2
from benchmarks.paper.__main__ import parser
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import curriculum_of
from benchmarks.paper.records import Runs, finished_runs
from spjax.analysis.statistics import welch_against_paper
from spjax.presets.published import experiments, published
from spjax.runs.read import load_run
from spjax.runs.results import read_records

MakeCell = Callable[..., Path]
CELLS = {
    cell.name.removeprefix("ball-catching_"): cell
    for cell in figure_ball_catching.CELLS
}
BASELINES = ["alp-gmm", "goal-gan", "goal-gan_starred", "default", "default_starred"]
SELF_PACED = [
    f"self-paced_{name}"
    for name in ("proportion", "bound", "proportion_starred", "bound_starred")
]


@pytest.fixture
def runs_of(tmp_path: Path) -> Callable[..., Runs]:
    """Returns a function that reads the finished run folders of cells below tmp_path."""
    return lambda *cells: finished_runs(
        block for cell in cells for block in blocks_of(cell, tmp_path, 1)
    )


def tables(text: str) -> dict[str, dict[str, list[str]]]:
    """Returns the cells by learner and curriculum."""
    sections = [section.split("\n\n") for section in text.split("### ")[1:]]
    return {
        learner: dict(map(_row, table.splitlines()[2:]))
        for learner, table, *_ in sections
    }


def _row(line: str) -> tuple[str, list[str]]:
    label, *cells = [
        cell.strip()
        for cell in line.strip().removeprefix("|").removesuffix("|").split("|")
    ]
    return label, cells


def test_every_learner_has_every_curriculum_that_the_paper_shows() -> None:
    agents = ("trpo", "ppo", "sac")
    assert sorted(CELLS) == sorted(
        f"{agent}_{name}" for agent in agents for name in (*SELF_PACED, *BASELINES)
    )


def test_every_printed_experiment_has_a_cell_and_of_sac_the_baselines_are_not_in_print() -> (
    None
):
    printed = [name for name, cell in CELLS.items() if cell.reference is not None]
    assert set(CELLS) - set(printed) == {f"sac_{name}" for name in BASELINES}
    assert len(printed) == sum(
        experiment.task == "ball-catching" for experiment in experiments()
    )


@pytest.mark.slow
def test_a_cell_is_the_experiment_that_is_in_print(make_cell: MakeCell) -> None:
    for cell in CELLS.values():
        record = load_run(make_cell(cell, [1.0])).config
        names = (
            record.task,
            record.agent,
            record.teacher,
            record.schedule,
            record.start,
            record.hold_position,
        )
        assert published(*names) == cell.reference
        assert curriculum_of(record) == cell.curriculum


def test_an_asterisk_is_another_start_or_a_policy_that_was_not_cloned() -> None:
    def settings(name: str) -> tuple[str | None, bool]:
        config = CELLS[f"ppo_{name}"].config((1,))
        config.check()
        return config.preset.start, config.hold_position

    assert settings("self-paced_proportion") == ("target", True)
    assert settings("self-paced_proportion_starred") == ("initial", True)
    assert (
        CELLS["ppo_self-paced_proportion_starred"].config((1,)).teacher.schedule.offset
        == 0
    )
    assert settings("goal-gan") == ("target", True)
    assert settings("goal-gan_starred") == ("initial", True)
    assert settings("default") == (None, True)
    assert settings("default_starred") == (None, False)


def test_starred_and_plain_cells_have_folders_of_their_own(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    plain, starred = CELLS["ppo_default"], CELLS["ppo_default_starred"]
    make_cell(starred, [20.0])
    assert [block.state for block in blocks_of(plain, tmp_path, 1)] == ["to be trained"]
    assert [block.state for block in blocks_of(starred, tmp_path, 1)] == ["finished"]
    (tmp_path / starred.name).rename(tmp_path / plain.name)
    with pytest.raises(ValueError, match=r"other settings \(hold_position\)"):
        blocks_of(plain, tmp_path, 1)


def test_the_point_mass_has_no_starred_cells() -> None:
    assert [
        cell.name
        for cell in (*table_1.CELLS, *table_2.CELLS)
        if cell.curriculum.starred
    ] == []


@pytest.mark.slow
def test_the_table_has_returns_catches_and_iterations_beside_print(
    make_cell: MakeCell,
    runs_of: Callable[..., Runs],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figure_ball_catching, "LAST", 2)
    cells = [
        CELLS[f"ppo_{name}"] for name in (*SELF_PACED[:2], "default", "default_starred")
    ]
    make_cell(cells[0], [50.0, 52.0, 54.0], success_rates=[0.8, 0.9, 0.7])
    make_cell(cells[1], [50.0, 50.0, 20.0])  # mean 40, so the threshold is 32
    make_cell(cells[2], [22.0, 22.5])
    make_cell(cells[3], [23.0, 23.5])
    text = figure_ball_catching.report(runs_of(*cells), tmp_path)
    table = tables(text)
    assert [len(rows) for rows in table.values()] == [9, 9, 9]
    p = welch_against_paper([50.0, 52.0, 54.0], 53.9, 0.4)
    crossings = [
        500 * 32 / final for final in (50.0, 52.0, 54.0)
    ]  # the returns rise linearly
    p_crossing = welch_against_paper(crossings, 285.0, 19.0)
    assert table["PPO"]["SPDL (ζ)"] == [
        "3",
        "**52.0 ± 0.9**",
        f"53.9 ± 0.4 (p {p:.3f})",
        "39.0 ± 0.7",  # at iterations 250 and 500, and the returns rise linearly
        "80.0 ± 4.7",
        "32.0",
        "308 ± 6",
        f"285 ± 19 (p {p_crossing:.3f})",
        "500 ± 0",
    ]
    assert table["PPO"]["SPDL (V_LB)"][5:7] == ["32.0", "380 ± 49 (1 never)"]
    assert table["PPO"]["SPDL* (ζ)"] == [
        "…",
        "…",
        "49.3 ± 1.4",
        "…",
        "…",
        "…",
        "…",
        "224 ± 7",
        "…",
    ]
    assert table["PPO"]["ALP-GMM"] == ["…", "…", "46.5 ± 0.7", "…", "…", "", "", "", ""]
    assert table["PPO"]["Default"][:2] == ["2", "22.2 ± 0.2"]
    assert table["PPO"]["Default*"][2].startswith("23.0 ± 0.7 (p ")
    assert table["SAC"]["ALP-GMM"] == ["…", "…", "–", "…", "…", "", "", "", ""]
    assert table["TRPO"]["SPDL* (V_LB)"] == [
        "…",
        "…",
        "46.0 ± 1.5",
        "…",
        "…",
        "…",
        "…",
        "285 ± 20",
        "…",
    ]
    assert (tmp_path / "figure-ball-catching.md").read_text() == text


@pytest.mark.slow
def test_the_two_thresholds_belong_to_the_pairs_of_the_same_start(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    cells = [CELLS[f"trpo_{name}"] for name in SELF_PACED]
    for cell, final in zip(cells, (40.0, 50.0, 30.0, 20.0), strict=True):
        make_cell(cell, [final, final])
    rows = tables(figure_ball_catching.report(runs_of(*cells), tmp_path))["TRPO"]
    assert [row[5] for label, row in rows.items() if label.startswith("SPDL")] == [
        "32.0",
        "32.0",
        "16.0",
        "16.0",
    ]
    assert [row[6] for label, row in rows.items() if label.startswith("SPDL")] == [
        "400 ± 0",
        "320 ± 0",
        "267 ± 0",
        "400 ± 0",
    ]


@pytest.mark.slow
def test_records_say_what_an_asterisk_changed(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    cells = [
        CELLS[f"ppo_{name}"] for name in (*SELF_PACED, "default", "default_starred")
    ]
    for cell in cells:
        make_cell(cell, [30.0, 31.0])
    figure_ball_catching.report(runs_of(*cells), tmp_path)
    records = read_records(tmp_path / "figure-ball-catching.json")
    returns = [entry for entry in records if entry["metric"] == "discounted_return"]
    initial = {"start": "initial"}
    assert [entry["settings"] for entry in returns] == [
        {},
        {},
        initial,
        initial,
        {},
        {"hold_position": False},
    ]
    crossings = [entry for entry in records if entry["metric"] == table_2.CROSSING]
    assert [(entry["settings"], entry["paper_mean"]) for entry in crossings] == [
        ({}, 285.0),
        ({}, 234.0),
        (initial, 224.0),
        (initial, 212.0),
    ]
    assert {entry["experiment"] for entry in records} == {"figure-ball-catching"}


@pytest.mark.slow
def test_pictures_are_drawn_of_what_there_is(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    default, spdl = CELLS["trpo_default"], CELLS["ppo_self-paced_proportion"]
    make_cell(default, [20.0, 21.0])
    assert pictures(
        figure_ball_catching.report(runs_of(default), tmp_path), tmp_path
    ) == ["catch_rates", "rewards"]
    make_cell(spdl, [50.0, 51.0])
    text = figure_ball_catching.report(runs_of(default, spdl), tmp_path)
    assert pictures(text, tmp_path) == [
        "catch_rates",
        "rewards",
        "distances",
        "contexts",
    ]
    assert "![Where PPO with SPDL (ζ) is thrown balls at" in text


def pictures(text: str, results: Path) -> list[str]:
    """Returns the names of the pictures of a report, all of which are PNGs."""
    paths = [
        results / line.rpartition("(")[2].rstrip(")")
        for line in text.splitlines()
        if line.startswith("![")
    ]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
    return [path.stem for path in paths]


def test_nothing_is_written_before_something_is_finished(tmp_path: Path) -> None:
    assert figure_ball_catching.report({}, tmp_path) == "nothing is finished yet"
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_knows_the_task() -> None:
    options = parser().parse_args(
        ["figure-ball-catching", "--envs", "ball-catching", "--agents", "sac"]
    )
    assert (options.names, options.envs, options.agents) == (
        ["figure-ball-catching"],
        ["ball-catching"],
        ["sac"],
    )


def test_folder_names_end_in_the_star_before_a_suffix() -> None:
    curriculum = CELLS["ppo_goal-gan_starred"].curriculum
    assert (
        Cell("ball-catching", "ppo", curriculum, "printed").name
        == "ball-catching_ppo_goal-gan_starred_printed"
    )
