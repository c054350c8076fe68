"""The published constants of ball catching, and each point where the printed article differs."""

import math

import numpy as np
import pytest

import spjax
from spjax.presets import starts_of


@pytest.mark.parametrize(
    ("agent", "start", "offset", "proportion", "bound"),
    [
        ("trpo", "target", 70, 0.4, 42.5),
        ("ppo", "target", 50, 0.45, 42.5),
        ("sac", "target", 60, 0.6, 25.0),
        ("trpo", "initial", 0, 0.425, 42.5),
        ("ppo", "initial", 0, 0.45, 42.5),
        ("sac", "initial", 0, 0.6, 25.0),
    ],
)
def test_published_constants_of_the_curriculum(agent, start, offset, proportion, bound):
    config = spjax.preset("ball-catching", agent, start=start)
    teacher = config.teacher
    assert (teacher.offset, teacher.kl_proportion, teacher.performance_bound) == (offset, proportion, bound)
    assert (teacher.warmup, teacher.max_kl, teacher.std_floor) == (5, 0.05, None)
    assert (teacher.buffer_size, teacher.sliding_window) == (100, True)
    first = (config.env.initial_mean, config.env.initial_std) if start == "initial" else config.target
    assert (teacher.initial_mean, teacher.initial_std) == first
    assert config.start == start


def test_published_constants_of_the_learners():
    ppo, trpo, sac = (spjax.preset("ball-catching", agent).agent for agent in ("ppo", "trpo", "sac"))
    for agent in (ppo, trpo, sac):
        assert (agent.hidden, agent.discount, agent.steps_per_iteration) == ((64, 64, 64), 0.995, 5000)
        assert agent.bootstrap_time_limit is False
    assert (ppo.num_minibatches, ppo.num_epochs, ppo.gae_lambda, ppo.learning_rate) == (25, 10, 0.95, 2.5e-4)
    assert (ppo.value_coefficient, ppo.max_grad_norm) == (1.0, math.inf)
    assert (trpo.gae_lambda, trpo.max_kl) == (0.95, 0.01)
    assert (sac.batch_size, sac.replay_size, sac.learning_starts) == (512, 100_000, 1000)
    assert sac.num_steps * sac.updates_per_step == 5000  # a gradient step for each environment step
    assert spjax.preset("ball-catching", "sac", "self-paced", "bound").teacher.value_source == "return"
    assert spjax.preset("ball-catching", "sac", "self-paced", "proportion").teacher.value_source == "critic"


def test_the_experiment_is_500_iterations_with_200_throws_an_evaluation_from_a_cloned_policy():
    config = spjax.preset("ball-catching")
    assert (config.num_iterations, config.evaluate_every, config.evaluation_episodes) == (500, 5, 200)
    assert config.hold_position
    np.testing.assert_allclose(config.target[1], np.sqrt([0.2 * np.pi, 0.15, 1.0]))


def test_published_constants_of_the_other_curricula():
    settings = [spjax.preset("ball-catching", agent, "alp-gmm").teacher for agent in ("trpo", "ppo", "sac")]
    assert [(t.random_fraction, t.num_rollouts, t.buffer_size) for t in settings] == [
        (0.2, 200, 2000),
        (0.3, 200, 2000),
        (0.3, 200, 1000),
    ]
    untaught = spjax.preset("ball-catching", "trpo", "goal-gan").teacher
    assert (untaught.noise, untaught.num_rollouts, untaught.success_fraction) == (0.1, 200, 0.3)
    assert untaught.initial_mean is None
    assert spjax.preset("ball-catching", "trpo", "goal-gan", start="initial").teacher.initial_mean == (0.68, 0.9, 0.85)


@pytest.mark.parametrize(
    ("read", "published", "article"),
    [
        (lambda c: c.env.normal, "third-row", "axis"),
        (lambda c: c.env.unit_velocity, True, False),
        (lambda c: c.target[1], tuple(np.sqrt([0.2 * np.pi, 0.15, 1.0])), (0.8, 0.38, 1.0)),
        (lambda c: c.teacher.initial_std, tuple(np.sqrt([1e-3, 1e-3, 0.1])), (0.03, 0.03, 0.3)),
        (lambda c: c.teacher.kl_direction, "old-new", "new-old"),
        (lambda c: c.teacher.offset, 0, 1),
        (lambda c: c.agent.value_coefficient, 1.0, 0.5),
        (lambda c: c.agent.max_grad_norm, math.inf, 0.5),
    ],
)
def test_each_difference_between_article_and_published_results(read, published, article):
    assert read(spjax.preset("ball-catching", start="initial")) == published
    assert read(spjax.preset("ball-catching", variant="article", start="initial")) == article


def test_a_start_that_was_not_published_is_one_sentence():
    assert starts_of("ball-catching") == ("target", "initial")
    assert starts_of("point-mass-3d") == ("initial",)
    with pytest.raises(ValueError, match=r"^start of point-mass-3d must be initial, got 'target'$"):
        spjax.preset("point-mass-3d", start="target")
    with pytest.raises(ValueError, match=r"^start of ball-catching must be target or initial, got 'goal'$"):
        spjax.preset("ball-catching", start="goal")
