import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pyarrow.parquet as pq
import pytest

from spjax.analysis import load_run
from spjax.analysis.run import Frozen
from spjax.cli import main
from spjax.cli.cache import keep_compiled_programs
from spjax.cli.report import frozen_lanes
from spjax.training import run_folder
from spjax.training import train as training
from spjax.training.config import RunConfig

TINY = [
    *("--iterations", "2", "--evaluate-every", "1", "--evaluation-episodes", "3", "--quiet", "--no-plots"),
    *("--agent.num-envs", "2", "--agent.num-steps", "8", "--agent.num_minibatches=2", "--agent.num-epochs", "1"),
    *("--agent.hidden", "4", "4"),
]
P3D = "point-mass-3d"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", P3D, "--teacher", "default", *TINY, "--seeds", "3,5", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def captured_config(monkeypatch, tmp_path):
    """Returns a function that runs a command without training, and returns the configuration and the folder."""
    monkeypatch.chdir(tmp_path)
    caught = []

    def catch(config, folder, **how):
        caught.append((config, folder, how))
        raise training.Interrupted("caught")

    def run(*args) -> tuple[RunConfig, Path, dict]:
        assert main([*args]) == 1
        return caught[-1]

    monkeypatch.setattr(training, "train", catch)
    return run


def content(folder):
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["trian"], "unknown command 'trian'; did you mean train?"),
        (["frobnicate"], "unknown command 'frobnicate'; see spjax --help"),
        (["train"], "train needs an environment first: ball-catching or point-mass-3d or point-mass-2d"),
        (
            ["train", "--seeds", "2"],
            "train needs an environment first: ball-catching or point-mass-3d or point-mass-2d",
        ),
        (["train", "point-mass-3"], "unknown environment 'point-mass-3'; did you mean 'point-mass-3d'?"),
        (["train", P3D, "--agent", "pp"], "unknown agent 'pp'; did you mean 'ppo'?"),
        (["train", P3D, "--agent"], "--agent needs 'ppo' or 'trpo' or 'sac', got nothing"),
        (["train", P3D, "--teacher=self-pace"], "unknown teacher 'self-pace'; did you mean 'self-paced'?"),
        (["train", P3D, "--variant", "artcle"], "unknown variant 'artcle'; did you mean 'article'?"),
        (["train", P3D, "--teacher.schedule", "bond"], "unknown schedule 'bond'; did you mean 'bound'?"),
        (
            ["train", P3D, "--teacher", "random", "--teacher.schedule", "bound"],
            "only the self-paced teacher has a schedule, got schedule 'bound' for 'random'",
        ),
        (
            ["train", P3D, "--agent.learning-rte", "1"],
            "unknown flag --agent.learning-rte; did you mean --agent.learning-rate?",
        ),
        (["train", P3D, "--max-kl", "1"], "unknown flag --max-kl; did you mean --teacher.max-kl?"),
        (
            ["train", P3D, "--teacher.target-mean", "1"],
            "unknown flag --teacher.target-mean; did you mean --target-mean?",
        ),
        (["train", P3D, "--over", "agent.discount=1"], f"unknown flag --over; see spjax train {P3D} --help"),
        (["train", P3D, "--env.dimensions", "2"], f"unknown flag --env.dimensions; see spjax train {P3D} --help"),
        (["train", P3D, "--quiet", "3"], f"unexpected argument '3'; see spjax train {P3D} --help"),
        (["train", P3D, "--agent.learning-rate", "abc"], "--agent.learning-rate needs a number, got 'abc'"),
        (["train", P3D, "--agent.learning-rate", "1", "2"], "--agent.learning-rate needs a number, got '1 2'"),
        (["train", P3D, "--agent.num-envs", "1.5"], "--agent.num-envs needs a whole number, got '1.5'"),
        (["train", P3D, "--agent.hidden"], "--agent.hidden needs whole numbers, got nothing"),
        (
            ["train", P3D, "--teacher.value-source", "crit"],
            "--teacher.value-source needs 'critic' or 'return', got 'crit'",
        ),
        (["train", P3D, "--agent.learning-rate", "nan"], "agent.learning_rate must not be NaN"),
        (["train", P3D, "--agent.learning-rate", "-1"], "agent.learning_rate must be at least 0, got -1.0"),
        (["train", P3D, "--agent.discount", "1.1"], "agent.discount must lie in [0, 1], got 1.1"),
        (["train", P3D, "--agent.num-envs", "0"], "agent.num_envs must be at least 1, got 0"),
        (["train", P3D, "--env.noise-std", "-1"], "env.noise_std must be finite and at least 0, got -1.0"),
        (["train", P3D, "--teacher.max-kl", "-1"], "teacher.max_kl must be at least 0, got -1.0"),
        (["train", P3D, "--iterations", "0"], "num_iterations must be at least 1, got 0"),
        (
            ["train", P3D, "--target-mean", "9", "1", "1"],
            "teacher.target_mean: gate position = 9 lies outside its bounds [-4, 4] m",
        ),
        (
            ["train", P3D, "--target-mean", "1"],
            "teacher.target_mean needs 3 values (gate position, gate width, friction), got 1",
        ),
        (
            ["train", P3D, "--teacher", "random", "--target-std", "0", "1", "1"],
            "teacher.target_std of gate position must be positive and finite, got 0",
        ),
        (["train", P3D, "--seeds", "0"], "--seeds must lie in [1, 100000], got 0"),
        (["train", P3D, "--seeds", "-3"], "--seeds must lie in [1, 100000], got -3"),
        (["train", P3D, "--seeds", "1,-3"], "seeds must lie in [0, 2^32), got -3..1"),
        (["train", P3D, "--seeds", "3,3"], "each seed may be given once, got [3, 3]"),
        (["train", P3D, "--seeds", "x"], "--seeds needs whole numbers, got 'x'"),
        (
            ["sweep", P3D],
            "sweep needs at least one --over, for example --over agent.learning_rate=1e-4,1e-3",
        ),
        (
            ["sweep", P3D, "--over", "agent.hidden=1,2"],
            "cannot sweep over 'agent.hidden': it shapes the compiled program, so each value needs a run of its own",
        ),
        (
            ["sweep", P3D, "--over", "teacher.klproportion=1,2"],
            "unknown setting 'teacher.klproportion'; did you mean 'teacher.kl_proportion'?",
        ),
        (
            ["sweep", P3D, "--over", "noise=1"],
            "cannot sweep over 'noise': settings are named agent.<setting> or teacher.<setting>",
        ),
        (
            ["sweep", P3D, "--over", "teacher.max-kl=1,x"],
            "--over teacher.max_kl needs a number, got 'x'",
        ),
        (["sweep", P3D, "--over", "teacher.max_kl=1,1"], "each value may be given once, got 'teacher.max_kl=1,1'"),
        (
            ["sweep", P3D, "--over", "teacher.max_kl=1", "teacher.max-kl=2"],
            "each setting may be swept once, got teacher.max_kl twice",
        ),
        (["sweep", P3D, "--over", "teacher.max_kl"], "--over needs SETTING=VALUE,VALUE, got 'teacher.max_kl'"),
        (["train", P3D, "--start", "target"], "start of point-mass-3d must be initial, got 'target'"),
        (
            ["train", "ball-catching", "--teacher.initial-mean", "1", "1", "1"],
            "unknown flag --teacher.initial-mean; see spjax train ball-catching --help",
        ),
        (["resume"], "resume needs a folder, got nothing"),
        (["resume", "nowhere"], "there is no run folder nowhere"),
        (
            ["resume", "r", "--teacher.max-kl", "3"],
            "a run's settings are fixed; start a new run to change teacher.max_kl",
        ),
        (["resume", "r", "--seeds=3"], "a run's settings are fixed; start a new run to change seeds"),
        (["resume", "r", "--quite"], "unknown flag --quite; did you mean --quiet?"),
        (["evaluate", "nowhere"], "there is no run folder nowhere"),
        (["evaluate", "nowhere", "--episodes", "0"], "--episodes must lie in [1, 100000], got 0"),
        (["evaluate", "nowhere", "--seed", "-1"], "--seed must lie in [0, 2^32), got -1"),
        (["plot"], "plot needs folders, got nothing"),
        (["plot", "nowhere"], "there is no folder nowhere; give the path of a run folder that `spjax train` wrote"),
        (["list", "3"], "unexpected argument '3'; see spjax list --help"),
    ],
)
def test_what_the_user_gets_wrong_is_one_sentence_and_exit_code_2(args, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(args) == 2
    assert capsys.readouterr() == ("", f"spjax: {sentence}\n")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda run: (run / "config.json").unlink(), "{run} is not a run folder: it has no config.json"),
        (
            lambda run: (run / "config.json").write_text('{"format_version": 1, "env"'),
            "{run}/config.json is half-written or damaged",
        ),
        (
            lambda run: (run / "config.json").write_text('{"format_version": 99}'),
            "{run} has format version 99, this spjax reads 1",
        ),
        (
            lambda run: shutil.rmtree(run / "checkpoints"),
            "{run} has no checkpoint yet; resume it first",
        ),
    ],
)
def test_a_damaged_run_folder_is_one_sentence(trained, tmp_path, capsys, damage, sentence):
    run = shutil.copytree(trained, tmp_path / "run")
    damage(run)
    assert main(["evaluate", str(run)]) == 2
    assert capsys.readouterr().err == f"spjax: {sentence.format(run=run)}\n"


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        (["9", "1", "0"], "--context: gate position = 9 lies outside its bounds [-4, 4] m"),
        (["1"], "--context needs 3 values (gate position, gate width, friction), got 1"),
    ],
)
def test_a_context_that_does_not_exist_is_one_sentence(trained, capsys, context, sentence):
    assert main(["evaluate", str(trained), "--context", *context]) == 2
    assert capsys.readouterr().err == f"spjax: {sentence}\n"


def test_training_writes_the_run_that_the_flags_describe(trained):
    content = json.loads((trained / "config.json").read_text())
    assert content["seeds"] == [3, 5]
    assert content["num_iterations"] == 2
    assert content["settings"]["agent"]["hidden"] == [4, 4]
    assert content["settings"]["agent"]["num_minibatches"] == 2
    assert content["settings"]["agent"]["learning_rate"] == 2.5e-4
    assert content["command"].startswith("spjax train point-mass-3d --teacher default --iterations 2")
    assert load_run(trained).last_evaluated_iteration == 2


def test_training_into_a_folder_that_exists_is_refused(trained, capsys):
    before = content(trained)
    assert main(["train", P3D, "--out", str(trained)]) == 2
    assert capsys.readouterr().err == f"spjax: {trained} exists already; resume it, or choose another folder\n"
    assert content(trained) == before


def test_resume_ends_with_the_bits_of_the_undisturbed_run_and_draws_pictures(trained, tmp_path, capsys):
    run = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / "000002")
    (run / "summary.json").unlink()
    assert main(["resume", str(run), "--quiet"]) == 0
    for part in ("metrics", "evaluation"):
        resumed, whole = (pq.read_table(folder / part / "000002.parquet").to_pydict() for folder in (run, trained))
        assert repr(resumed) == repr(whole)  # NaN is NaN, and every float has its own text
    printed = capsys.readouterr().out
    assert f"run folder: {run}\n" in printed
    pictures = sorted((run / "pictures").glob("*.png"))
    assert {"learning_curve", "success_rate", "trajectories"} <= {picture.stem for picture in pictures}
    assert sorted(line for line in printed.splitlines() if line.startswith("picture: ")) == [
        f"picture: {picture}" for picture in pictures
    ]


def test_evaluate_prints_a_row_a_seed_repeats_exactly_and_changes_nothing(trained, capsys):
    before = content(trained)
    printed = []
    for seed in ("0", "0", "1"):
        args = ["evaluate", str(trained), "--episodes", "4", "--seed", seed]
        assert main([*args, "--context", "2.5", "0.5", "0"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    assert "2: 4 episodes on gate position 2.5 m, gate width 0.5 m, friction 0 1/s," in printed[0]
    rows = [line.split("│")[1].strip() for line in printed[0].splitlines() if line.startswith("│")]
    assert rows == ["3", "5", "all"]
    assert content(trained) == before


def test_plot_names_the_pictures_that_it_draws(trained, tmp_path, capsys):
    run = shutil.copytree(trained, tmp_path / "run")
    assert main(["plot", str(run)]) == 0
    assert f"picture: {run}/pictures/learning_curve.png\n" in capsys.readouterr().out
    assert (run / "pictures" / "learning_curve.png").stat().st_size > 1000


def test_list_shows_environments_presets_and_the_state_of_runs(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "runs" / "a")
    shutil.copytree(trained, tmp_path / "runs" / "b")
    Path("runs/b/summary.json").unlink()
    Path("runs/b/evaluation/000002.parquet").unlink()
    shutil.copytree(trained, tmp_path / "runs" / "c")
    Path("runs/c/config.json").write_text("{")
    assert main(["list"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "point-mass-3d gate position m -4 to 4 2.5 ± 0.004" in lines
    assert "spjax train point-mass-3d --agent ppo --teacher self-paced --teacher.schedule bound" in lines
    assert "runs/a 2 2 of 2 finished" in lines
    assert "runs/b 2 1 of 2 unfinished" in lines
    assert any(line.startswith("runs/c unreadable: runs/c/config.json is half-written") for line in lines)


def test_every_kind_of_setting_has_a_flag(captured_config):
    config, folder, how = captured_config(
        *("train", "point-mass-3d", "--agent", "ppo", "--teacher=self-paced", "--teacher.schedule", "bound"),
        *("--agent.learning_rate=1e-3", "--agent.hidden", "32", "16", "--agent.bootstrap-time-limit"),
        *("--teacher.performance-bound", "2", "--teacher.std-floor", "None", "--teacher.warmup", "3"),
        *("--env.noise-std", "0", "--target-mean", "-1", "1", "0.5", "--seeds", "4", "--evaluation-episodes", "7"),
    )
    assert folder == Path("runs/point-mass-3d-ppo-self-paced-bound")
    assert how["progress"]
    assert (config.agent.learning_rate, config.agent.hidden, config.agent.bootstrap_time_limit) == (
        1e-3,
        (32, 16),
        True,
    )
    assert (config.teacher.schedule, config.teacher.performance_bound, config.teacher.warmup) == ("bound", 2.0, 3)
    assert config.teacher.std_floor is None
    assert config.env.noise_std == 0.0
    assert config.teacher.target_mean == config.target_mean == (-1.0, 1.0, 0.5)
    assert config.teacher.target_std == config.target_std == (0.004, 0.00375, 0.002)
    assert config.seeds == (1, 2, 3, 4)
    assert config.evaluation_episodes == 7


def test_the_preset_is_the_default_of_every_setting(captured_config):
    config, _, _ = captured_config("train", P3D, "--variant", "article")
    assert (config.env.force_gain, config.agent.max_grad_norm, config.teacher.offset) == (1.0, 0.5, 11)
    assert (config.num_iterations, config.evaluate_every, config.seeds) == (400, 5, (1,))


def test_curricula_start_where_the_flag_says(captured_config):
    aim = ("--target-mean", "1.0", "0.8", "2.0", "--no-hold-position", "--env.engine", "native")
    config, _, _ = captured_config("train", "ball-catching", *aim)
    assert config.start == "target"
    assert config.teacher.initial_mean == config.teacher.target_mean == config.target_mean == (1.0, 0.8, 2.0)
    assert config.teacher.offset == 50
    assert (config.hold_position, config.env.engine) == (False, "native")
    config, _, _ = captured_config("train", "ball-catching", "--start", "initial", *aim)
    assert config.start == "initial"
    assert (config.teacher.initial_mean, config.teacher.offset) == ((0.68, 0.9, 0.85), 0)


def test_a_sweep_is_the_grid_of_its_values(captured_config):
    config, _, _ = captured_config(
        *("sweep", P3D, "--over", "teacher.kl-proportion=0.4,0.8", "--seeds", "5,"),
        *("--over", "teacher.std_floor=0.2:0.1:0.1,0:0:0", "teacher.offset=10,20"),
    )
    assert config.over == {
        "teacher.kl_proportion": (0.4, 0.8),
        "teacher.std_floor": ((0.2, 0.1, 0.1), (0.0, 0.0, 0.0)),
        "teacher.offset": (10, 20),
    }
    assert len(config.lanes()) == 8


def test_run_folders_are_numbered(captured_config):
    Path("runs/point-mass-2d-ppo-random").mkdir(parents=True)
    assert captured_config("train", "point-mass-2d", "--teacher", "random")[1].name == "point-mass-2d-ppo-random-2"
    Path("runs/point-mass-2d-ppo-random-2").mkdir()
    assert captured_config("train", "point-mass-2d", "--teacher", "random")[1].name == "point-mass-2d-ppo-random-3"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "part"),
            "the disk is full (part); what was saved before is intact, continue with: spjax resume {run}",
        ),
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "part"),
            "Permission denied (part); what was saved before is intact, continue with: spjax resume {run}",
        ),
        (training.Interrupted("stopped at iteration 5"), "stopped at iteration 5"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_1(trained, monkeypatch, capsys, error, sentence):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(training, "resume", fail)
    assert main(["resume", str(trained)]) == 1
    assert capsys.readouterr() == ("", f"spjax: {sentence.format(run=trained)}\n")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["train", P3D, "--out", str(tmp_path / "file" / "run")]) == 1
    assert capsys.readouterr().err == f"spjax: Not a directory ({tmp_path}/file/run)\n"


def test_frozen_seeds_are_reported_in_one_sentence(trained, tmp_path, monkeypatch, capsys):
    lanes = (Frozen(0, 3, 17), Frozen(1, 5, 17), Frozen(2, 8, 20))
    why = "frozen, because their parameters became non-finite"
    assert frozen_lanes(lanes) == f"{why}: seed 3, 5 after iteration 17; seed 8 after iteration 20"
    run = shutil.copytree(trained, tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text())
    run_folder.write_json(run / "summary.json", {**summary, "frozen": [{"lane": 1, "seed": 5, "iteration": 1}]})
    monkeypatch.setattr(training, "resume", lambda folder, progress: folder)
    assert main(["resume", str(run), "--no-plots"]) == 0
    assert f"{why}: seed 5 after iteration 1\n" in capsys.readouterr().out


def test_the_help_shows_the_settings_of_the_chosen_types_with_comments_and_defaults(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["train", P3D, "--teacher", "self-paced", "--help"])
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--teacher.max-kl FLOAT epsilon, nats an update (default: 0.05)" in printed
    assert "--agent.hidden INT ... of both networks (default: 64 64)" in printed
    assert "A sweep may vary discount, gae_lambda," in printed
    with pytest.raises(SystemExit, match="0"):
        main(["train", P3D, "--teacher", "random", "--help"])
    assert "--teacher.max-kl" not in capsys.readouterr().out


def test_the_first_help_answers_without_jax():
    script = "import sys; from spjax.cli import main; main(['--help']); sys.exit('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "spjax train point-mass-3d --agent ppo" in done.stdout


@pytest.fixture
def cache_folder():
    """Puts the compilation cache back as it was."""
    before = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_compiled_programs_are_kept_in_the_users_cache_folder(cache_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "spjax" / "jax")
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")


def test_a_cache_folder_that_cannot_be_written_stops_nothing(cache_folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None
