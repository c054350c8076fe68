from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper import figure_point_mass, figure_trade_off, table_1, table_2
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.cells import AGENTS, ENVS, PRINTED, Cell, cells_of
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.records import Runs, better, finished_runs, records_of
from spjax.analysis.records import record
from spjax.analysis.statistics import welch_against_paper
from spjax.runs.results import Record, read_records

MakeCell = Callable[..., Path]
SPDL, BOUND, ALP_GMM, GOAL_GAN, RANDOM, DEFAULT, SPGL = CURRICULA


def cell(row: Any, env: str = "point-mass-3d", agent: str = "ppo") -> Cell:
    return Cell(env, agent, row)


@pytest.fixture
def runs_of(tmp_path: Path) -> Callable[..., Runs]:
    """Returns a function that reads the finished run folders of cells below tmp_path."""
    return lambda *cells: finished_runs(
        block for cell in cells for block in blocks_of(cell, tmp_path, 1)
    )


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> tuple[Cell, Cell]:
    """The released and the printed cell of a curriculum for which the paper is made to print another zeta."""
    monkeypatch.setitem(
        PRINTED, ("point-mass-3d", "ppo", "self-paced"), {"teacher.schedule.zeta": 0.8}
    )
    released, other = cells_of("point-mass-3d", "ppo", SPDL)
    monkeypatch.setattr(table_1, "CELLS", [released, other])
    return released, other


def final(values: list[float], **changes: Any) -> Record:
    method = {
        "experiment": "table-1",
        "env": "point-mass-3d",
        "agent": "ppo",
        "teacher": "any",
    }
    content = {
        "metric": "discounted_return",
        "seeds": list(range(len(values))),
        "values": values,
    }
    return record(**(method | content | changes))


def rows(text: str) -> dict[str, list[str]]:
    """Returns the cells of the first Markdown table of a text by the cells of its first column."""
    table = text[text.index("| --- ") :].split("\n\n")[0].splitlines()[1:]
    return {
        line.split(" | ")[0].strip("| "): [
            cell.strip("| ") for cell in line.split(" | ")[1:]
        ]
        for line in table
    }


def test_names_say_task_learner_and_curriculum() -> None:
    assert cell(BOUND).name == "point-mass-3d_ppo_self-paced_bound"
    assert [c.name for c in cells_of("point-mass-2d", "trpo", ALP_GMM)] == [
        "point-mass-2d_trpo_alp-gmm",
        "point-mass-2d_trpo_alp-gmm_printed",
    ]
    assert [c.printed for c in cells_of("point-mass-2d", "trpo", ALP_GMM)] == [
        False,
        True,
    ]


def test_table_1_has_every_curriculum_and_printed_hyperparameters_where_they_differ() -> (
    None
):
    names = [c.name for c in table_1.CELLS]
    assert len(set(names)) == len(names) == 2 * 3 * 7 + 11
    assert "point-mass-2d_sac_alp-gmm_printed" not in names
    others = [c.name for c in table_2.CELLS if c.name not in names]
    assert others == ["ant_ppo_self-paced_proportion", "ant_ppo_self-paced_bound"]
    assert [c.name for c in figure_point_mass.CELLS if c.name not in names] == []


def test_printed_hyperparameters_are_those_of_the_appendix() -> None:
    rows = [
        list(PRINTED["point-mass-3d", "trpo", teacher].values())
        for teacher in ("alp-gmm", "goal-gan")
    ]
    assert rows == [[0.1, 100, 1000], [0.05, 200, 0.2]]
    assert PRINTED["point-mass-2d", "ppo", "goal-gan"] == {
        "teacher.noise": 0.1,
        "teacher.num_rollouts": 200,
        "teacher.success_fraction": 0.3,
    }


def test_all_finished_seeds_of_a_cell_are_pooled(
    make_cell: MakeCell, runs_of: Callable[..., Runs]
) -> None:
    make_cell(cell(RANDOM), [1.0, 2.0])
    make_cell(cell(RANDOM), [6.0, 7.0], first_seed=3, suffix="_seeds-3-4")
    make_cell(cell(RANDOM), [9.0], first_seed=5, suffix="_seeds-5-5", iteration=200)
    entry = records_of("table-1", [cell(RANDOM)], runs_of(cell(RANDOM)))[0]
    assert (entry["seeds"], entry["values"], entry["mean"]) == (
        [1, 2, 3, 4],
        [1.0, 2.0, 6.0, 7.0],
        4.0,
    )
    assert (entry["paper_mean"], entry["wall_seconds"]) == (0.67, 160.0)


def test_an_unfinished_cell_gives_no_record(
    make_cell: MakeCell, runs_of: Callable[..., Runs]
) -> None:
    make_cell(cell(RANDOM), [1.0], iteration=200)
    assert records_of("table-1", [cell(RANDOM)], runs_of(cell(RANDOM))) == []


def test_the_better_hyperparameters_stand_in_the_table_and_both_in_the_records(
    make_cell: MakeCell,
    runs_of: Callable[..., Runs],
    printed: tuple[Cell, Cell],
    tmp_path: Path,
) -> None:
    make_cell(printed[0], [5.0, 6.0])
    assert better(printed, runs_of(*printed)) == printed[0]
    make_cell(printed[1], [7.0, 8.0])
    runs = runs_of(*printed)
    assert better(printed, runs) == printed[1]
    assert better(printed, {}) is None
    records = records_of("table-1", printed, runs)
    assert [
        (entry["settings"], entry["mean"])
        for entry in records
        if entry["metric"] == "discounted_return"
    ] == [
        ({}, 5.5),
        ({"teacher.schedule.zeta": 0.8}, 7.5),
    ]
    assert rows(table_1.report(runs, tmp_path))["SPDL (ζ)"][2] == "**7.50 ± 0.35**†"


def test_table_1_puts_ours_beside_print_and_leaves_open_what_is_not_trained(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    cells = [cell(SPDL), cell(RANDOM), cell(BOUND, agent="trpo")]
    make_cell(cells[0], [8.0, 9.0, 8.5])
    make_cell(cells[1], [0.5, 0.6])
    make_cell(cells[2], [7.0, 7.5, 7.7])
    text = table_1.report(runs_of(*cells), tmp_path)
    table = rows(text)
    assert list(table) == [
        *(c.label for c in CURRICULA[:-1]),
        "SPGL (not in the paper)",
    ]
    p = welch_against_paper([8.0, 9.0, 8.5], 8.45, 0.42)
    assert table["SPDL (ζ)"][:4] == [
        "…",
        "8.04 ± 0.25",
        "**8.50 ± 0.24**",
        f"8.45 ± 0.42 (p {p:.3f})",
    ]
    assert table["SPDL (V_LB)"][0] == "**7.40 ± 0.17**"
    assert table["Random"][2] == "0.55 ± 0.04 (2 seeds)"
    assert table["ALP-GMM"] == ["…", "–", "…", "2.43 ± 0.30", "…", "4.68 ± 0.80"]
    assert "3 seeds unless a cell says otherwise" in text
    assert (tmp_path / "table-1.md").read_text() == text
    assert len(read_records(tmp_path / "table-1.json")) == 2 * len(cells)


def test_bold_is_the_best_in_print_and_what_does_not_differ_from_it() -> None:
    best, close, far = [8.0, 8.2, 8.4], [7.9, 8.1, 8.3], [2.0, 2.1, 2.2]
    records = [
        final(best),
        final(close),
        final(far),
        None,
        None,
        None,
        final([9.9, 10.0, 10.1]),
    ]
    assert table_1.best_in_print(records, CURRICULA) == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


def test_the_threshold_is_80_percent_of_the_lower_final_return_of_our_own_runs(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    cells = [cell(SPDL), cell(BOUND)]
    make_cell(cells[0], [8.0, 12.0, 4.0, 4.0])  # mean 7
    make_cell(cells[1], [8.0, 8.0, 8.0, 8.0])
    runs = runs_of(*cells)
    pair = table_2.pair_of(cells, runs)
    assert {entry["metric"] for entry in pair.crossings} == {
        "iterations_to_80_percent_of_the_lower_final_return"
    }
    assert [entry["threshold"] for entry in pair.crossings] == pytest.approx(
        [5.6, 5.6], rel=1e-12
    )
    # the returns rise linearly to their final value in 400 iterations
    assert pair.crossings[0]["values"] == pytest.approx(
        [400 * 5.6 / 8, 400 * 5.6 / 12, 400, 400], rel=1e-12
    )
    assert [entry["never_reached"] for entry in pair.crossings] == [2, 0]
    text = table_2.report(runs, tmp_path)
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()[2:4]]
    assert lines[0][:6] == [
        "point-mass-3d",
        "PPO",
        "SPDL (ζ)",
        "4",
        "7.00 ± 1.66",
        "8.45 ± 0.42",
    ]
    assert (
        lines[0][6] == f"{welch_against_paper([8.0, 12.0, 4.0, 4.0], 8.45, 0.42):.3f}"
    )
    assert lines[0][7:10] == ["5.60", "317 ± 45", "2"]
    assert lines[1][4:10] == [
        "8.00 ± 0.00",
        "8.66 ± 0.07",
        "< 0.001",
        "5.60",
        "280 ± 0",
        "0",
    ]
    # 80 % of 8.45, the lower of the printed returns
    at_print = [400 * 6.76 / 8, 400 * 6.76 / 12, 400, 400]
    assert pair.published[0]["values"] == pytest.approx(at_print, rel=1e-12)
    p = welch_against_paper(at_print, 165, 14)
    assert lines[0][10:] == ["6.76", "341 ± 36", "2", "165 ± 14", f"{p:.3f}"]
    assert len(read_records(tmp_path / "table-2.json")) == 6


def test_a_pair_of_which_one_is_missing_is_left_out(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    make_cell(cell(SPDL), [8.0, 9.0])
    assert (
        table_2.report(runs_of(cell(SPDL), cell(BOUND)), tmp_path)
        == "nothing is finished yet"
    )
    assert not (tmp_path / "table-2.json").exists()


@pytest.mark.parametrize(
    ("other", "higher", "expected"),
    [
        ([5.0, 5.1, 4.9], True, ["**", ""]),
        ([5.0, 5.1, 4.9], False, ["", "**"]),
        (
            [7.9, 7.8, 7.7],
            True,
            ["*", ""],
        ),  # t = 3.67 at 4 degrees of freedom, p = 0.021
        ([8.0, 8.3, 7.9], True, ["", ""]),
    ],
)
def test_a_schedule_is_marked_where_it_is_significantly_better(
    other: list[float], higher: bool, expected: list[str]
) -> None:
    assert table_2.marks([final([8.0, 8.1, 8.2]), final(other)], higher) == expected


def test_the_figure_draws_the_curves_the_curriculum_and_the_rollouts(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    cells = [cell(SPDL, env, "trpo") for env in ENVS] + [cell(DEFAULT)]
    for made in cells:
        make_cell(made, [8.0, 9.0])
    text = figure_point_mass.report(runs_of(*cells), tmp_path)
    pictures = [
        line.rpartition("(")[2].rstrip(")") for line in text.split("\n\n") if line
    ]
    assert pictures == [
        f"pictures/figure-point-mass/{name}.png"
        for name in ("rewards", "contexts", "rollouts")
    ]
    for picture in pictures:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert len(read_records(tmp_path / "figure-point-mass.json")) == 2 * 3


def test_the_figure_draws_what_there_is(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    make_cell(cell(DEFAULT), [2.0, 2.1])
    figure_point_mass.report(runs_of(cell(DEFAULT)), tmp_path)
    assert [
        file.name for file in (tmp_path / "pictures" / "figure-point-mass").iterdir()
    ] == ["rollouts.png"]


@pytest.mark.slow
def test_each_panel_of_the_trade_off_is_one_sweep_around_the_published_setting() -> (
    None
):
    zeta, offset = (c.config(range(1, 21)) for c in figure_trade_off.CELLS)
    assert (len(zeta.lanes()), len(offset.lanes())) == (8 * 20, 8 * 20)
    assert (zeta.teacher.schedule.offset, offset.teacher.schedule.zeta) == (
        19,
        1.6,
    )  # K_alpha = 20 as published
    assert 1.6 in zeta.over["teacher.schedule.zeta"]
    assert 19 in offset.over["teacher.schedule.offset"]
    for config in (zeta, offset):
        config.check()


def test_the_trade_off_records_returns_crossings_and_wall_time(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    sweep = figure_trade_off.CELLS[0]
    make_cell(sweep, [10.0, 4.0])
    text = figure_trade_off.report(runs_of(sweep), tmp_path)
    assert "teacher.schedule.zeta: 16 runs in one program, 80 s on " in text
    records = read_records(tmp_path / "figure-trade-off.json")
    crossings = [
        entry for entry in records if entry["metric"] == "iterations_to_threshold"
    ]
    assert [entry["settings"] for entry in crossings] == [
        {"teacher.schedule.offset": 19, "teacher.schedule.zeta": value}
        for value in figure_trade_off.ZETA
    ]
    assert [(entry["values"], entry["never_reached"]) for entry in crossings] == [
        ([200.0, 400.0], 1)
    ] * 8
    assert {entry["wall_seconds"] for entry in records} == {80.0}
    assert (tmp_path / "pictures" / "figure-trade-off" / "trade_off.png").is_file()


def test_every_learner_of_the_tables_has_its_self_paced_presets() -> None:
    for env in ENVS:
        for agent in AGENTS:
            for row in (SPDL, BOUND, RANDOM, DEFAULT):
                cell(row, env, agent).config((1,)).check()


def test_printed_hyperparameters_are_settings_of_their_teachers_and_differ_from_the_presets() -> (
    None
):
    for made in (c for c in table_1.CELLS if c.printed):
        config = made.config((1,))
        config.check()
        assert (
            config.teacher
            != cell(made.curriculum, made.env, made.agent).config((1,)).teacher
        )


def test_cells_that_are_not_finished_here_keep_what_is_recorded_of_them(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    old = [cell(SPDL, agent="sac"), cell(BOUND, agent="sac"), cell(RANDOM)]
    for one in (cell(SPDL), cell(BOUND), *old):
        make_cell(one, [5.0, 6.0])
    before = runs_of(cell(SPDL), cell(BOUND), *old)
    for table in (table_1, table_2):
        table.report(before, tmp_path / "before")

    # SPDL is trained anew, to the end with one schedule
    new = tmp_path / "new"
    for block in blocks_of(make := cell(SPDL), tmp_path, 1):
        block.folder.rename(tmp_path / f"old-{make.name}")
    make_cell(make, [8.0, 9.0])
    here = runs_of(make)
    recorded = read_records(tmp_path / "before" / "table-1.json")
    table = rows(table_1.report(here, new, recorded))
    assert table["SPDL (ζ)"][2].startswith("**8.50")
    assert table["SPDL (ζ)"][4].startswith("**5.50")
    assert table["SPDL (V_LB)"][2].strip("*") == "5.50 ± 0.35"
    assert table["Random"][2].strip("*") == "5.50 ± 0.35"
    assert len(read_records(new / "table-1.json")) == 2 * 5

    # a pair of which one is new stays as recorded: the other's curves, and so its crossing, are not here
    recorded = read_records(tmp_path / "before" / "table-2.json")
    table_2.report(here, new, recorded)
    assert read_records(new / "table-2.json") == recorded
