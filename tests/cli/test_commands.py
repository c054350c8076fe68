"""What the commands do."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pyarrow.parquet as pq
import pytest

from spjax.cache import keep_compiled_programs
from spjax.cli import main
from spjax.cli.report import frozen_lanes
from spjax.runs.files import write_json
from spjax.runs.read import load_run
from spjax.runs.schema import Frozen
from spjax.training import train as training
from tests.cli.conftest import P3D, TINY
from tests.docs.running import ROOT


def content(folder):
    return {
        p: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.slow
def test_training_writes_the_run_that_the_flags_describe(trained):
    content = json.loads((trained / "config.json").read_text())
    config = content["config"]
    assert config["seeds"] == [3, 5]
    assert config["num_iterations"] == 2
    assert config["agent"]["hidden"] == [4, 4]
    assert config["agent"]["num_minibatches"] == 2
    assert config["agent"]["learning_rate"] == 2.5e-4
    assert content["command"].startswith(
        "spjax train point-mass-3d --teacher default --iterations 2"
    )
    assert load_run(trained).last_evaluated_iteration == 2


def test_training_into_a_folder_that_exists_is_refused(trained, capsys):
    before = content(trained)
    assert main(["train", P3D, "--out", str(trained)]) == 2
    assert (
        capsys.readouterr().err
        == f"spjax: {trained} exists already; resume it, or choose another folder\n"
    )
    assert content(trained) == before


@pytest.mark.slow
def test_resume_ends_with_the_bits_of_the_undisturbed_run_and_draws_pictures(
    trained, tmp_path, capsys
):
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "checkpoints" / "000002.npz").unlink()
    (run / "summary.json").unlink()
    assert main(["resume", str(run), "--quiet"]) == 0
    for part in ("metrics", "evaluation"):
        resumed, whole = (
            pq.read_table(folder / part / "000002.parquet").to_pydict()
            for folder in (run, trained)
        )
        assert repr(resumed) == repr(
            whole
        )  # NaN is NaN, and every float has its own text
    printed = capsys.readouterr().out
    assert f"run folder: {run}\n" in printed
    pictures = sorted((run / "pictures").glob("*.png"))
    assert {"learning_curve", "success_rate", "trajectories"} <= {
        picture.stem for picture in pictures
    }
    assert sorted(
        line for line in printed.splitlines() if line.startswith("picture: ")
    ) == [f"picture: {picture}" for picture in pictures]


@pytest.mark.slow
def test_resume_makes_a_finished_run_longer_and_refuses_fewer_iterations(
    trained, tmp_path, capsys
):
    run = shutil.copytree(trained, tmp_path / "run")
    assert main(["resume", str(run), "--iterations", "1"]) == 2
    assert (
        capsys.readouterr().err
        == f"spjax: {run} has 2 iterations behind it; iterations must be at least 2, got 1\n"
    )
    quiet = ["--quiet", "--no-plots"]
    assert main(["resume", str(run), "--iterations", "3", *quiet]) == 0
    assert load_run(run).last_evaluated_iteration == 3
    assert load_run(run).config.num_iterations == 3


@pytest.mark.slow
def test_evaluate_prints_a_row_a_seed_repeats_exactly_and_changes_nothing(
    trained, capsys
):
    before = content(trained)
    printed = []
    for seed in ("0", "0", "1"):
        args = ["evaluate", str(trained), "--episodes", "4", "--seed", seed]
        assert main([*args, "--context", "2.5", "0.5", "0"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert (
        "2: 4 episodes on gate position 2.5 m, gate width 0.5 m, friction 0 1/s,"
        in printed[0]
    )
    rows = [
        line.split("│")[1].strip()
        for line in printed[0].splitlines()
        if line.startswith("│")
    ]
    assert rows == ["3", "5", "all"]
    assert content(trained) == before


def test_a_narrow_terminal_never_cuts_a_number(trained, monkeypatch, capsys):
    printed = {}
    for columns in ("200", "50", "20"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["evaluate", str(trained), "--episodes", "4"]) == 0
        rows = re.findall(r"(?m)^\W*(3|5|all)\W(.*)$", capsys.readouterr().out)
        printed[columns] = [(name, re.findall(r"[\d.]+", row)) for name, row in rows]
    assert [name for name, _ in printed["200"]] == ["3", "5", "all"]
    assert all(
        len(numbers) == 6 for _, numbers in printed["200"]
    )  # mean, its error, three quantiles, success
    assert printed["200"] == printed["50"] == printed["20"]


@pytest.mark.slow
def test_a_curriculum_that_starts_where_it_should_end_is_trained_and_drawn(
    tmp_path, capsys
):
    start = (
        "--teacher.initial.mean",
        "2.5",
        "0.5",
        "0",
        "--teacher.initial.std",
        "0.004",
        "0.00375",
        "0.002",
    )
    shown = [flag for flag in TINY if flag != "--no-plots"]
    assert main(["train", P3D, *start, *shown, "--out", str(tmp_path / "run")]) == 0
    assert (
        f"picture: {tmp_path}/run/pictures/learning_curve.png\n"
        in capsys.readouterr().out
    )


def test_plot_names_the_pictures_that_it_draws(trained, tmp_path, capsys):
    run = shutil.copytree(trained, tmp_path / "run")
    assert main(["plot", str(run)]) == 0
    assert f"picture: {run}/pictures/learning_curve.png\n" in capsys.readouterr().out
    assert (run / "pictures" / "learning_curve.png").stat().st_size > 1000


def test_list_of_one_task_shows_its_contexts_and_its_experiments_alone(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["list", P3D]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "gate position m -4 to 4 2.5 ± 0.004" in lines
    assert "spjax train point-mass-3d --agent sprl --teacher self-paced-joint" in lines
    assert not any("point-mass-2d" in line for line in lines)


def test_list_shows_tasks_presets_and_the_state_of_runs(
    trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "runs" / "a")
    shutil.copytree(trained, tmp_path / "runs" / "b")
    Path("runs/b/summary.json").unlink()
    Path("runs/b/evaluation/000002.parquet").unlink()
    shutil.copytree(trained, tmp_path / "runs" / "c")
    Path("runs/c/config.json").write_text("{")
    shutil.copytree(trained, tmp_path / "runs" / "d")
    Path("runs/d/config.json").write_text(
        '{"format_version": 1, "lanes": null, "num_iterations": 2}'
    )
    assert main(["list"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(
        line.startswith("task point-mass-3d, point-mass-2d, ball-catching")
        for line in lines
    )
    assert (
        "spjax train point-mass-3d --agent ppo --teacher self-paced --teacher.schedule bound"
        in lines
    )
    assert "runs/a 2 2 of 2 finished" in lines
    assert "runs/b 2 1 of 2 unfinished" in lines
    assert any(
        line.startswith("runs/c unreadable: runs/c/config.json is damaged")
        for line in lines
    )
    assert any(line.startswith("runs/d unreadable: ") for line in lines)


def test_frozen_seeds_are_reported_in_one_sentence(
    trained, tmp_path, monkeypatch, capsys
):
    lanes = (Frozen(0, 3, 17), Frozen(1, 5, 17), Frozen(2, 8, 20))
    why = "frozen, because their parameters became non-finite"
    assert (
        frozen_lanes(lanes)
        == f"{why}: seed 3, 5 after iteration 17; seed 8 after iteration 20"
    )
    run = shutil.copytree(trained, tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    write_json(
        run / "summary.json",
        {**summary, "frozen": [{"lane": 1, "seed": 5, "iteration": 1}]},
    )
    monkeypatch.setattr(training, "resume", lambda folder, **how: folder)
    assert main(["resume", str(run), "--no-plots"]) == 0
    assert f"{why}: seed 5 after iteration 1\n" in capsys.readouterr().out


def test_the_help_shows_the_settings_of_the_chosen_types_with_comments_and_defaults(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where no help is kept yet
    assert main(["train", P3D, "--teacher", "self-paced", "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert (
        "--teacher.max-kl FLOAT epsilon of an update [nats, above 0] (default: 0.05)"
        in printed
    )
    assert (
        "--agent.hidden INT ... widths of both networks [at least 1] (default: 64 64)"
        in printed
    )
    assert (
        "--teacher.schedule.zeta FLOAT zeta, share of the mean return that the penalty is"
        in printed
    )
    assert "A sweep may vary discount, gae_lambda," in printed
    assert main(["train", P3D, "--teacher", "random", "--help"]) == 0
    assert "--teacher.max-kl" not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["evaluate", "render"])
def test_a_folder_that_is_none_is_said_without_jax(command):
    script = f"import sys; from spjax.cli import main; sys.exit(10 * main(['{command}', 'nowhere']) + ('jax' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        20,
        "spjax: there is no run folder nowhere\n",
    )


def test_the_first_help_answers_without_jax():
    script = "import sys; from spjax.cli import main; main(['--help']); sys.exit('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "spjax train point-mass-3d --agent ppo" in done.stdout


@pytest.fixture
def cache_folder():
    """Puts the compilation cache back as it was."""
    before = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_compiled_programs_are_kept_in_the_users_cache_folder(
    cache_folder, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "spjax" / "jax")
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")


@pytest.mark.slow
def test_training_from_python_keeps_its_compiled_programs_too(tmp_path):
    script = (
        "import dataclasses, spjax; from tests.training.conftest import tiny;"
        "spjax.train(tiny(seeds=(1,), num_iterations=1), 'run', progress=False)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(ROOT)
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    environment.pop("JAX_COMPILATION_CACHE_DIR")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "cache" / "spjax" / "jax").iterdir())


def test_a_cache_folder_that_cannot_be_written_stops_nothing(
    cache_folder, monkeypatch, tmp_path
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None
