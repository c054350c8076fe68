import json
from pathlib import Path
from typing import Any

import pytest

from spjax.runs import results
from tests.analysis.test_records import a_record


def test_written_records_are_read_back_equal_with_sorted_keys(tmp_path: Path) -> None:
    file = tmp_path / "new" / "table.json"
    records = [
        a_record(settings={"teacher.schedule.zeta": 0.8}),
        a_record(values=[1.0, float("inf")]),
    ]
    results.write_records(file, records)
    assert results.read_records(file) == records
    assert [path.name for path in file.parent.iterdir()] == ["table.json"]
    keys = list(json.loads(file.read_text())[0])
    assert keys == sorted(keys)


def test_a_record_that_is_no_json_leaves_the_old_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    results.write_records(file, [a_record()])
    with pytest.raises(ValueError, match="not JSON compliant"):
        results.write_records(file, [a_record(wall_seconds=float("nan"))])
    assert results.read_records(file) == [a_record()]


def test_records_of_other_methods_metrics_or_settings_stay_beside_new_ones(
    tmp_path: Path,
) -> None:
    file = tmp_path / "table.json"
    others = (
        {"env": "ant"},
        {"agent": "trpo"},
        {"schedule": "proportion"},
        {"metric": "kl"},
    )
    old = [
        a_record(),
        *(a_record(**one) for one in others),
        a_record(settings={"a": 1}),
    ]
    results.write_records_beside(file, old)
    again = a_record(values=[1.0, 2.0])
    results.write_records_beside(file, [again])
    assert results.read_records(file) == [*old[1:], again]


def test_a_file_with_other_keys_names_them(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    record: dict[str, Any] = dict(a_record())
    del record["seeds"]
    file.write_text(json.dumps([record | {"score": 1}]))
    with pytest.raises(ValueError, match=r"record 0 of .*: score, seeds"):
        results.read_records(file)
