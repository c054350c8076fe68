"""Runs that get another length: the bits are those of a run that was as long from the start."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spjax
from spjax.training import extension
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run

pytestmark = pytest.mark.usefixtures("compiled_once")


def parts(folder, kind):
    return sorted(path.stem for path in (folder / kind).glob("*.parquet"))


def merge_metrics(folder):
    """Puts the rows of the part that the run once ended with into the next one, where a longer run has them."""
    one, other = (folder / "metrics" / f"{number:06d}.parquet" for number in (3, 4))
    if one.exists():
        table = pa.concat_tables([pq.read_table(one), pq.read_table(other)])
        order = [("lane", "ascending"), ("iteration", "ascending")]
        pq.write_table(table.sort_by(order), other)
        one.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("first", [4, 3])
def test_an_extended_run_has_the_bits_of_a_run_that_was_as_long_from_the_start(
    finished, tmp_path, first, capsys
):
    folder = tmp_path / "run"
    spjax.train(tiny(num_iterations=first), folder, progress=False)
    spjax.resume(folder, iterations=6)
    assert f"{6 - first} iterations more, about " in capsys.readouterr().out
    merge_metrics(folder)
    assert_same_run(finished, folder)
    assert parts(folder, "evaluation") == ["000000", "000002", "000004", "000006"]
    content = json.loads((folder / "config.json").read_text())
    assert content["config"]["num_iterations"] == 6
    assert (folder / "summary.json").is_file()


@pytest.mark.slow
def test_a_run_that_was_stopped_can_be_made_shorter(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "copy")
    (folder / "checkpoints" / "000006.npz").unlink()
    (folder / "summary.json").unlink()
    (folder / "evaluation" / "000006.parquet").unlink()
    spjax.resume(folder, progress=False, iterations=5)
    assert parts(folder, "evaluation") == ["000000", "000002", "000004", "000005"]
    rows = pq.read_table(folder / "metrics")["iteration"].to_pylist()
    assert sorted(set(rows)) == [1, 2, 3, 4, 5]
    assert (folder / "summary.json").is_file()


def test_a_finished_run_that_is_asked_for_its_own_length_stays_as_it_is(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert spjax.resume(finished, progress=False, iterations=6) == finished
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


@pytest.mark.parametrize(
    ("iterations", "sentence"),
    [
        (5, "has 6 iterations behind it; iterations must be at least 6, got 5$"),
        (0, "num_iterations must be at least 1, got 0$"),
    ],
)
def test_a_length_that_cannot_be_is_one_sentence_and_changes_nothing(
    finished, iterations, sentence
):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    with pytest.raises(ValueError, match=sentence):
        spjax.resume(finished, progress=False, iterations=iterations)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_a_finished_run_without_checkpoints_is_not_extended(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "copy")
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(ValueError, match=r"no checkpoints, from which it could go on$"):
        spjax.resume(folder, progress=False, iterations=8)
    assert (folder / "summary.json").is_file()


def test_the_time_of_new_iterations_is_said_only_where_it_is_known(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "copy")
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"wall_seconds": 130.0, "compile_seconds": 10.0}
    (folder / "summary.json").write_text(json.dumps(summary))
    said = extension.time_left(folder, 18)
    assert said.startswith("12 iterations more, about 4 min at the speed of")
    (folder / "summary.json").write_text(json.dumps(summary | {"wall_seconds": None}))
    assert extension.time_left(folder, 18) is None
    (folder / "summary.json").unlink()
    assert extension.time_left(folder, 18) is None
    assert extension.duration(20.4) == "20 s"
    assert extension.duration(9000) == "2.5 h"
