"""The published constants, and each point where the printed article differs."""

import math

import pytest

import spjax


def test_published_constants_of_the_point_mass():
    config = spjax.preset("point-mass-3d", "ppo", "self-paced", "proportion")
    agent, teacher, env = config.agent, config.teacher, config.env
    assert (agent.num_envs, agent.num_steps) == (4, 512)  # 2048 steps an iteration
    assert (agent.num_minibatches, agent.num_epochs, agent.hidden) == (32, 8, (64, 64))
    assert (agent.learning_rate, agent.discount, agent.gae_lambda, agent.clip_range) == (2.5e-4, 0.95, 0.99, 0.2)
    assert (agent.value_coefficient, agent.entropy_coefficient, agent.max_grad_norm) == (1.0, 0.0, math.inf)
    assert agent.bootstrap_time_limit is False
    assert (teacher.warmup, teacher.offset, teacher.kl_proportion, teacher.performance_bound) == (5, 10, 1.6, 3.5)
    assert (teacher.max_kl, teacher.std_floor, teacher.floor_kl) == (0.05, (0.2, 0.1875, 0.1), 8000.0)
    assert (teacher.kl_direction, teacher.value_source) == ("old-new", "critic")
    assert (env.force_gain, env.noise_std) == (1.5, 0.05)
    assert (config.num_iterations, config.evaluate_every, config.evaluation_episodes) == (400, 5, 50)
    assert teacher.initial_mean == (0.0, 4.25, 2.0)
    assert teacher.initial_std == (2.0, 1.875, 1.0)
    assert config.target == ((2.5, 0.5, 0.0), (0.004, 0.00375, 0.002))


@pytest.mark.parametrize(
    ("read", "published", "article"),
    [
        (lambda c: c.teacher.kl_direction, "old-new", "new-old"),
        (lambda c: c.teacher.offset, 10, 11),
        (lambda c: c.env.force_gain, 1.5, 1.0),
        (lambda c: c.env.noise_std, 0.05, 0.0),
        (lambda c: c.agent.value_coefficient, 1.0, 0.5),
        (lambda c: c.agent.max_grad_norm, math.inf, 0.5),
    ],
)
def test_each_difference_between_article_and_published_results(read, published, article):
    assert read(spjax.preset("point-mass-3d")) == published
    assert read(spjax.preset("point-mass-3d", variant="article")) == article


def test_the_two_dimensional_task_drops_the_friction():
    config = spjax.preset("point-mass-2d", schedule="bound")
    assert config.teacher.std_floor == (0.2, 0.1875)
    assert config.target == ((2.5, 0.5), (0.004, 0.00375))
    assert config.env.observation_size == 6


def test_default_and_random_presets():
    assert spjax.preset("point-mass-3d", teacher="default").teacher.target_mean == (2.5, 0.5, 0.0)
    assert spjax.preset("point-mass-3d", teacher="random").target[0] == (2.5, 0.5, 0.0)


def test_published_constants_of_trpo():
    config = spjax.preset("point-mass-3d", "trpo")
    agent, teacher = config.agent, config.teacher
    assert agent.steps_per_iteration == 2048
    assert (agent.discount, agent.gae_lambda, agent.hidden, agent.bootstrap_time_limit) == (0.95, 0.99, (64, 64), False)
    assert (agent.max_kl, agent.kl_tolerance, agent.line_search_steps) == (0.01, 1.5, 10)
    assert (agent.cg_iterations, agent.cg_damping, agent.fisher_stride) == (10, 0.01, 5)
    assert (agent.value_learning_rate, agent.value_epochs, agent.value_batch) == (3e-4, 3, 128)
    assert (teacher.offset, teacher.kl_proportion, teacher.value_source) == (20, 1.6, "critic")


def test_published_constants_of_sac():
    config = spjax.preset("point-mass-3d", "sac")
    agent, teacher = config.agent, config.teacher
    assert (agent.num_envs, agent.updates_per_step, agent.steps_per_iteration) == (5, 1, 2050)  # one update in 5 steps
    assert (agent.replay_size, agent.learning_starts, agent.batch_size) == (10_000, 500, 64)
    assert (agent.learning_rate, agent.target_rate, agent.initial_temperature) == (3e-4, 0.005, 1.0)
    assert (agent.critic, agent.target_entropy, agent.hidden) == ("state-value", None, (64, 64))
    assert (agent.discount, agent.bootstrap_time_limit) == (0.95, False)
    assert (teacher.offset, teacher.kl_proportion, teacher.value_source) == (25, 1.1, "critic")
    assert spjax.preset("point-mass-3d", "sac", schedule="bound").teacher.value_source == "return"


@pytest.mark.parametrize(
    ("variant", "alp_gmm", "goal_gan"),
    [("published", (0.2, 50, 500), (0.1, 50, 0.2)), ("article", (0.1, 100, 1000), (0.05, 200, 0.2))],
)
def test_the_printed_settings_of_the_other_curricula_belong_to_the_article(variant, alp_gmm, goal_gan):
    alp = spjax.preset("point-mass-3d", "trpo", "alp-gmm", variant=variant).teacher
    gan = spjax.preset("point-mass-3d", "trpo", "goal-gan", variant=variant).teacher
    assert (alp.random_fraction, alp.num_rollouts, alp.buffer_size) == alp_gmm
    assert (gan.noise, gan.num_rollouts, gan.success_fraction) == goal_gan
