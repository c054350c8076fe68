"""From flags to the configuration of a run."""

from pathlib import Path

import numpy as np
import pytest

import spjax
from spjax.agents.episodic import RadialBasis
from spjax.cli.flags import Group, parse, parse_command
from spjax.cli.render import RenderFlags
from spjax.cli.runs import PlotFlags
from spjax.cli.training import _free_folder
from spjax.self_paced.schedules import Bound
from spjax.training.config import RunConfig
from spjax.training.halving import Halving
from tests.cli.conftest import P3D


def test_every_kind_of_setting_has_a_flag(captured_config):
    config, folder, how = captured_config(
        *(
            "train",
            "point-mass-3d",
            "--agent",
            "ppo",
            "--teacher=self-paced",
            "--teacher.schedule",
            "bound",
        ),
        *(
            "--agent.learning_rate=1e-3",
            "--agent.hidden",
            "32",
            "16",
            "--agent.bootstrap-time-limit",
        ),
        *(
            "--teacher.schedule.performance-bound",
            "2",
            "--teacher.std-floor",
            "None",
            "--teacher.warmup",
            "3",
        ),
        *(
            "--task.noise-std",
            "0",
            "--teacher.target.mean",
            "-1",
            "1",
            "0.5",
            "--seeds",
            "4",
            "--evaluation-episodes",
            "7",
        ),
    )
    assert folder == Path("runs/point-mass-3d-ppo-self-paced-bound")
    assert how["progress"]
    assert (
        config.agent.learning_rate,
        config.agent.hidden,
        config.agent.bootstrap_time_limit,
    ) == (
        1e-3,
        (32, 16),
        True,
    )
    assert (config.teacher.schedule, config.teacher.warmup) == (
        Bound(performance_bound=2.0),
        3,
    )
    assert config.teacher.std_floor is None
    assert config.task.noise_std == 0.0
    assert config.teacher.target.settings()["mean"] == (-1.0, 1.0, 0.5)
    assert config.teacher.target.settings()["std"] == (0.004, 0.00375, 0.002)
    assert config.seeds == (1, 2, 3, 4)
    assert config.evaluation_episodes == 7


def test_the_preset_is_the_default_of_every_setting(captured_config):
    config, _, _ = captured_config("train", P3D, "--variant", "article")
    assert (
        config.task.force_gain,
        config.agent.max_grad_norm,
        config.teacher.schedule.offset,
    ) == (1.0, 0.5, 10)
    assert (config.num_iterations, config.evaluate_every, config.seeds) == (
        400,
        5,
        (1,),
    )


def test_curricula_start_where_the_flag_says(captured_config):
    aim = (
        "--teacher.target.mean",
        "1.0",
        "0.8",
        "2.0",
        "--no-hold-position",
        "--task.engine",
        "native",
    )
    config, _, _ = captured_config("train", "ball-catching", *aim)
    assert config.teacher.start == "target"
    assert config.teacher.starts_at.settings()["mean"] == (1.0, 0.8, 2.0)
    assert config.teacher.schedule.offset == 49
    assert (config.hold_position, config.task.engine) == (False, "native")
    config, _, _ = captured_config("train", "ball-catching", "--start", "initial", *aim)
    assert config.teacher.start == "initial"
    assert config.teacher.starts_at.settings()["mean"] == (0.68, 0.9, 0.85)
    assert config.teacher.schedule.offset == 0


def test_a_sweep_is_the_grid_of_its_values(captured_config):
    config, _, _ = captured_config(
        *("sweep", P3D, "--over", "teacher.schedule.zeta=0.4,0.8", "--seeds", "5,"),
        *(
            "--over",
            "teacher.std_floor=0.2:0.1:0.1,0:0:0",
            "teacher.schedule.offset=10,20",
        ),
    )
    assert config.over == {
        "teacher.schedule.zeta": (0.4, 0.8),
        "teacher.std_floor": ((0.2, 0.1, 0.1), (0.0, 0.0, 0.0)),
        "teacher.schedule.offset": (10, 20),
    }
    assert len(config.lanes()) == 8


def test_a_sweep_is_told_when_to_stop_settings_and_how_many_runs_go_at_once(
    captured_config,
):
    over = "agent.learning_rate=1e-4,1e-3"
    config, _, how = captured_config(
        *("sweep", P3D, "--over", over, "--halve", "0.4", "--every", "20"),
        *("--lanes-at-once", "3"),
    )
    assert config.halving == Halving(0.4, 20)
    assert how["lanes_at_once"] == 3
    assert RunConfig.built(config.spelled()).halving == config.halving
    assert captured_config("sweep", P3D, "--over", over)[0].halving is None


def test_a_sweep_over_targets_reads_several_numbers_for_each_value(captured_config):
    config, _, _ = captured_config(
        "sweep",
        P3D,
        "--over",
        "teacher.target.mean=2.5:0.5:0,0:4:1",
        "task.noise_std=0,0.1",
    )
    assert config.over == {
        "teacher.target.mean": ((2.5, 0.5, 0.0), (0.0, 4.0, 1.0)),
        "task.noise_std": (0.0, 0.1),
    }


def test_a_part_inside_a_part_is_chosen_by_its_name_and_brings_its_flags(
    captured_config,
):
    flags = (
        "--agent.value-features",
        "radial-basis",
        "--agent.value-features.lower",
        "-5",
        "0.1",
    )
    flags += (
        "--agent.value-features.upper",
        "5",
        "0.5",
        "--agent.value-features.counts",
        "3",
        "2",
    )
    flags += ("--agent.value-features.inverse-widths", "0.6", "150")
    config, _, _ = captured_config(
        "train", "gate-precision", "--agent", "c-reps", *flags
    )
    assert config.agent.value_features == RadialBasis(
        (-5.0, 0.1), (5.0, 0.5), (3, 2), (0.6, 150.0)
    )


def test_a_covariance_is_given_row_by_row(captured_config):
    config, _, _ = captured_config(
        "train", "point-mass-2d", "--teacher.target.covariance", "0.25:0.1", "0.1:0.25"
    )
    np.testing.assert_allclose(
        config.teacher.target.covariance, [[0.25, 0.1], [0.1, 0.25]], rtol=1e-6
    )


def test_run_folders_are_numbered(captured_config):
    Path("runs/point-mass-2d-ppo-random").mkdir(parents=True)
    assert (
        captured_config("train", "point-mass-2d", "--teacher", "random")[1].name
        == "point-mass-2d-ppo-random-2"
    )
    Path("runs/point-mass-2d-ppo-random-2").mkdir()
    assert (
        captured_config("train", "point-mass-2d", "--teacher", "random")[1].name
        == "point-mass-2d-ppo-random-3"
    )


def test_settings_of_a_film_may_be_given_in_one_flag_or_in_several():
    both = ("agent.learning_rate=0.1", "teacher.max_kl=0.2")
    for flags in (["--lane", *both], ["--lane", both[0], "--lane", both[1]]):
        given = parse("render", "", [Group("", RenderFlags)], ["run", *flags])[""][
            "lane"
        ]
        assert [text for texts in given for text in texts] == list(both)


@pytest.mark.slow
def test_a_switch_may_be_spelled_out_whatever_its_default(captured_config):
    for default, env in ((False, "point-mass-2d"), (True, "ball-catching")):
        assert captured_config("train", env)[0].hold_position == default
        for word, value in (("--hold-position", True), ("--no-hold-position", False)):
            assert captured_config("train", env, word)[0].hold_position == value


def test_a_folder_for_runs_that_cannot_be_made_is_an_error(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(tmp_path / "unmounted")
    with pytest.raises(FileExistsError):
        _free_folder(spjax.preset("point-mass-2d"))


def test_processes_that_start_together_get_folders_of_their_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    config = spjax.preset("point-mass-2d", teacher="random")
    names = [_free_folder(config).name for _ in range(2)]
    assert names == ["point-mass-2d-ppo-random", "point-mass-2d-ppo-random-2"]


@pytest.mark.parametrize(
    ("words", "each"),
    [((), None), (("--each",), True), (("--each", "False"), False)],
)
def test_a_flag_that_may_be_left_to_the_command_needs_no_value_to_be_true(words, each):
    given = parse_command("plot", "Draw.", PlotFlags, ["runs/one", *words])
    assert given.each is each
    assert [str(folder) for folder in given.folders] == ["runs/one"]
