"""One schema for every config.json: format 2 there and back, format 1 as it was kept."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spjax import catalogue
from spjax.runs.files import write_json, write_table
from spjax.runs.folder import discard_after
from spjax.runs.read import load_run, read_record
from spjax.runs.schema import _ADDED, RunRecord
from tests.made_run import REFERENCE, Scenario, record_of

MakeRun = Callable[..., Path]
CELLS = Path(__file__).parents[2] / "benchmarks" / "results" / "cells"


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(reference=REFERENCE),
        Scenario(env="ball-catching", teacher="default", schedule=None, start=None),
        Scenario(
            swept=({"agent.max_grad_norm": 0.5}, {"agent.max_grad_norm": math.inf}),
            seeds=(3,),
        ),
        Scenario(swept=({"teacher.std_floor": (0.2, 0.1, math.inf)},)),
    ],
)
def test_a_record_is_the_same_after_a_file(scenario: Scenario) -> None:
    record = record_of(scenario)
    again = RunRecord.from_json(json.loads(json.dumps(record.to_json())))
    assert again == record
    assert again.settings["agent"]["max_grad_norm"] == math.inf


def test_a_reference_that_says_no_metric_is_of_the_discounted_return() -> None:
    record = record_of(Scenario(reference=REFERENCE))
    raw = json.loads(json.dumps(record.to_json()))
    del raw["reference"]["metric"]  # as folders have it that were written before
    assert RunRecord.from_json(raw) == record


def test_infinite_settings_are_strict_json(make_run: MakeRun) -> None:
    folder = make_run(swept=({"agent.max_grad_norm": -math.inf},))
    raw = json.loads((folder / "config.json").read_text(), parse_constant=refuse)
    assert raw["config"]["agent"] == {"agent": "ppo", "max_grad_norm": "inf"}
    assert raw["lanes"][0]["settings"] == {"agent.max_grad_norm": "-inf"}
    assert read_record(folder).lanes[0].settings == {"agent.max_grad_norm": -math.inf}


def test_format_2_spells_a_part_by_kind_name_and_settings() -> None:
    raw = record_of(Scenario(reference=REFERENCE)).to_json()
    assert raw["format_version"] == 2
    assert raw["config"]["task"] == {"task": "point-mass-3d"}
    assert raw["config"]["teacher"] == {
        "teacher": "self-paced",
        "schedule": {"schedule": "proportion", "zeta": 1.6},
    }
    assert raw["preset"] == {
        "schedule": "proportion",
        "variant": "published",
        "start": "initial",
    }
    assert raw["reference"] == {
        "final": {"mean": 8.45, "standard_error": 0.42},
        "iterations": {"mean": 165.0, "standard_error": 14.0},
        "num_iterations": 400,
        "last_evaluated": 395,
        "source": "Someone (2021)",
        "metric": "discounted_return",
    }
    alone = dataclasses.replace(record_of(Scenario()), preset=None)
    assert (alone.to_json()["preset"], alone.to_json()["reference"]) == (None, None)
    assert (alone.variant, alone.start, alone.schedule) == (None, None, "proportion")


KEPT = {
    folder.name: json.loads((folder / "config.json").read_text())
    for folder in sorted(CELLS.iterdir())
}


@pytest.mark.parametrize("cell", KEPT)
def test_every_kept_cell_has_a_curve_of_each_seed(cell: str) -> None:
    run = load_run(CELLS / cell)
    assert run.config.format_version == KEPT[cell]["format_version"]
    curves = run.evaluation_curves("discounted_return", run.groups()[0])
    assert len(curves.values) == len(KEPT[cell]["lanes"])


@pytest.mark.parametrize(
    "cell", [name for name, raw in KEPT.items() if raw["format_version"] == 1]
)
def test_kept_cells_of_format_1_are_read(cell: str) -> None:
    raw = KEPT[cell]
    run = load_run(CELLS / cell)
    record = run.config
    for name in (
        "agent",
        "teacher",
        "schedule",
        "variant",
        "start",
        "hold_position",
        "num_iterations",
        "commit",
    ):
        assert getattr(record, name) == raw[name], name
    assert (record.task, list(record.seeds)) == (raw["env"], raw["seeds"])
    assert list(record.target.mean) == raw["target"]["mean"]
    assert record.settings["task"] == raw["settings"]["env"]
    assert record.settings["agent"].keys() == raw["settings"]["agent"].keys()
    assert record.reference is None


def of_format_1(
    agent: str, teacher: str, schedule: str | None, over: dict, /, **settings: dict
) -> RunRecord:
    """Returns what is read of a file of format 1."""
    raw = json.loads(
        (CELLS / "ball-catching_ppo_self-paced_proportion" / "config.json").read_text()
    )
    swept = (
        [{name: values[index] for name, values in over.items()} for index in range(2)]
        if over
        else [{}]
    )
    return RunRecord.from_json(
        raw
        | {"agent": agent, "teacher": teacher, "schedule": schedule, "over": over}
        | {"settings": {"env": {}, "agent": {}, "teacher": {}} | settings}
        | {"lanes": [{"seed": 1, "settings": lane} for lane in swept]}
    )


@pytest.mark.parametrize(
    ("agent", "teacher", "today"),
    [
        ("sprl", "self-paced", ("sprl", "self-paced-joint")),
        ("creps", "default", ("c-reps", "default")),
        ("creps", "goal-gan", ("c-reps", "goal-gan-episodic")),
        ("creps", "sagg-riac", ("c-reps", "sagg-riac")),
        ("cma-es", "default", ("cma-es", "target-mean")),
        ("ppo", "self-paced-gaussian", ("ppo", "spgl")),
        ("ppo", "default", ("ppo", "default")),
        ("sac", "goal-gan", ("sac", "goal-gan")),
    ],
)
def test_parts_of_format_1_have_the_names_of_today(
    agent: str, teacher: str, today: tuple[str, str]
) -> None:
    record = of_format_1(agent, teacher, None, {})
    assert (record.agent, record.teacher) == today
    assert today[0] in catalogue.names("agent")
    assert today[1] in catalogue.names("teacher")


def test_settings_of_format_1_are_parts_inside_parts() -> None:
    old = {
        "warmup": 5,
        "offset": 20,
        "kl_proportion": 1.6,
        "max_alpha": 1e5,
        "performance_bound": 3.5,
    }
    moments = {
        "initial_mean": (0.5, 1.0),
        "initial_std": (2.0, 3.0),
        "target_mean": None,
        "target_std": None,
    }
    record = of_format_1(
        "ppo",
        "self-paced",
        "proportion",
        {},
        teacher={**old, **moments, "schedule": "proportion"},
    )
    # alpha was 0 in the first K_alpha - 1 updates
    assert record.settings["teacher"] == {
        "schedule": {
            "schedule": "proportion",
            "zeta": 1.6,
            "offset": 19,
            "max_alpha": 1e5,
        },
        "warmup": 5,
        "initial": {"distribution": "gaussian", "mean": (0.5, 1.0), "std": (2.0, 3.0)},
    }
    bound = of_format_1("ppo", "self-paced", "bound", {}, teacher=old)
    assert bound.settings["teacher"] == {
        "schedule": {"schedule": "bound", "performance_bound": 3.5},
        "warmup": 5,
    }
    spgl = of_format_1(
        "ppo", "self-paced-gaussian", None, {}, teacher={"performance_bound": 3.5}
    )
    assert spgl.settings["teacher"] == {"performance_bound": 3.5}
    assert (
        of_format_1(
            "ppo", "self-paced", "proportion", {}, teacher={"offset": 0}
        ).schedule
        == "proportion"
    )


def test_the_rule_of_alpha_was_a_setting_of_sprl_and_is_one_of_its_teacher() -> None:
    record = of_format_1(
        "sprl",
        "self-paced",
        None,
        {},
        agent={"max_kl": 0.4, "offset": 140, "kl_proportion": 0.02},
    )
    assert record.settings["agent"] == {"max_kl": 0.4}
    # alpha was 0 in the first K_alpha + 1 iterations
    assert record.settings["teacher"] == {
        "schedule": {"schedule": "proportion", "offset": 141, "zeta": 0.02}
    }
    assert record.schedule == "proportion"


def test_swept_settings_of_format_1_have_the_names_of_today() -> None:
    old = {
        "teacher.kl_proportion": (0.4, 0.8),
        "teacher.offset": (0, 5),
        "env.force_gain": (1.0, 2.0),
    }
    record = of_format_1("ppo", "self-paced", "proportion", old)
    today = {
        "teacher.schedule.zeta": 0.8,
        "teacher.schedule.offset": 4,
        "task.force_gain": 2.0,
    }
    assert record.over == {
        "teacher.schedule.zeta": (0.4, 0.8),
        "teacher.schedule.offset": (0, 4),
    } | {"task.force_gain": (1.0, 2.0)}
    assert record.lanes[1].settings == today
    sprl = of_format_1(
        "sprl", "self-paced", None, {"agent.offset": (1, 2), "agent.max_kl": (0.1, 0.2)}
    )
    assert sprl.lanes[1].settings == {"teacher.schedule.offset": 3, "agent.max_kl": 0.2}


def test_a_kept_run_of_infinite_settings_has_them_again() -> None:
    settings = read_record(CELLS / "ball-catching_ppo_default").settings["agent"]
    assert settings["max_grad_norm"] == math.inf
    assert settings["hidden"] == (64, 64, 64)


def test_what_older_folders_lack_is_compared_at_its_default() -> None:
    for (kind, name), settings in _ADDED.items():
        declared = catalogue.find(kind, name).cls.declared()
        assert settings == {added: declared[added].default for added in settings}

    record = record_of(Scenario())
    before, after = record.settings["agent"], record.completed.settings["agent"]
    assert after == {**_ADDED["agent", "ppo"], **before}
    changed = {**record.settings, "agent": {**before, "normalize_rewards": True}}
    other = dataclasses.replace(record, settings=changed)
    assert other.completed.settings["agent"]["normalize_rewards"] is True
    assert other.completed.settings["task"] == record.settings["task"]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_file_of_no_json_is_refused_and_leaves_the_old_one(
    tmp_path: Path, value: float
) -> None:
    file = tmp_path / "new" / "summary.json"
    write_json(file, {"seconds": 1.0})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(file, {"seconds": value})
    assert json.loads(file.read_text()) == {"seconds": 1.0}
    assert [path.name for path in file.parent.iterdir()] == ["summary.json"]


def test_a_write_that_fails_leaves_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half_written(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", half_written)
    with pytest.raises(OSError, match="No space left"):
        write_table(tmp_path / "000005.parquet", pa.table({"seed": np.arange(3)}))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_discarded(tmp_path: Path) -> None:
    kept, newer = (
        tmp_path / "metrics" / "000005.parquet",
        tmp_path / "metrics" / "000010.parquet",
    )
    half = tmp_path / "evaluation" / ".000010.parquet.77.tmp"
    for file in (kept, newer, half):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"")
    discard_after(tmp_path, 5)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [kept]
