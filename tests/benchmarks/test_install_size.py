"""What an installation holds: the sums, and that every requirement of the package has its reason."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement

from benchmarks.install_size import REASONS, RESULTS, Installed, rows_of, table
from spjax.runs.results import read_records
from tests.docs.running import ROOT


def made(megabytes, *requires):
    return Installed(megabytes, tuple(map(Requirement, requires)))


FOUND = {
    "ours": made(1.0, "arrays>=2", "nets", "sweets; extra == 'more'"),
    "arrays": made(10.0),
    "nets": made(2.0, "arrays", "paths[all]", "winter; sys_platform == 'nowhere'"),
    "paths": made(0.5, "files; extra == 'all'", "tests; extra == 'dev'"),
    "files": made(0.25),
    "tests": made(100.0),
    "winter": made(100.0),
    "sweets": made(100.0),
}
WHY = {("arrays",): "numbers", ("nets",): "learning", ("ours",): "itself"}


def test_a_row_is_what_comes_on_top_with_the_extras_that_are_asked_for_and_no_others():
    rows = rows_of(FOUND, WHY, "ours")
    assert [row.megabytes for row in rows] == [10.0, 2.75, 1.0]
    assert rows[1].brought == {"nets": 2.0, "paths": 0.5, "files": 0.25}
    assert table(rows).splitlines()[-1] == "| together | 14 | 5 | | |"


def test_a_requirement_without_a_reason_is_named():
    with pytest.raises(SystemExit, match="why this stays: nets"):
        rows_of(FOUND, {("arrays",): "numbers", ("ours",): "itself"}, "ours")


def test_every_requirement_of_the_package_has_a_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {Requirement(text).name for text in project["dependencies"]}
    assert required | {"spjax"} == {name for names in REASONS for name in names}


def test_the_table_beside_the_record_has_its_sum():
    values = {one["metric"]: one["mean"] for one in read_records(RESULTS)}
    (together,) = re.findall(
        r"together \| (\d+)", RESULTS.with_suffix(".md").read_text()
    )
    assert int(together) == round(values["together: MB installed"])
    rows = sum(value for name, value in values.items() if name.startswith("row of"))
    assert rows == pytest.approx(values["together: MB installed"], rel=1e-9)
