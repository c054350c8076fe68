import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import spjax
from benchmarks.paper import __main__ as paper
from benchmarks.paper import kept as kept_module
from benchmarks.paper.cells import Cell
from benchmarks.paper.kept import keep
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.records import SELECTION, runs_in, settings_of
from benchmarks.paper.runner import Plan, status_lines, train
from spjax import catalogue
from spjax.runs.read import load_run, read_record
from spjax.runs.results import read_records
from spjax.training.config import RunConfig
from spjax.training.run_folder import record_of

MakeCell = Callable[..., Path]
CELLS = Path(__file__).parents[2] / "benchmarks" / "results" / "cells"
SPDL, BOUND, DEFAULT, RANDOM = (
    Cell("point-mass-2d", "ppo", CURRICULA[row]) for row in (0, 1, 5, 4)
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, make_cell: MakeCell) -> list[str]:
    """What would have been trained; the default curriculum is in another process's hands, the others end at once."""
    made: list[str] = []

    def fake_train(config: RunConfig, folder: Path, command: str) -> None:
        made.append(f"train {folder.name} {list(config.seeds)} {command}")
        if catalogue.name_of(config.teacher) == "default":
            raise ValueError(f"another process is training in {folder}")
        cell = next(
            cell for cell in (SPDL, RANDOM) if folder.name.startswith(cell.name)
        )
        make_cell(
            cell,
            [1.0] * len(config.seeds),
            first_seed=config.seeds[0],
            suffix=folder.name.removeprefix(cell.name),
        )

    monkeypatch.setattr(spjax, "train", fake_train)
    monkeypatch.setattr(
        spjax, "resume", lambda folder: made.append(f"resume {folder.name}")
    )
    return made


def test_cells_are_resumed_trained_and_completed_in_order(
    make_cell: MakeCell, tmp_path: Path, calls: list[str]
) -> None:
    make_cell(SPDL, [1.0])
    make_cell(BOUND, [1.0, 2.0], iteration=200)
    said: list[str] = []
    plan = Plan([SPDL, BOUND, DEFAULT, RANDOM], tmp_path, 2)
    failures = train(plan, lambda cell: True, "command", said.append)
    assert calls == [
        "train point-mass-2d_ppo_self-paced_proportion_seeds-2-2 [2] command",
        "resume point-mass-2d_ppo_self-paced_bound",
        "train point-mass-2d_ppo_default [1, 2] command",
        "train point-mass-2d_ppo_random [1, 2] command",
    ]
    assert failures == [
        f"point-mass-2d_ppo_default: another process is training in {tmp_path / DEFAULT.name}"
    ]
    # 80 s for one seed and then for each of two: 80 + 2 * 80 / 2 + 4 * 80, before anything is trained
    assert (
        said[0]
        == "1 of 4: point-mass-2d_ppo_self-paced_proportion_seeds-2-2, to be trained; about 8 min left"
    )
    assert said[1].startswith(
        "2 of 4: point-mass-2d_ppo_self-paced_bound, to be resumed; about "
    )


def test_what_another_process_finished_meanwhile_is_left_out(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []

    def fake_train(config: RunConfig, folder: Path, command: str) -> None:
        trained.append(folder.name)
        make_cell(SPDL, [1.0])
        make_cell(RANDOM, [1.0])  # by another process

    monkeypatch.setattr(spjax, "train", fake_train)
    assert (
        train(
            Plan([SPDL, RANDOM], tmp_path, 1),
            lambda cell: True,
            "command",
            lambda line: None,
        )
        == []
    )
    assert trained == [SPDL.name]


def test_only_what_is_wanted_is_trained(tmp_path: Path, calls: list[str]) -> None:
    train(
        Plan([SPDL, RANDOM], tmp_path, 1),
        lambda cell: cell == RANDOM,
        "command",
        lambda line: None,
    )
    assert calls == ["train point-mass-2d_ppo_random [1] command"]


def test_the_status_says_how_far_each_folder_is(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    make_cell(SPDL, [1.0, 2.0])
    make_cell(BOUND, [1.0, 2.0], iteration=200)
    lines = status_lines(Plan([SPDL, BOUND, RANDOM], tmp_path, 2).blocks())
    assert [line.split() for line in lines] == [
        ["run", "folder", "seeds", "state", "took"],
        ["point-mass-2d_ppo_self-paced_proportion", "1-2", "finished", "2", "min"],
        [
            "point-mass-2d_ppo_self-paced_bound",
            "1-2",
            "to",
            "be",
            "resumed",
            "(200",
            "of",
            "400)",
        ],
        ["point-mass-2d_ppo_random", "1-2", "to", "be", "trained"],
    ]


def run(tmp_path: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        paper.main(
            [
                *arguments,
                "--runs",
                str(tmp_path),
                "--results",
                str(tmp_path / "results"),
            ]
        )
    return int(end.value.code or 0)


def cells_trained(calls: Sequence[str]) -> list[str]:
    return [call.split()[1] for call in calls]


@pytest.mark.slow
def test_the_command_trains_what_its_filters_let_through(
    tmp_path: Path, calls: list[str]
) -> None:
    arguments = (
        "table-1",
        "table-2",
        "--envs",
        "point-mass-2d",
        "--agents",
        "ppo",
        "--only",
        "random",
        "--seeds",
        "2",
    )
    assert run(tmp_path, *arguments) == 0
    command = "python -m benchmarks.paper table-1 table-2 --seeds 2"
    assert calls == [f"train point-mass-2d_ppo_random [1, 2] {command}"]
    assert (tmp_path / "results" / "table-1.md").is_file()


@pytest.mark.slow
def test_a_whole_name_takes_no_cell_that_contains_it(
    tmp_path: Path, calls: list[str]
) -> None:
    starred = "ball-catching_ppo_default_starred"
    assert (
        run(
            tmp_path,
            "figure-ball-catching",
            "--only",
            "ball-catching_ppo_default",
            "--seeds",
            "1",
        )
        == 1
    )
    assert (
        run(
            tmp_path,
            "figure-ball-catching",
            "--only",
            "ppo_default_star",
            "--seeds",
            "1",
        )
        == 1
    )
    assert cells_trained(calls) == ["ball-catching_ppo_default", starred]


@pytest.mark.slow
def test_records_of_this_device_say_how_long_training_takes(
    make_cell: MakeCell,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paper, "device", lambda: "an abacus")
    monkeypatch.setattr("spjax.training.run_folder.device", lambda: "an abacus")
    folder = make_cell(SPDL, [1.0, 2.0], wall=3000.0)
    assert run(tmp_path, "table-1", "--report-only") == 0
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "results" / "cells")
    capsys.readouterr()
    arguments = (
        "table-1",
        "--envs",
        SPDL.env,
        "--agents",
        SPDL.agent,
        "--seeds",
        "1",
        "--report-only",
    )
    assert run(tmp_path, *arguments) == 0
    assert (
        "9 to train; about 3 h 45 min left" in capsys.readouterr().out
    )  # 1,500 s a seed
    monkeypatch.setattr(paper, "device", lambda: "a slide rule")
    assert run(tmp_path, *arguments) == 0
    assert "9 to train; unknown time for point-mass-2d ppo" in capsys.readouterr().out


def test_there_is_no_training_of_no_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "table-1", "--seeds", "0") == 2
    assert capsys.readouterr().err.endswith(
        "argument --seeds: must be at least 1, got 0\n"
    )


def test_a_full_disk_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake_train(config: RunConfig, folder: Path, command: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spjax, "train", fake_train)
    assert run(tmp_path, "table-1", "--only", SPDL.name, "--seeds", "1") == 1
    assert capsys.readouterr().out.endswith("the disk is full\n")


@pytest.mark.slow
def test_what_could_not_be_trained_is_an_exit_code(
    tmp_path: Path, calls: list[str]
) -> None:
    assert (
        run(tmp_path, "table-1", "--only", "point-mass-2d_ppo_default", "--seeds", "1")
        == 1
    )
    assert cells_trained(calls) == ["point-mass-2d_ppo_default"]


def test_report_only_trains_nothing_and_says_what_is_missing(
    make_cell: MakeCell,
    tmp_path: Path,
    calls: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_cell(SPDL, [1.0, 2.0])
    assert run(tmp_path, "table-2", "--report-only", "--seeds", "2") == 0
    assert calls == []
    printed = capsys.readouterr().out
    assert "13 to train; about" in printed
    assert (
        "not finished: point-mass-3d_trpo_self-paced_proportion, point-mass-3d_trpo_self-paced_bound"
        in printed
    )


def test_a_folder_of_other_settings_ends_in_one_sentence(
    make_cell: MakeCell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Cell(
        SPDL.env,
        SPDL.agent,
        SPDL.curriculum,
        over={"teacher.schedule.zeta": (0.4, 0.8)},
    )
    make_cell(sweep, [1.0])
    assert run(tmp_path, "table-2", "--report-only") == 1
    assert (
        "was trained with other settings (over); move it away"
        in capsys.readouterr().out
    )


@pytest.mark.slow
def test_what_has_finished_is_kept_and_counts_on_every_machine(
    make_cell: MakeCell, tmp_path: Path, calls: list[str]
) -> None:
    folder = make_cell(SPDL, [1.0, 2.0])
    make_cell(BOUND, [1.0, 2.0], iteration=200)
    arguments = ("table-1", "figure-point-mass", "--seeds", "2", "--only", SPDL.name)
    assert run(tmp_path, *arguments) == 0
    results = tmp_path / "results"
    assert [kept.name for kept in (results / "cells").iterdir()] == [SPDL.name]
    kept, trained = load_run(results / "cells" / SPDL.name), load_run(folder)
    assert kept.config == trained.config
    assert kept.summary == trained.summary
    assert kept.evaluation.equals(trained.evaluation)
    assert kept.metrics.equals(trained.metrics)  # made up of evaluated iterations alone
    assert kept.trajectories is not None
    assert trained.trajectories is not None
    assert kept.trajectories.equals(
        trained.trajectories
    )  # made up with one episode a lane
    (results / "table-1.md").rename(tmp_path / "before.md")
    shutil.rmtree(folder)  # another machine
    assert run(tmp_path, *arguments) == 0
    assert calls == []
    assert (results / "table-1.md").read_text() == (tmp_path / "before.md").read_text()


def test_two_processes_may_keep_the_same_cell(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cell(SPDL, [1.0])
    blocks = Plan([SPDL], tmp_path, 1).blocks()
    write = kept_module.write_table

    def write_after_another(path: Path, table: object) -> None:
        monkeypatch.undo()
        keep(blocks, tmp_path / "kept")
        write(path, table)

    monkeypatch.setattr(kept_module, "write_table", write_after_another)
    monkeypatch.setattr(kept_module.os, "getpid", lambda: -1)
    keep(blocks, tmp_path / "kept")
    assert [folder.name for folder in (tmp_path / "kept").iterdir()] == [SPDL.name]
    assert load_run(tmp_path / "kept" / SPDL.name).evaluation.num_rows == 3


def test_metrics_are_kept_of_evaluated_iterations(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    gate = next(
        cell
        for cell in paper.cells_of(["figure-gate"])
        if cell.name == "gate-precision_c-reps_default"
    )
    folder = make_cell(gate, [1.0, 2.0])
    keep(Plan([gate], tmp_path, 2).blocks(), tmp_path / "kept")
    whole, kept = (
        load_run(folder).metrics,
        load_run(tmp_path / "kept" / gate.name).metrics,
    )
    last = max(whole["iteration"].to_pylist())
    assert whole.num_rows == 2 * last
    assert sorted(kept["iteration"].to_pylist()) == [last // 2, last // 2, last, last]


@pytest.mark.slow
def test_more_seeds_go_beside_those_that_are_kept(
    make_cell: MakeCell, tmp_path: Path, calls: list[str]
) -> None:
    folder = make_cell(SPDL, [1.0, 2.0])
    keep(Plan([SPDL], tmp_path, 2).blocks(), tmp_path / "results" / "cells")
    shutil.rmtree(folder)
    assert run(tmp_path, "table-2", "--seeds", "3", "--only", SPDL.name) == 0
    assert cells_trained(calls) == [f"{SPDL.name}_seeds-3-3"]
    assert sorted(kept.name for kept in (tmp_path / "results" / "cells").iterdir()) == [
        SPDL.name,
        f"{SPDL.name}_seeds-3-3",
    ]


@pytest.mark.slow
def test_elsewhere_everything_is_trained_anew(
    make_cell: MakeCell, tmp_path: Path, calls: list[str]
) -> None:
    folder = make_cell(RANDOM, [1.0])
    keep(Plan([RANDOM], tmp_path, 1).blocks(), tmp_path / "kept")
    shutil.rmtree(folder)
    assert run(tmp_path, "table-1", "--seeds", "1", "--only", RANDOM.name) == 0
    assert cells_trained(calls) == [RANDOM.name]


@pytest.mark.slow
def test_a_record_that_has_more_than_is_finished_here_stays(
    make_cell: MakeCell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_cell(SPDL, [1.0])
    make_cell(RANDOM, [2.0, 3.0])
    assert run(tmp_path, "table-1", "--report-only") == 0
    record = tmp_path / "results" / "table-1.json"
    before = record.read_text()
    assert '"random"' in before
    shutil.rmtree(tmp_path / RANDOM.name)
    shutil.rmtree(tmp_path / "results" / "cells" / RANDOM.name)
    assert run(tmp_path, "table-1", "--report-only") == 0
    assert record.read_text() == before

    # one seed where two are recorded
    make_cell(RANDOM, [9.0])
    assert run(tmp_path, "table-1", "--report-only") == 0
    assert record.read_text() == before
    assert (
        "table-1.json records 1 runs that are neither here nor kept, so table-1 stays"
        in capsys.readouterr().out
    )


def test_a_picture_stays_whose_runs_another_record_has_more_of(
    make_cell: MakeCell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, left = (
        next(
            cell
            for cell in paper.cells_of(["figure-gate"])
            if cell.name == f"gate-precision_{name}"
        )
        for name in ("c-reps_default", "c-reps_sagg-riac")
    )
    for cell in (gone, left):
        make_cell(cell, [1.0])
    assert run(tmp_path, "figure-gate", "figure-gate-success", "--report-only") == 0
    picture = tmp_path / "results" / "pictures" / "figure-gate-success" / "success.png"
    before = picture.read_bytes()
    for place in (tmp_path, tmp_path / "results" / "cells"):
        shutil.rmtree(place / gone.name)
    assert run(tmp_path, "figure-gate-success", "--report-only") == 0
    assert picture.read_bytes() == before
    assert (
        "figure-gate.json records 1 runs that are neither here nor kept"
        in capsys.readouterr().out
    )


def test_filters_that_let_nothing_through_end_in_one_sentence(
    tmp_path: Path, calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "figure-ball-catching", "--envs", "point-mass-3d") == 1
    assert (
        capsys.readouterr().out
        == "no cell of figure-ball-catching has that task, learner and name\n"
    )
    assert calls == []


def test_cells_that_experiments_share_are_listed_once() -> None:
    names = [cell.name for cell in paper.cells_of(list(paper.EXPERIMENTS))]
    every = [cell.name for one in paper.EXPERIMENTS.values() for cell in one.CELLS]
    assert sorted(names) == sorted(set(every))
    assert len(every) > len(names)


@pytest.mark.parametrize(
    "name",
    [name for name in paper.EXPERIMENTS if (paper.RESULTS / f"{name}.json").is_file()],
)
def test_recorded_runs_go_by_the_names_of_their_cells(name: str) -> None:
    records = read_records(paper.RESULTS / f"{name}.json")
    cells = paper.cells_of([name])
    known = {
        (
            cell.env,
            cell.agent,
            cell.curriculum.teacher,
            *sorted({*settings_of(cell), *cell.over}),
        )
        for cell in cells
    }
    assert records
    for entry in records:
        assert (
            entry["env"],
            entry["agent"],
            entry["teacher"],
            *sorted({*entry["settings"]} - {SELECTION}),
        ) in known


def test_the_record_of_a_selection_of_runs_is_of_no_run_of_its_own() -> None:
    keys = {"env": "gate", "agent": "sprl", "teacher": "sprl", "schedule": None}
    every = {**keys, "settings": {}, "seeds": [1, 2]}
    half = {**keys, "settings": {SELECTION: "best half"}, "seeds": [2]}
    assert runs_in([every, half]) == runs_in([every])
    assert len(runs_in([every])) == 2


@pytest.mark.slow
def test_every_kept_cell_has_all_settings_that_its_parts_have_today():
    """What parts got since is in `spjax.runs.schema`, so that a cell still counts as trained."""
    records = [read_record(folder) for folder in CELLS.iterdir()]
    complete = [one for one in records if one.format_version > 1]
    assert complete
    for found in complete:
        names = (found.task, found.agent, found.teacher, found.schedule)
        today = record_of(spjax.preset(*names), "").completed.settings
        for part, settings in found.completed.settings.items():
            assert settings.keys() == today[part].keys(), names
