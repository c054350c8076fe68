"""Every learner, and every teacher that has a state: a lane is the single run, and a resumed run is the undisturbed one."""

import dataclasses

import numpy as np
import pytest

import spjax
from spjax.agents.step_based import SAC, TRPO
from spjax.runs.read import load_run
from spjax.self_paced.schedules import Proportion
from spjax.teachers import SelfPacedParticles
from spjax.training.run_folder import read_config, write_config
from tests.training.conftest import TINY, tiny
from tests.training.runs import check_lanes_and_resume, trained_and_resumed

pytestmark = pytest.mark.usefixtures("compiled_once")

AGENTS = {
    "ppo": TINY,
    "trpo": TRPO(
        num_envs=4, num_steps=64, hidden=(8,), value_batch=64, cg_iterations=3
    ),
    "sac": SAC(
        num_envs=4,
        num_steps=64,
        hidden=(8,),
        batch_size=8,
        replay_size=400,
        learning_starts=100,
    ),
}
TEACHERS = {
    "alp-gmm": {
        "num_rollouts": 10,
        "max_components": 3,
        "store_capacity": 540,
        "window_capacity": 16,
        "buffer_size": 40,
    },
    "goal-gan": {
        "num_rollouts": 4,
        "generator_hidden": (8,),
        "discriminator_hidden": (8,),
        "train_iterations": 5,
        "pretrain_iterations": 5,
    },
    "self-paced": {"warmup": 1, "buffer_size": 32},
    "spgl": {"warmup": 1, "buffer_size": 32},
}
METHODS = [
    ("trpo", "alp-gmm", None),
    ("ppo", "goal-gan", None),
    ("ppo", "spgl", None),
    ("sac", "self-paced", "bound"),
]


def method(agent, teacher, schedule, **changes):
    config = spjax.preset("point-mass-2d", agent, teacher, schedule)
    return tiny(
        agent=AGENTS[agent],
        teacher=dataclasses.replace(config.teacher, **TEACHERS.get(teacher, {})),
        num_iterations=4,
        seeds=(1, 2),
        **changes,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "teacher", "schedule"), METHODS)
def test_a_lane_is_the_single_run_and_a_resumed_run_the_undisturbed_one(
    agent, teacher, schedule, tmp_path
):
    check_lanes_and_resume(method(agent, teacher, schedule), tmp_path)


@pytest.mark.slow
def test_a_resumed_run_of_a_simulated_robot_is_the_undisturbed_one(tmp_path):
    config = dataclasses.replace(
        spjax.preset("ball-catching", "ppo", "default"),
        agent=dataclasses.replace(TINY, num_steps=32),
        num_iterations=4,
        evaluate_every=2,
        evaluation_episodes=4,
        seeds=(1,),
    )
    trained_and_resumed(config, tmp_path)


@pytest.mark.slow
def test_a_resumed_run_of_particles_that_move_is_the_undisturbed_one(tmp_path):
    moving = tiny().teacher
    particles = SelfPacedParticles(
        initial=moving.initial,
        target=moving.target,
        schedule=Proportion(offset=0),
        num_particles=16,
        resample_below=0.9,
        buffer_size=32,
        warmup=0,
    )
    config = tiny(teacher=particles, num_iterations=4, seeds=(1, 2))
    trained_and_resumed(config, tmp_path)
    run = load_run(tmp_path / "whole")
    ways = run.metric_curves("teacher.kl_to_target", run.groups()[0]).values
    assert np.ptp(ways, axis=1).min() > 0


def test_the_run_folder_keeps_where_a_curriculum_starts_and_whether_the_policy_is_cloned(
    tmp_path,
):
    config = spjax.preset("ball-catching", "ppo", "self-paced", start="initial")
    write_config(tmp_path, config, "")
    again = read_config(tmp_path)
    assert again.spelled() == config.spelled()
    assert (again.task, again.teacher.start, again.hold_position) == (
        config.task,
        "initial",
        True,
    )
    np.testing.assert_array_equal(
        again.teacher.initial.mean, np.float32([0.68, 0.9, 0.85])
    )
