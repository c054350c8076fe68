"""Episodic learners as runs: resumed, alone and among others the same bits; what the run folder says."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

import spjax
from spjax.contexts import Gaussian
from spjax.presets import preset
from spjax.training.program import Program
from spjax.training.run_folder import read_config, write_config
from tests.training.runs import check_lanes_and_resume, leaves

pytestmark = pytest.mark.usefixtures("compiled_once")

TRAINED = [
    ("gate-precision", "sprl", "self-paced-joint"),
    ("gate-precision", "c-reps", "goal-gan-episodic"),
    ("gate-precision", "c-reps", "sagg-riac"),
    ("gate-precision", "cma-es", "target-mean"),
]
METHODS = [
    *TRAINED,
    ("gate-global", "c-reps", "default"),
    ("point-mass-2d", "sprl", "self-paced-joint"),
]
SMALL_TEACHERS = {
    "goal-gan-episodic": {
        "generator_hidden": (8,),
        "discriminator_hidden": (8,),
        "pretrain_iterations": 5,
        "train_iterations": 5,
    },
    "sagg-riac": {"max_goals": 30},
}


def small(env, agent, teacher, **changes):
    config = preset(env, agent, teacher)
    fewer = {} if agent == "cma-es" else {"num_samples": 20, "buffer_size": 3}
    return dataclasses.replace(
        config,
        agent=dataclasses.replace(config.agent, **fewer),
        teacher=dataclasses.replace(config.teacher, **SMALL_TEACHERS.get(teacher, {})),
        num_iterations=4,
        evaluate_every=2,
        evaluation_episodes=8,
        seeds=(1, 2),
        **changes,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("env", "agent", "teacher"), TRAINED)
def test_a_lane_is_the_single_run_and_a_resumed_run_the_undisturbed_one(
    env, agent, teacher, tmp_path
):
    check_lanes_and_resume(small(env, agent, teacher), tmp_path)


@pytest.mark.parametrize(("env", "agent", "teacher"), METHODS)
def test_the_run_folder_keeps_the_whole_configuration(env, agent, teacher, tmp_path):
    config = preset(env, agent, teacher)
    write_config(tmp_path, config, "")
    again = read_config(tmp_path)
    assert (again.task, again.agent) == (config.task, config.agent)
    assert again.spelled() == config.spelled()
    for one, other in zip(
        jax.tree.leaves(again.teacher),
        jax.tree.leaves(config.teacher.bound_to(config.task)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["steps_per_iteration"] is None
    assert content["rollouts_per_iteration"] == {"cma-es": 12}.get(
        agent, config.rollouts_per_iteration
    )


@pytest.mark.slow
def test_environment_steps_are_counted_from_the_first_buffer_on(tmp_path):
    folder = spjax.train(
        small("gate-precision", "sprl", "self-paced-joint"),
        tmp_path / "run",
        progress=False,
    )
    metrics = pq.read_table(folder / "metrics").to_pydict()
    rows = [
        s
        for s, seed in zip(metrics["environment_steps"], metrics["seed"], strict=True)
        if seed == 1
    ]
    first, *later = rows
    assert (
        2 * 20 < first <= 3 * 20 * 100
    )  # two batches in the buffer, one of the iteration
    assert all(
        0 < after - before <= 20 * 100
        for before, after in zip(rows, later, strict=False)
    )
    assert {
        "teacher.alpha",
        "teacher.kl_to_target",
        "teacher.context_mean",
        "agent.eta",
    } <= metrics.keys()
    assert "episode_return" not in metrics


@pytest.mark.slow
def test_a_rollout_is_played_with_the_path_that_its_reward_came_from(key):
    config = small("gate-precision", "sprl", "self-paced-joint")
    experiment = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), config.experiments())
    key_init, key_contexts, key_play = jax.random.split(key, 3)
    state = experiment.init(key_init)
    contexts = experiment.target_contexts(key_contexts, 64)
    outcome, path = experiment.play(state, key_play, contexts)
    ends = path[outcome.length, jnp.arange(64)]
    distance = jnp.linalg.norm(ends, axis=1)
    np.testing.assert_array_equal(outcome.success, distance < 0.05)
    bonus = 10 * jnp.exp(-jnp.minimum(distance, 300.0))
    assert (outcome.discounted_return <= 100 + bonus + 1e-4).all()  # actions cost
    assert outcome.episode_return is None
    assert path.shape == (101, 64, 2)


@pytest.mark.slow
def test_a_target_of_the_users_own_moves_contexts_and_evaluation(tmp_path):
    config = small("gate-precision", "sprl", "self-paced-joint")
    target = Gaussian.from_std((3.0, 0.3), (0.1, 0.01))
    config = dataclasses.replace(
        config, teacher=dataclasses.replace(config.teacher, target=target)
    )
    program = Program.of(config.experiments())
    state = program.init([1, 2])
    np.testing.assert_allclose(
        program.to_host(program.experiments).teacher.aims_at.mean[0], [3.0, 0.3]
    )

    def contexts(experiment, state):
        return experiment.target_contexts(jax.random.fold_in(state.key, 9), 100)

    drawn = program.to_host(program.on_lanes(contexts, state))
    np.testing.assert_allclose(drawn.mean(axis=1), [[3.0, 0.3]] * 2, atol=0.05)
    assert leaves(spjax.train(config, tmp_path / "run", progress=False))


@pytest.mark.parametrize(
    ("rollouts", "message"),
    [
        (2, "at least 3 rollouts an iteration, got 2"),
        (
            200,
            "label_capacity must be at least 640 for the labels of 10 iterations with 200 rollouts, got 512",
        ),
    ],
)
def test_a_batch_that_a_teacher_cannot_make_is_refused_before_anything_compiles(
    rollouts, message
):
    config = preset("gate-precision", "c-reps", "goal-gan-episodic")
    config = dataclasses.replace(
        config, agent=dataclasses.replace(config.agent, num_samples=rollouts)
    )
    with pytest.raises(ValueError, match=message):
        config.check()


def test_a_swept_setting_is_each_lanes_own():
    config = small(
        "gate-precision",
        "sprl",
        "self-paced-joint",
        over={"teacher.schedule.zeta": (0.01, 0.04)},
    )
    config.check()
    assert np.asarray(
        config.experiments().teacher.schedule.zeta
    ).tolist() == pytest.approx([0.01, 0.01, 0.04, 0.04])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hold_position": True},
            "hold_position is for agents that act step by step, got it with 'sprl'",
        ),
        ({"over": {"agent.num_samples": (10, 20)}}, "it shapes the compiled program"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_compiles(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(
            small("gate-precision", "sprl", "self-paced-joint"), **changes
        ).check()
