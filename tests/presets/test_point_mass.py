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
