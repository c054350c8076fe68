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

from spjax.runs.files import write_json, write_table
from spjax.runs.folder import discard_after
from spjax.runs.read import load_run, read_record
from spjax.runs.schema import RunRecord
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
        Scenario(swept=({"agent.max_grad_norm": 0.5}, {"agent.max_grad_norm": math.inf}), seeds=(3,)),
        Scenario(swept=({"teacher.std_floor": (0.2, 0.1, math.inf)},)),
    ],
)
def test_a_record_is_the_same_after_a_file(scenario: Scenario) -> None:
    record = record_of(scenario)
    again = RunRecord.from_json(json.loads(json.dumps(record.to_json())))
    assert again == record
    assert again.settings["agent"]["max_grad_norm"] == math.inf


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
    assert raw["config"]["teacher"] == {"teacher": "self-paced", "schedule": {"schedule": "proportion", "zeta": 1.6}}
    assert raw["preset"] == {"schedule": "proportion", "variant": "published", "start": "initial"}
    assert raw["reference"] == {
        "final": {"mean": 8.45, "standard_error": 0.42},
        "iterations": {"mean": 165.0, "standard_error": 14.0},
        "num_iterations": 400,
        "last_evaluated": 395,
        "source": "Someone (2021)",
    }
    alone = dataclasses.replace(record_of(Scenario()), preset=None)
    assert (alone.to_json()["preset"], alone.to_json()["reference"]) == (None, None)
    assert (alone.variant, alone.start, alone.schedule) == (None, None, "proportion")


@pytest.mark.parametrize("cell", sorted(folder.name for folder in CELLS.iterdir()))
def test_kept_cells_of_format_1_are_read(cell: str) -> None:
    raw = json.loads((CELLS / cell / "config.json").read_text())
    assert raw["format_version"] == 1
    run = load_run(CELLS / cell)
    record = run.config
    for name in ("agent", "teacher", "schedule", "variant", "start", "hold_position", "num_iterations", "commit"):
        assert getattr(record, name) == raw[name], name
    assert (record.task, list(record.seeds)) == (raw["env"], raw["seeds"])
    assert list(record.target.mean) == raw["target"]["mean"]
    assert record.settings["task"] == raw["settings"]["env"]
    assert record.settings["agent"].keys() == raw["settings"]["agent"].keys()
    assert record.reference is None
    assert len(run.evaluation_curves("discounted_return", run.groups()[0]).values) == len(raw["lanes"])


def test_a_kept_run_of_infinite_settings_has_them_again() -> None:
    settings = read_record(CELLS / "ball-catching_ppo_default").settings["agent"]
    assert settings["max_grad_norm"] == math.inf
    assert settings["hidden"] == (64, 64, 64)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_file_of_no_json_is_refused_and_leaves_the_old_one(tmp_path: Path, value: float) -> None:
    file = tmp_path / "new" / "summary.json"
    write_json(file, {"seconds": 1.0})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(file, {"seconds": value})
    assert json.loads(file.read_text()) == {"seconds": 1.0}
    assert [path.name for path in file.parent.iterdir()] == ["summary.json"]


def test_a_write_that_fails_leaves_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_written(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", half_written)
    with pytest.raises(OSError, match="No space left"):
        write_table(tmp_path / "000005.parquet", pa.table({"seed": np.arange(3)}))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_discarded(tmp_path: Path) -> None:
    kept, newer = tmp_path / "metrics" / "000005.parquet", tmp_path / "metrics" / "000010.parquet"
    half = tmp_path / "evaluation" / ".000010.parquet.77.tmp"
    for file in (kept, newer, half):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"")
    discard_after(tmp_path, 5)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [kept]
