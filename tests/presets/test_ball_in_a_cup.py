"""The ball-in-a-cup experiment's published and printed settings."""

import pytest

from spjax.agents.episodic import CMAES, CREPS, SPRL, RadialBasis
from spjax.self_paced.schedules import Proportion
from spjax.teachers import SAGGRIAC, EpisodicGoalGAN, SelfPacedJoint
from tests.presets.resolved import moments, resolved

NAME = "ball-in-a-cup"


def test_the_published_settings_are_those_of_the_released_code():
    config = resolved(NAME, "sprl")
    learner, teacher = config.agent, config.teacher
    assert isinstance(learner, SPRL)
    assert isinstance(teacher, SelfPacedJoint)
    assert (learner.max_kl, learner.fit_max_kl) == (0.35, None)
    assert (learner.num_samples, learner.buffer_size) == (16, 5)
    assert (learner.ridge, learner.ridge_unit) == (1e-5, "reward")
    assert learner.value_features == RadialBasis((0.9,), (2.5,), (20,), (26.0,))
    assert teacher.schedule == Proportion(
        zeta=3.0, offset=16, max_alpha=10.0, negative_return="absolute"
    )
    assert (teacher.alpha_from, teacher.std_floor, teacher.floor_kl) == (
        "buffer",
        0.1,
        200.0,
    )
    assert config.num_iterations == 250
    for found, expected in (
        (teacher.initial, (2.0, 0.5)),
        (teacher.target, (1.0, 0.01)),
    ):
        (mean,), (std,) = moments(found)
        assert (mean, std) == pytest.approx(expected)
        assert found.outside == "redraw"
    assert (config.task.string, config.task.catch) == ("tendon", "distance")


def test_the_article_has_k_alpha_iterations_without_target_no_cap_and_new_rollouts():
    teacher = resolved(NAME, "sprl", variant="article").teacher
    assert isinstance(teacher, SelfPacedJoint)
    assert (teacher.schedule.offset, teacher.schedule.max_alpha) == (15, 1e6)
    assert teacher.alpha_from == "batch"


def test_the_baselines_have_their_published_settings():
    default = resolved(NAME, "c-reps").agent
    assert isinstance(default, CREPS)
    assert (default.buffer_size, default.mean_features_of) == (5, "target")
    goal_gan = resolved(NAME, "c-reps", "goal-gan-episodic")
    assert (goal_gan.agent.buffer_size, goal_gan.agent.mean_features_of) == (
        10,
        "buffer",
    )
    assert isinstance(goal_gan.teacher, EpisodicGoalGAN)
    assert (goal_gan.teacher.noise, goal_gan.teacher.train_every) == (0.05, 3)
    for variant, expected in (("published", (120, 50)), ("article", (50, 120))):
        riac = resolved(NAME, "c-reps", "sagg-riac", variant=variant).teacher
        assert isinstance(riac, SAGGRIAC)
        assert (riac.max_goals, riac.max_history) == expected


def test_cma_es_has_as_many_rollouts_as_the_others_and_the_largest_std():
    config = resolved(NAME, "cma-es")
    assert isinstance(config.agent, CMAES)
    assert config.agent.num_rollouts(config.task) == 12
    rollouts = config.num_iterations * 12
    assert 0 <= (250 + 4) * 16 - rollouts < 12
    assert max(config.task.parameter_std) == pytest.approx(2**0.5)
