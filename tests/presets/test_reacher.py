"""The reacher experiments' published and printed settings."""

import pytest

from spjax.agents.episodic import CMAES, CREPS, SPRL, RadialBasis
from spjax.agents.step_based import PPO
from spjax.presets import preset
from spjax.self_paced.schedules import Proportion
from spjax.teachers import SAGGRIAC, EpisodicGoalGAN, SelfPacedJoint
from tests.presets.resolved import moments, resolved


@pytest.mark.parametrize(
    ("variant", "offset", "max_alpha", "alpha_from", "std_floor"),
    [
        ("published", 91, 5.0, "buffer", 3e-5**0.5),
        ("article", 90, 1e6, "batch", 0.005),
    ],
)
def test_sprl_has_the_settings_of_the_released_code_or_of_the_text(
    variant, offset, max_alpha, alpha_from, std_floor
):
    config = resolved("reacher", "sprl", variant=variant)
    learner, teacher = config.agent, config.teacher
    assert isinstance(learner, SPRL)
    assert isinstance(teacher, SelfPacedJoint)
    assert (learner.max_kl, learner.fit_max_kl) == (0.5, None)
    assert (learner.num_samples, learner.buffer_size) == (50, 10)
    assert (learner.ridge, learner.ridge_unit) == (1e-5, "reward")
    assert learner.value_features == RadialBasis(
        (0.01, 0.01), (0.09, 0.09), (8, 8), (800.0, 800.0)
    )
    assert teacher.schedule == Proportion(
        zeta=0.15, offset=offset, max_alpha=max_alpha, negative_return="absolute"
    )
    assert (teacher.alpha_from, teacher.floor_kl) == (alpha_from, 20.0)
    assert teacher.std_floor == pytest.approx(std_floor)
    assert (config.num_iterations, config.evaluation_episodes) == (400, 50)
    assert config.task.parameter_size == 40
    for found, mean, std in (
        (teacher.target, (0.08, 0.08), (3e-6**0.5,) * 2),
        (teacher.initial, (0.05, 0.05), (0.04, 0.04)),
    ):
        assert moments(found)[0] == mean
        assert moments(found)[1] == pytest.approx(std)
        assert found.outside == "redraw"


@pytest.mark.parametrize(
    ("variant", "max_goals", "max_history"),
    [("published", 300, 80), ("article", 80, 300)],
)
def test_the_teachers_of_creps_have_the_settings_of_the_released_code_or_of_the_text(
    variant, max_goals, max_history
):
    gan = resolved("reacher", "c-reps", "goal-gan-episodic", variant=variant)
    riac = resolved("reacher", "c-reps", "sagg-riac", variant=variant)
    assert isinstance(gan.teacher, EpisodicGoalGAN)
    assert isinstance(riac.teacher, SAGGRIAC)
    assert (gan.teacher.noise, gan.teacher.train_every) == (0.1, 5)
    assert gan.teacher.pretrain_iterations == 2000
    assert (riac.teacher.max_goals, riac.teacher.max_history) == (
        max_goals,
        max_history,
    )
    assert gan.agent.mean_features_of == riac.agent.mean_features_of == "buffer"


def test_creps_alone_stays_at_the_target():
    config = resolved("reacher", "c-reps")
    assert isinstance(config.agent, CREPS)
    assert config.agent.mean_features_of == "target"
    assert config.agent.max_kl == 0.5


def test_cma_es_has_as_many_rollouts_as_the_others_in_generations_of_fifteen():
    config = resolved("reacher", "cma-es")
    assert isinstance(config.agent, CMAES)
    assert config.agent.num_rollouts(config.task) == 15
    assert 409 * 50 - 15 < config.num_iterations * 15 <= 409 * 50


def test_ppo_has_as_many_control_steps_as_the_others_in_one_context():
    config = resolved("reacher-step")
    learner = config.agent
    assert isinstance(learner, PPO)
    assert (learner.num_envs, learner.num_steps) == (8, 450)
    assert (learner.num_minibatches, learner.num_epochs) == (5, 15)
    assert (learner.discount, learner.gae_lambda) == (0.999, 1.0)
    assert (learner.entropy_coefficient, learner.value_coefficient) == (1e-3, 0.5)
    assert (learner.learning_rate, learner.clip_range) == (2.5e-4, 0.2)
    assert (learner.clip_value, learner.normalize_observations) == (0.2, True)
    assert learner.normalize_rewards
    assert (learner.max_grad_norm, learner.hidden) == (0.5, (164, 164))
    assert not learner.bootstrap_time_limit
    assert config.num_iterations == 852
    same = preset("reacher-step", "ppo", "target-mean")
    assert same.identity == preset("reacher-step").identity
    assert config.task.distance == "space"
    assert resolved("reacher-step", variant="article").task.distance == "plane"


@pytest.mark.parametrize("variant", ["published", "article"])
@pytest.mark.parametrize(
    "names",
    [
        ("reacher", "sprl", "self-paced-joint"),
        ("reacher", "c-reps", "default"),
        ("reacher", "c-reps", "goal-gan-episodic"),
        ("reacher", "c-reps", "sagg-riac"),
        ("reacher", "cma-es", "target-mean"),
        ("reacher-step", "ppo", "target-mean"),
    ],
)
def test_every_experiment_passes_its_own_checks(names, variant):
    preset(*names, variant=variant).check()
