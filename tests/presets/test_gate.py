"""The gate experiments' published and printed settings."""

import pytest

from spjax.agents.episodic import CMAES, CREPS, SPRL
from spjax.presets import preset
from spjax.teachers import SAGGRIAC, EpisodicGoalGAN


def test_the_published_settings_are_those_of_the_released_code():
    config = preset("gate-precision", "sprl")
    learner = config.agent
    assert isinstance(learner, SPRL)
    assert (learner.max_kl, learner.fit_max_kl, learner.kl_proportion, learner.offset) == (0.4, None, 0.02, 140)
    assert (learner.max_alpha, learner.alpha_from, learner.num_samples, learner.buffer_size) == (2.5, "buffer", 100, 10)
    assert (learner.std_floor, config.num_iterations, config.evaluation_episodes) == ((), 350, 100)
    assert config.env.parameter_size == 16
    config = preset("gate-global", "sprl")
    assert (config.agent.max_kl, config.agent.kl_proportion, config.agent.max_alpha) == (0.25, 0.002, 1e6)
    assert config.agent.value_features.upper == (5.0, 1.0)
    assert (config.env.name, config.num_iterations) == ("gate-global", 600)


def test_the_article_has_fourteen_parameters_k_alpha_iterations_without_target_and_no_cap():
    config = preset("gate-precision", "sprl", variant="article")
    assert config.env.parameter_size == 14
    assert (config.agent.offset, config.agent.max_alpha, config.agent.alpha_from) == (139, 1e6, "batch")


@pytest.mark.parametrize(
    ("env", "variant", "train_every", "max_goals", "max_history"),
    [
        ("gate-precision", "published", 3, 200, 100),
        ("gate-global", "published", 5, 500, 100),
        ("gate-precision", "article", 5, 100, 200),
        ("gate-global", "article", 5, 100, 500),
    ],
)
def test_the_teachers_of_creps_have_the_settings_of_the_released_code_or_of_the_text(
    env, variant, train_every, max_goals, max_history
):
    gan = preset(env, "creps", "goal-gan", variant=variant)
    assert isinstance(gan.teacher, EpisodicGoalGAN)
    assert (gan.teacher.noise, gan.teacher.train_every) == (0.05, train_every)
    riac = preset(env, "creps", "sagg-riac", variant=variant)
    assert isinstance(riac.teacher, SAGGRIAC)
    assert (riac.teacher.max_goals, riac.teacher.max_history) == (max_goals, max_history)
    assert gan.agent.mean_features_of == riac.agent.mean_features_of == "buffer"


def test_cma_es_has_as_many_rollouts_as_the_others_in_generations_of_twelve():
    config = preset("gate-precision", "cma-es")
    assert isinstance(config.agent, CMAES)
    assert config.agent.num_rollouts(config.env) == 12
    assert 35_900 - 12 < config.num_iterations * 12 <= 35_900


def test_creps_alone_stays_at_the_target():
    config = preset("gate-global", "creps")
    assert isinstance(config.agent, CREPS)
    assert (config.teacher_name, config.agent.mean_features_of) == ("default", "target")


@pytest.mark.parametrize("env", ["gate-global", "gate-precision"])
@pytest.mark.parametrize(
    ("agent", "teacher"),
    [
        ("sprl", "self-paced"),
        ("creps", "default"),
        ("creps", "goal-gan"),
        ("creps", "sagg-riac"),
        ("cma-es", "default"),
    ],
)
def test_every_experiment_passes_its_own_checks(env, agent, teacher):
    preset(env, agent, teacher).check()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("gate-global", "ppo"), "agent of gate-global must be sprl or creps or cma-es, got 'ppo'"),
        (("point-mass-2d", "creps"), "agent of point-mass-2d must be ppo or trpo or sac or sprl, got 'creps'"),
        (("gate-global", "sprl", "goal-gan"), "teacher of sprl must be self-paced, got 'goal-gan'"),
        (("gate-global", "cma-es", "sagg-riac"), "teacher of cma-es must be default, got 'sagg-riac'"),
        (("gate-global", "sprl", None, "bound"), "only the self-paced teacher of ppo, trpo, sac has a schedule"),
    ],
)
def test_names_that_do_not_go_together_are_refused_in_words(names, message):
    with pytest.raises(ValueError, match=message):
        preset(*names)
