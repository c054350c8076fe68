"""What goes wrong is one sentence: exit code 2 for the user's mistakes, 1 for failures."""

import errno
import os
import shutil

import pytest

from spjax import catalogue
from spjax.cli import main
from spjax.training import train as training
from tests.cli.conftest import P3D

BUILT_IN = (
    "point-mass-3d",
    "point-mass-2d",
    "ball-catching",
    "gate-precision",
    "gate-global",
    "ball-in-a-cup",
    "ant",
    "reacher",
    "reacher-step",
    "policy-search",
)
NEEDS_A_TASK = f"train needs a task first: {' or '.join(BUILT_IN)}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["trian"], "unknown command 'trian'; did you mean train?"),
        (["frobnicate"], "unknown command 'frobnicate'; see spjax --help"),
        (
            ["train"],
            NEEDS_A_TASK,
        ),
        (
            ["train", "--seeds", "2"],
            NEEDS_A_TASK,
        ),
        (
            ["train", "point-mass-3"],
            "unknown task 'point-mass-3'; did you mean 'point-mass-3d'?",
        ),
        (
            ["sweep", P3D, "--over", "agent.discount=0.9,0.95", "--every", "20"],
            "--every is for --halve, got --every 20 alone",
        ),
        (
            [
                *("sweep", P3D, "--over", "agent.discount=0.9,0.95"),
                *("--halve", "0.5", "--every", "7"),
            ],
            "every must be a multiple of evaluate_every, 5, since settings are ranked by an evaluation, got 7",
        ),
        (["train", P3D, "--agent", "pp"], "unknown agent 'pp'; did you mean 'ppo'?"),
        (
            ["train", P3D, "--agent"],
            "--agent needs 'ppo' or 'trpo' or 'sac' or 'sprl' or 'c-reps' or 'cma-es', got nothing",
        ),
        (
            ["train", P3D, "--teacher=self-pace"],
            "unknown teacher 'self-pace'; did you mean 'self-paced'?",
        ),
        (
            ["train", P3D, "--variant", "artcle"],
            "unknown variant 'artcle'; did you mean 'article'?",
        ),
        (
            ["train", P3D, "--teacher.schedule", "bond"],
            "unknown schedule 'bond'; did you mean 'bound'?",
        ),
        (
            ["train", P3D, "--teacher", "random", "--teacher.schedule", "bound"],
            "the teacher 'random' has no schedule, got 'bound'",
        ),
        (
            ["train", P3D, "--agent.learning-rte", "1"],
            "unknown flag --agent.learning-rte; did you mean --agent.learning-rate?",
        ),
        (
            ["train", P3D, "--max-kl", "1"],
            "unknown flag --max-kl; did you mean --teacher.max-kl?",
        ),
        (
            ["train", P3D, "--teacher.target-mean", "1"],
            "unknown flag --teacher.target-mean; did you mean --teacher.target.mean?",
        ),
        (
            ["train", P3D, "--teacher.schedule", "bound", "--bound.zeta", "1"],
            "unknown flag --bound.zeta; zeta is of the schedule proportion or smooth-proportion, this one is bound",
        ),
        (
            ["train", P3D, "--over", "agent.discount=1"],
            f"unknown flag --over; see spjax train {P3D} --help",
        ),
        (
            ["train", P3D, "--task.dimensions", "2"],
            f"unknown flag --task.dimensions; see spjax train {P3D} --help",
        ),
        (
            ["train", P3D, "--quiet", "3"],
            f"unexpected argument '3'; see spjax train {P3D} --help",
        ),
        (
            ["train", P3D, "--agent.learning-rate", "abc"],
            "--agent.learning-rate needs a number, got 'abc'",
        ),
        (
            ["train", P3D, "--agent.learning-rate", "1", "2"],
            "--agent.learning-rate needs a number, got '1 2'",
        ),
        (
            ["train", P3D, "--agent.num-envs", "1.5"],
            "--agent.num-envs needs a whole number, got '1.5'",
        ),
        (
            ["train", P3D, "--agent.hidden"],
            "--agent.hidden needs whole numbers, got nothing",
        ),
        (
            ["train", P3D, "--agent.hidden", "64", "--agent.hidden=32"],
            "--agent.hidden is given twice; name all its values after one of them",
        ),
        (
            ["train", P3D, "--teacher.target.mean", "1", "--teacher.target.mean", "2"],
            "--teacher.target.mean is given twice; name all its values after one of them",
        ),
        (
            ["train", P3D, "--teacher.value-source", "crit"],
            "--teacher.value-source needs 'critic' or 'return', got 'crit'",
        ),
        (
            ["train", P3D, "--agent.learning-rate", "nan"],
            "agent.learning_rate must not be NaN",
        ),
        (
            ["train", P3D, "--agent.learning-rate", "-1"],
            "agent.learning_rate must be at least 0, got -1.0",
        ),
        (
            ["train", P3D, "--agent.discount", "1.1"],
            "agent.discount must lie in [0, 1], got 1.1",
        ),
        (
            ["train", P3D, "--agent.num-envs", "0"],
            "agent.num_envs must be at least 1, got 0",
        ),
        (
            ["train", P3D, "--task.noise-std", "-1"],
            "task.noise_std must be at least 0, got -1.0",
        ),
        (
            ["train", P3D, "--teacher.max-kl", "-1"],
            "teacher.max_kl must be positive and finite, got -1.0",
        ),
        (
            ["train", P3D, "--iterations", "0"],
            "num_iterations must be at least 1, got 0",
        ),
        (
            ["train", P3D, "--teacher.target.mean", "9", "1", "1"],
            "teacher.target.mean: gate position = 9 lies outside its bounds [-4, 4] m",
        ),
        (
            ["train", P3D, "--teacher.target.mean", "1", "--teacher.target.std", "1"],
            "teacher.target.mean needs 3 values (gate position, gate width, friction), got 1",
        ),
        (
            [
                "train",
                P3D,
                "--teacher",
                "random",
                "--teacher.target.std",
                "0",
                "1",
                "1",
            ],
            "teacher.target.std must be positive and finite, got 0.0",
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
            ["sweep", P3D, "--over", "teacher.zeta=1,2"],
            "unknown setting 'teacher.zeta'; did you mean 'teacher.schedule.zeta'?",
        ),
        (
            ["sweep", P3D, "--over", "noise=1"],
            "cannot sweep over 'noise': settings are named task., agent. or teacher.<setting>; "
            "noise is of the teacher goal-gan or goal-gan-episodic, this one is self-paced",
        ),
        (
            ["sweep", P3D, "--over", "teacher.max-kl=1,x"],
            "--over teacher.max_kl needs a number, got 'x'",
        ),
        (
            ["sweep", P3D, "--over", "teacher.max_kl=1,1"],
            "each value of teacher.max_kl may be given once, got 1.0, 1.0",
        ),
        (
            ["sweep", P3D, "--over", "teacher.max_kl=1", "teacher.max-kl=2"],
            "each setting may be swept once, got teacher.max_kl twice",
        ),
        (
            ["sweep", P3D, "--over", "teacher.max_kl"],
            "--over needs SETTING=VALUE,VALUE, got 'teacher.max_kl'",
        ),
        (
            ["train", P3D, "--start", "nowhere"],
            "start must be initial or target, got 'nowhere'",
        ),
        (
            ["train", P3D, "--teacher", "random", "--start", "target"],
            "the teacher 'random' has no start, got 'target'",
        ),
        (
            ["train", "ball-catching", "--teacher.initial-mean", "1", "1", "1"],
            "unknown flag --teacher.initial-mean; did you mean --teacher.initial.mean?",
        ),
        (
            ["train", P3D, "--env.noise-std", "1"],
            "unknown flag --env.noise-std; did you mean --task.noise-std?",
        ),
        (
            ["train", P3D, "--teacher.zeta", "1"],
            "unknown flag --teacher.zeta; did you mean --teacher.schedule.zeta?",
        ),
        (
            ["train", P3D, "--teacher.K_alpha=1"],
            "unknown flag --teacher.K-alpha; did you mean --teacher.schedule.offset?",
        ),
        (
            ["train", P3D, "--teacher.frobnicate", "1"],
            f"unknown flag --teacher.frobnicate; see spjax train {P3D} --help",
        ),
        (["train", P3D, "--use", "mine.py"], "there is no file mine.py to use"),
        (
            ["train", P3D, "--use", "no.such.module"],
            "cannot use 'no.such.module': No module named 'no'",
        ),
        (["resume"], "resume needs a folder, got nothing"),
        (["resume", "nowhere"], "there is no run folder nowhere"),
        (
            ["resume", "r", "--teacher.max-kl", "3"],
            "a run's settings are fixed; start a new run to change teacher.max_kl",
        ),
        (
            ["resume", "r", "--seeds=3"],
            "a run's settings are fixed; start a new run to change seeds",
        ),
        (
            ["resume", "r", "--iterations", "x"],
            "--iterations needs a whole number, got 'x'",
        ),
        (["resume", "r", "--quite"], "unknown flag --quite; did you mean --quiet?"),
        (["evaluate", "nowhere"], "there is no run folder nowhere"),
        (
            ["evaluate", "nowhere", "--episodes", "0"],
            "--episodes must lie in [1, 100000], got 0",
        ),
        (
            ["evaluate", "nowhere", "--seed", "-1"],
            "--seed must lie in [0, 2^32), got -1",
        ),
        (["plot"], "plot needs folders, got nothing"),
        (["plot", "nowhere"], "there is no run folder nowhere"),
        (
            ["list", "3"],
            f"unknown task '3'; known: {', '.join(BUILT_IN)}",
        ),
    ],
)
def test_what_the_user_gets_wrong_is_one_sentence_and_exit_code_2(
    args, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    known = catalogue.names
    # other tests of this process may have registered tasks of their own
    monkeypatch.setattr(
        catalogue, "names", lambda kind: BUILT_IN if kind == "task" else known(kind)
    )
    assert main(args) == 2
    assert capsys.readouterr() == ("", f"spjax: {sentence}\n")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda run: (run / "config.json").unlink(),
            "{run} is not a run folder: it has no config.json",
        ),
        (
            lambda run: (run / "config.json").write_text('{"format_version": 1, "env"'),
            "{run}/config.json is damaged or half-written (Expecting ':' delimiter: line 1 column 28 (char 27)); "
            "restore it or train again",
        ),
        (
            lambda run: (run / "config.json").write_text('{"format_version": 99}'),
            "{run}: config.json has format version 99, this spjax reads 1 and 2; "
            "use the spjax that wrote it, or train again",
        ),
        (
            lambda run: shutil.rmtree(run / "checkpoints"),
            "{run} is finished but has no checkpoints, which its policies would be in",
        ),
        (
            lambda run: (
                shutil.rmtree(run / "checkpoints"),
                (run / "summary.json").unlink(),
            ),
            "{run} has no checkpoint yet; resume it first",
        ),
    ],
)
def test_a_damaged_run_folder_is_one_sentence(
    trained, tmp_path, capsys, damage, sentence
):
    run = shutil.copytree(trained, tmp_path / "run")
    damage(run)
    assert main(["evaluate", str(run)]) == 2
    assert capsys.readouterr().err == f"spjax: {sentence.format(run=run)}\n"


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        (
            ["9", "1", "0"],
            "--context: gate position = 9 lies outside its bounds [-4, 4] m",
        ),
        (
            ["1"],
            "--context needs 3 values (gate position, gate width, friction), got 1",
        ),
    ],
)
def test_a_context_that_does_not_exist_is_one_sentence(
    trained, capsys, context, sentence
):
    assert main(["evaluate", str(trained), "--context", *context]) == 2
    assert capsys.readouterr().err == f"spjax: {sentence}\n"


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
def test_a_failure_is_one_sentence_and_exit_code_1_or_130_after_ctrl_c(
    trained, monkeypatch, capsys, error, sentence
):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(training, "resume", fail)
    code = 1 if isinstance(error, OSError) else 130
    assert main(["resume", str(trained)]) == code
    assert capsys.readouterr() == ("", f"spjax: {sentence.format(run=trained)}\n")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["train", P3D, "--out", str(tmp_path / "file" / "run")]) == 1
    assert capsys.readouterr().err == f"spjax: Not a directory ({tmp_path}/file/run)\n"
