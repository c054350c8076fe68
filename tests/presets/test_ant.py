"""The ant's printed constants, what its completion changes, and the variant for accelerators."""

import math

import pytest

from spjax.presets import preset
from spjax.self_paced.schedules import Bound, Proportion
from tests.presets.resolved import moments, resolved


def test_printed_constants_of_the_experiment():
    config = resolved("ant")
    agent, teacher = config.agent, config.teacher
    assert (agent.num_envs, agent.steps_per_iteration) == (40, 81920)
    assert (agent.hidden, agent.discount, agent.gae_lambda) == ((64, 64), 0.995, 0.95)
    assert (agent.entropy_coefficient, agent.clip_value) == (0.0, None)
    assert config.task.horizon == 750
    assert moments(teacher.initial) == ((0.0, 8.0), (3.2, 1.6))
    assert moments(teacher.target) == ((-8.0, 3.0), (0.01, 0.005))
    assert (teacher.warmup, teacher.std_floor, teacher.floor_kl) == (10, (1, 0.5), 11e3)
    assert (config.num_iterations, config.evaluation_episodes) == (400, 50)


@pytest.mark.parametrize("agent", ["ppo", "trpo", "sac"])
def test_contexts_are_valued_by_sample_returns_under_both_schedules(agent):
    proportion = resolved("ant", agent, "self-paced", "proportion").teacher
    bound = resolved("ant", agent, "self-paced", "bound").teacher
    closed_form = resolved("ant", agent, "spgl").teacher
    assert proportion.schedule == Proportion(zeta=1.6, offset=14)
    article = resolved("ant", agent, variant="article").teacher
    assert article.schedule == Proportion(zeta=1.6, offset=15)
    assert bound.schedule == Bound(600.0)
    assert closed_form.performance_bound == 600.0
    for teacher in (proportion, bound, closed_form):
        assert teacher.value_source == "return"
        assert (teacher.max_kl, teacher.buffer_size) == (0.05, 1000)


def test_printed_constants_of_the_other_curricula():
    alp_gmm = resolved("ant", teacher="alp-gmm").teacher
    goal_gan = resolved("ant", teacher="goal-gan").teacher
    assert (alp_gmm.random_fraction, alp_gmm.num_rollouts, alp_gmm.buffer_size) == (
        0.1,
        50,
        500,
    )
    assert (goal_gan.noise, goal_gan.num_rollouts, goal_gan.success_fraction) == (
        0.05,
        125,
        0.2,
    )


@pytest.mark.parametrize(
    ("read", "published", "article"),
    [
        (lambda c: (c.agent.num_minibatches, c.agent.num_epochs), (16, 6), (4, 4)),
        (lambda c: c.agent.learning_rate, 3e-4, 2.5e-4),
        (lambda c: c.agent.value_coefficient, 1.0, 0.5),
        (lambda c: c.agent.max_grad_norm, math.inf, 0.5),
        (lambda c: c.agent.bootstrap_time_limit, True, False),
        (lambda c: c.agent.normalize_rewards, True, False),
        (lambda c: c.task.armature, 0.03, 0.0),
        (lambda c: c.task.scaled_observation, True, False),
        (lambda c: c.teacher.kl_direction, "old-new", "new-old"),
    ],
)
def test_each_difference_between_the_printed_text_and_its_completion(
    read, published, article
):
    assert read(resolved("ant")) == published
    assert read(resolved("ant", variant="article")) == article


@pytest.mark.parametrize("agent", ["ppo", "trpo"])
def test_fast_has_thousands_of_slots_and_a_whole_episode_an_iteration(agent):
    config, published = resolved("ant", agent, variant="fast"), resolved("ant", agent)
    assert config.agent.num_envs == config.teacher.buffer_size == 2048
    assert config.agent.num_steps == config.task.horizon
    assert config.num_iterations == 200
    assert config.reference is None  # what is in print is not of this
    assert config.task == published.task
    assert config.teacher.schedule == published.teacher.schedule


def test_fast_is_a_variant_of_the_ant_alone():
    assert preset("ant", "sac", variant="fast").agent == preset("ant", "sac").agent
    with pytest.raises(
        ValueError, match=r"^unknown variant 'fast'; known: published, article$"
    ):
        preset("point-mass-3d", variant="fast")
