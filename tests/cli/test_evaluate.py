"""`spjax evaluate` in contexts of the user's choice, and what it writes."""

import csv
import json
import shutil
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest

from spjax.cli import main
from spjax.cli.tables import read_contexts
from spjax.envs.point_mass import PointMass
from tests.cli.test_commands import content

NAMES = ("gate position", "gate width", "friction")
ROWS = [(0.0, 4.0, 2.0), (2.5, 0.5, 0.0)]


def written(path, text):
    path.write_text(text)
    return path


def test_contexts_of_a_file_are_played_and_all_formats_hold_the_same_episodes(
    trained, tmp_path, capsys
):
    before = content(trained)
    np.save(tmp_path / "contexts.npy", np.asarray(ROWS))
    asked = ["evaluate", str(trained), "--contexts", str(tmp_path / "contexts.npy")]
    asked += ["--episodes", "2", "--deterministic"]
    for suffix in ("json", "csv", "parquet"):
        out = tmp_path / f"episodes.{suffix}"
        assert main([*asked, "--out", str(out)]) == 0
        printed = capsys.readouterr().out
        assert "2 episodes in each of the 2 contexts of" in printed.replace("\n", " ")
        assert "by the deterministic policy" in printed.replace("\n", " ")
        assert f"episodes: {out}" in printed
    assert content(trained) == before

    rows = pq.read_table(tmp_path / "episodes.parquet").to_pylist()
    assert [row["seed"] for row in rows] == [3] * 4 + [5] * 4
    for number, row in enumerate(rows):
        context = tuple(row[f"context.{name}"] for name in NAMES)
        assert context == ROWS[number % 4 // 2]
        assert 0 < row["length"] <= PointMass(dimensions=3).horizon
    assert rows == json.loads((tmp_path / "episodes.json").read_text())
    with (tmp_path / "episodes.csv").open() as file:
        texts = list(csv.DictReader(file))
    for row, text in zip(rows, texts, strict=True):
        assert float(text["discounted_return"]) == pytest.approx(
            row["discounted_return"], rel=1e-6
        )
        assert text["success"] == str(row["success"]).lower()


def test_a_grid_has_the_corners_of_the_space_and_is_drawn(trained, tmp_path, capsys):
    out, picture = tmp_path / "grid.parquet", tmp_path / "map.png"
    asked = ["evaluate", str(trained), "--grid", "2", "--episodes", "1"]
    assert main([*asked, "--out", str(out), "--map", str(picture)]) == 0
    assert f"picture: {picture}" in capsys.readouterr().out
    assert picture.stat().st_size > 1000
    rows = pq.read_table(out).filter(pq.read_table(out)["lane"].to_numpy() == 0)
    corners = {
        tuple(row[f"context.{name}"] for name in NAMES) for row in rows.to_pylist()
    }
    space = PointMass(dimensions=3).context_space
    assert len(corners) == rows.num_rows == 8
    assert (space.lower, space.upper) == (min(corners), max(corners))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "0,4,2\n2.5,0.5,0\n"),
        (
            "b.csv",
            "friction, gate position, gate width\n2, 0, 4\n\n0, 2.5, 0.5\n",
        ),
        ("c.json", "[[0, 4, 2], [2.5, 0.5, 0]]"),
        (
            "d.json",
            '[{"gate width": 4, "gate position": 0, "friction": 2}, [2.5, 0.5, 0]]',
        ),
    ],
)
def test_a_file_of_contexts_is_read_by_columns_or_by_names(tmp_path, name, text):
    assert read_contexts(written(tmp_path / name, text), NAMES) == ROWS


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.txt", "", "--contexts needs a file that ends in .csv, .npy or .json, got"),
        ("a.csv", "", "holds no contexts"),
        ("a.csv", "1,2\n", "context 1: 3 numbers are needed (gate position,"),
        (
            "a.csv",
            "gate position,gate width,mass\n1,2,3\n",
            "its columns must be gate position, gate width, friction, got gate position,",
        ),
        ("a.csv", "0,4,x\n0,4,2\n", "its columns must be"),
        ("a.csv", "0,4,2\n0,9,2\n", "context 2: gate width = 9 lies outside its"),
        ("a.csv", "0,4,nan\n", "context 1: friction = nan lies outside its bounds"),
        ("a.json", "{", "holds no contexts that can be read: "),
        ("a.json", "[3]", "a row is a list of numbers, got 3"),
        ("a.npy", "", "holds no contexts that can be read: "),
    ],
)
def test_contexts_that_cannot_be_played_are_one_sentence(
    trained, tmp_path, capsys, name, text, sentence
):
    path = written(tmp_path / name, text)
    assert main(["evaluate", str(trained), "--contexts", str(path)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert str(path) in error


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--contexts", "no.csv"], "there is no file no.csv with contexts"),
        (["--grid", "1"], "--grid must be at least 2, got 1"),
        (
            ["--grid", "100"],
            "at most 100000 episodes of each policy can be played, got 10 in each of 1000000 contexts",
        ),
        (
            ["--grid", "3", "--context", "1", "1", "1"],
            "--context and --grid exclude each other; give one of them",
        ),
        (["--map", "a.png"], "--map draws the contexts of a grid; give --grid too"),
        (
            ["--grid", "2", "--map", "a.gif"],
            "--map needs a file that ends in .png, got a.gif",
        ),
        (
            ["--out", "a.txt"],
            "--out needs a file that ends in .json, .csv or .parquet, got a.txt",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_one_sentence(
    trained, capsys, flags, sentence
):
    assert main(["evaluate", str(trained), *flags]) == 2
    assert capsys.readouterr().err == f"spjax: {sentence}\n"


def test_a_file_that_cannot_be_written_is_said_before_anything_is_played(
    trained, tmp_path, capsys
):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.csv").mkdir()
    for out in (tmp_path / "file" / "a.csv", tmp_path / "folder.csv"):
        assert main(["evaluate", str(trained), "--out", str(out)]) == 1
        assert capsys.readouterr() == ("", f"spjax: {out} cannot be written\n")


def test_policies_of_an_older_checkpoint_come_with_a_sentence(
    trained, tmp_path, capsys
):
    run = shutil.copytree(trained, tmp_path / "run")
    damaged = run / "checkpoints" / "000002.npz"
    damaged.write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["evaluate", str(run), "--episodes", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(f"spjax: checkpoint {damaged} cannot be read: ")
    assert printed.err.endswith("; iteration 1 takes its place\n")
    assert "at iteration 1: 2 episodes" in printed.out.replace("\n", " ")
