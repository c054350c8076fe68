"""A user's task, teacher and schedule in one file: trained, killed, resumed, evaluated, plotted, filmed in fresh processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from spjax.cli import main

TRAIN = [
    *(
        "train",
        "hit-the-mark",
        "--agent",
        "ppo",
        "--teacher",
        "linear",
        "--teacher.schedule",
        "steady",
    ),
    *(
        "--teacher.schedule.share",
        "0.125",
        "--task.reach",
        "0.75",
        "--agent.hidden",
        "4",
        "--agent.num-envs",
        "2",
    ),
    *(
        "--agent.num-steps",
        "20",
        "--agent.num-minibatches",
        "2",
        "--seeds",
        "2",
        "--evaluation-episodes",
        "3",
    ),
    *("--iterations", "300", "--evaluate-every", "3", "--quiet"),
]


def start(*args):
    command = [sys.executable, "-m", "spjax.cli", *map(str, args)]
    root = str(Path(__file__).parents[1])
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


def spjax(*args):
    process = start(*args)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """The user's file, away from the suite."""
    return shutil.copy(
        Path(__file__).parent / "own_parts.py",
        tmp_path_factory.mktemp("own") / "mine.py",
    )


@pytest.fixture(scope="module")
def run(mine):
    """The folder of a run that was killed and resumed."""
    folder = mine.parent / "run"
    process = start(*TRAIN, "--use", mine, "--out", folder)
    while process.poll() is None and not list(folder.glob("metrics/*.parquet")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder / "summary.json").exists()
    printed = spjax("resume", folder, "--quiet")
    assert "picture: " in printed
    return folder


@pytest.mark.slow
def test_the_folder_spells_the_users_parts_and_where_they_come_from(run, mine):
    content = json.loads((run / "config.json").read_text())
    assert content["config"]["task"] == {"task": "hit-the-mark", "reach": 0.75}
    assert content["config"]["teacher"]["teacher"] == "linear"
    assert content["config"]["teacher"]["schedule"] == {
        "schedule": "steady",
        "share": 0.125,
    }
    assert [(use["module"], use["file"]) for use in content["uses"]] == [
        ("mine", str(mine))
    ]


def test_the_resumed_run_has_every_iteration_and_what_the_users_teacher_did(run):
    metrics = pq.read_table(run / "metrics").to_pydict()
    rows = sorted(
        zip(metrics["seed"], metrics["iteration"], metrics["teacher.done"], strict=True)
    )
    assert [row[:2] for row in rows] == [
        (seed, iteration) for seed in (1, 2) for iteration in range(1, 301)
    ]
    np.testing.assert_allclose(
        [row[2] for row in rows[:10]], np.minimum(1.0, 0.125 * np.arange(1, 11))
    )


@pytest.mark.slow
def test_evaluate_plot_and_render_find_the_users_parts(run):
    assert "20 episodes on mark 1.5 m," in spjax(
        "evaluate", run, "--episodes", "20", "--context", "1.5"
    )
    shutil.rmtree(run / "pictures")
    assert f"picture: {run}/pictures/learning_curve.png\n" in spjax("plot", run)
    assert f"page: {run}/videos/seed-1.html\n" in spjax(
        "render", run, "--format", "html"
    )


@pytest.mark.parametrize("command", ["resume", "evaluate", "render"])
def test_a_file_that_was_changed_or_is_missing_is_one_sentence(
    command, run, mine, capsys
):
    text = mine.read_text()
    try:
        mine.write_text(text.replace("jnp.exp(-distance)", "10 * jnp.exp(-distance)"))
        assert main([command, str(run)]) == 2
        refusal = "is not the file that the run was trained with; put that one back, or accept the file as it is with --use"
        assert capsys.readouterr() == ("", f"spjax: {mine} {refusal}\n")
        mine.unlink()
        assert main([command, str(run)]) == 2
        refusal = "which is missing; put it back, or name its new place with --use"
        assert capsys.readouterr() == ("", f"spjax: the run needs {mine}, {refusal}\n")
    finally:
        mine.write_text(text)


@pytest.mark.slow
def test_a_changed_file_in_a_new_place_is_accepted_with_use_and_its_code_is_what_runs(
    run, mine
):
    text = mine.read_text()
    moved = mine.with_name("moved.py")
    mine.rename(moved)
    try:
        before = spjax("evaluate", run, "--episodes", "2", "--use", moved)
        moved.write_text(text.replace("jnp.exp(-distance)", "1000.0"))
        after = spjax("evaluate", run, "--episodes", "2", "--use", moved)
    finally:
        moved.unlink()
        mine.write_text(text)
    assert "4524.38" not in before
    assert "4524.38" in after  # 1000 (1 + 0.95 + ... + 0.95^4)
