"""The gate experiments' published and printed settings."""

import dataclasses

import pytest

from spjax.agents.episodic import CMAES, CREPS, SPRL, RadialBasis
from spjax.presets import preset
from spjax.self_paced.schedules import Bound, Proportion
from spjax.teachers import SAGGRIAC, EpisodicGoalGAN, SelfPacedJoint
from tests.presets.resolved import moments, resolved


@pytest.mark.parametrize(
    ("task", "max_kl", "zeta", "max_alpha", "widest", "num_iterations", "target"),
    [
        (
            "gate-precision",
            0.4,
            0.02,
            2.5,
            0.5,
            350,
            ((-4.0, 0.2), (0.1**0.5, 0.001**0.5)),
        ),
        (
            "gate-global",
            0.25,
            0.002,
            1e6,
            1.0,
            600,
            ((0.0, 0.25), (7.0**0.5, 0.003**0.5)),
        ),
    ],
)
def test_the_published_settings_are_those_of_the_released_code(
    task, max_kl, zeta, max_alpha, widest, num_iterations, target
):
    config = resolved(task, "sprl")
    learner, teacher = config.agent, config.teacher
    assert isinstance(learner, SPRL)
    assert isinstance(teacher, SelfPacedJoint)
    assert (
        learner.max_kl,
        learner.fit_max_kl,
        learner.num_samples,
        learner.buffer_size,
    ) == (max_kl, None, 100, 10)
    assert (learner.ridge, learner.ridge_unit) == (1e-5, "reward")
    assert learner.value_features == RadialBasis(
        (-5.0, 0.1), (5.0, widest), (10, 5), (0.6, 150.0)
    )
    assert teacher.schedule == Proportion(
        zeta=zeta, offset=141, max_alpha=max_alpha, negative_return="absolute"
    )
    assert (teacher.alpha_from, teacher.std_floor, teacher.start) == (
        "buffer",
        None,
        "initial",
    )
    assert (
        config.num_iterations,
        config.evaluate_every,
        config.evaluation_episodes,
    ) == (num_iterations, 10, 100)
    assert (config.task.name, config.task.parameter_size) == (task, 16)
    for found, expected in (
        (teacher.target, target),
        (teacher.initial, ((0.0, 0.25), (7.0**0.5, 0.003**0.5))),
    ):
        mean, std = moments(found)
        assert mean == expected[0]
        assert std == pytest.approx(expected[1])
        assert found.outside == "redraw"


def test_the_article_has_fourteen_parameters_k_alpha_iterations_without_target_and_no_cap():
    config = resolved("gate-precision", "sprl", variant="article")
    assert config.task.parameter_size == 14
    assert (config.teacher.schedule.offset, config.teacher.schedule.max_alpha) == (
        140,
        1e6,
    )
    assert config.teacher.alpha_from == "batch"


@pytest.mark.parametrize(
    ("task", "variant", "train_every", "max_goals", "max_history"),
    [
        ("gate-precision", "published", 3, 200, 100),
        ("gate-global", "published", 5, 500, 100),
        ("gate-precision", "article", 5, 100, 200),
        ("gate-global", "article", 5, 100, 500),
    ],
)
def test_the_teachers_of_creps_have_the_settings_of_the_released_code_or_of_the_text(
    task, variant, train_every, max_goals, max_history
):
    gan = resolved(task, "c-reps", "goal-gan-episodic", variant=variant)
    assert isinstance(gan.teacher, EpisodicGoalGAN)
    assert (gan.teacher.noise, gan.teacher.train_every) == (0.05, train_every)
    assert (gan.teacher.label_capacity, gan.teacher.pretrain_iterations) == (512, 1000)
    riac = resolved(task, "c-reps", "sagg-riac", variant=variant)
    assert isinstance(riac.teacher, SAGGRIAC)
    assert (riac.teacher.max_goals, riac.teacher.max_history) == (
        max_goals,
        max_history,
    )
    assert gan.agent.mean_features_of == riac.agent.mean_features_of == "buffer"


def test_cma_es_has_as_many_rollouts_as_the_others_in_generations_of_twelve():
    config = resolved("gate-precision", "cma-es")
    assert isinstance(config.agent, CMAES)
    assert config.agent.num_rollouts(config.task) == 12
    assert 35_900 - 12 < config.num_iterations * 12 <= 35_900


def test_creps_alone_stays_at_the_target():
    config = preset("gate-global", "c-reps")
    assert isinstance(config.agent, CREPS)
    assert (config.preset.start, config.agent.mean_features_of) == (None, "target")
    assert config == preset("gate-global", "c-reps", "default")


@pytest.mark.parametrize("task", ["gate-global", "gate-precision"])
@pytest.mark.parametrize(
    ("agent", "teacher"),
    [
        ("sprl", "self-paced-joint"),
        ("c-reps", "default"),
        ("c-reps", "goal-gan-episodic"),
        ("c-reps", "sagg-riac"),
        ("cma-es", "target-mean"),
    ],
)
def test_every_experiment_passes_its_own_checks(task, agent, teacher):
    preset(task, agent, teacher).check()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("gate-global", "ppo"), "the agent 'ppo' acts step by step, the task 'gate-global' is played in whole rollouts"),
        (("gate-global", "sprl", "goal-gan"), "the teacher 'goal-gan' is for agents that act step by step, got 'sprl'"),
        (
            ("gate-global", "sprl", "default"),
            "the agent 'sprl' needs a teacher whose contexts are fitted together with the policy, "
            "such as self-paced-joint, got 'default'",
        ),
        (
            ("gate-global", "c-reps", "self-paced-joint"),
            "the teacher 'self-paced-joint' needs an agent that fits the contexts together with its policy, "
            "such as sprl, got 'c-reps'",
        ),
        (("gate-global", "c-reps", "default", "bound"), "the teacher 'default' has no schedule, got 'bound'"),
        (("gate-global", "c-rep"), "unknown agent 'c-rep'; did you mean 'c-reps'?"),
    ],
)  # fmt: skip
def test_names_that_do_not_go_together_are_refused_in_words(names, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        preset(*names).check()
    assert str(error.value) == message


@pytest.mark.parametrize("task", ["gate-global", "point-mass-2d"])
def test_to_name_the_schedule_that_was_published_changes_nothing(task):
    assert (
        preset(task, "sprl", schedule="proportion").identity
        == preset(task, "sprl").identity
    )


@pytest.mark.parametrize("task", ["gate-global", "point-mass-2d"])
def test_a_schedule_without_alpha_is_refused_for_the_joint_fit(task):
    config = preset(task, "sprl", schedule="bound")
    assert config.teacher.schedule == Bound()
    message = r"^teacher.schedule must be one that gives alpha, such as proportion, got Bound\(performance_bound=3.5\)$"
    with pytest.raises(ValueError, match=message):
        config.check()
    dataclasses.replace(
        config, teacher=config.teacher.replace(schedule=Proportion())
    ).check()
