"""The published constants, and each point where the printed article differs."""

import math

import pytest

from spjax.presets.point_mass import ALP_GMM, GOAL_GAN
from spjax.self_paced.schedules import Bound, Proportion
from tests.presets.resolved import moments, resolved

TARGET = ((2.5, 0.5, 0.0), (0.004, 0.00375, 0.002))
AGENTS = ("ppo", "trpo", "sac")


def test_published_constants_of_the_point_mass():
    config = resolved("point-mass-3d", "ppo", "self-paced", "proportion")
    agent, teacher, task = config.agent, config.teacher, config.task
    assert (agent.num_envs, agent.num_steps) == (4, 512)  # 2048 steps an iteration
    assert (agent.num_minibatches, agent.num_epochs, agent.hidden) == (32, 8, (64, 64))
    assert (
        agent.learning_rate,
        agent.discount,
        agent.gae_lambda,
        agent.clip_range,
    ) == (2.5e-4, 0.95, 0.99, 0.2)
    assert (
        agent.value_coefficient,
        agent.entropy_coefficient,
        agent.max_grad_norm,
    ) == (1.0, 0.0, math.inf)
    assert agent.bootstrap_time_limit is False
    assert teacher.schedule == Proportion(
        zeta=1.6, offset=9, max_alpha=1e5, negative_return="zero"
    )
    assert (teacher.warmup, teacher.max_kl, teacher.std_floor) == (
        5,
        0.05,
        (0.2, 0.1875, 0.1),
    )
    assert (teacher.floor_kl, teacher.start) == (8000.0, "initial")
    assert (teacher.kl_direction, teacher.value_source) == ("old-new", "critic")
    assert (teacher.buffer_size, teacher.sliding_window) == (1000, False)
    assert (task.force_gain, task.noise_std) == (1.5, 0.05)
    assert (
        config.num_iterations,
        config.evaluate_every,
        config.evaluation_episodes,
    ) == (400, 5, 50)
    assert config.hold_position is False
    assert moments(teacher.initial) == ((0.0, 4.25, 2.0), (2.0, 1.875, 1.0))
    assert moments(teacher.target) == TARGET


@pytest.mark.parametrize("task", ["point-mass-3d", "point-mass-2d"])
@pytest.mark.parametrize(
    ("agent", "k_alpha", "zeta", "source"),
    [
        ("ppo", 10, 1.6, "critic"),
        ("trpo", 20, 1.6, "critic"),
        ("sac", 25, 1.1, "return"),
    ],
)
def test_schedules_of_each_agent(task, agent, k_alpha, zeta, source):
    weighed = resolved(task, agent, "self-paced", "proportion").teacher
    assert (weighed.schedule, weighed.value_source) == (
        Proportion(zeta=zeta, offset=k_alpha - 1),
        "critic",
    )
    article = resolved(task, agent, "self-paced", "proportion", "article").teacher
    assert article.schedule == Proportion(zeta=zeta, offset=k_alpha)
    bound = resolved(task, agent, "self-paced", "bound").teacher
    assert (bound.schedule, bound.value_source) == (Bound(3.5), source)
    closed_form = resolved(task, agent, "spgl").teacher
    # the first update comes after 6 iterations of PPO, and after 5 of the others
    assert {t.warmup for t in (weighed, bound, closed_form)} == {
        5 if agent == "ppo" else 4
    }
    assert (closed_form.performance_bound, closed_form.value_source) == (3.5, source)
    assert closed_form.std_floor == weighed.std_floor == bound.std_floor


@pytest.mark.parametrize(
    ("read", "published", "article"),
    [
        (lambda c: c.teacher.kl_direction, "old-new", "new-old"),
        (lambda c: c.teacher.schedule.offset, 9, 10),
        (lambda c: c.task.force_gain, 1.5, 1.0),
        (lambda c: c.task.noise_std, 0.05, 0.0),
        (lambda c: c.agent.value_coefficient, 1.0, 0.5),
        (lambda c: c.agent.max_grad_norm, math.inf, 0.5),
    ],
)
def test_each_difference_between_article_and_published_results(
    read, published, article
):
    assert read(resolved("point-mass-3d")) == published
    assert read(resolved("point-mass-3d", variant="article")) == article


def test_the_two_dimensional_task_drops_the_friction():
    config = resolved("point-mass-2d", schedule="bound")
    assert config.teacher.std_floor == (0.2, 0.1875)
    assert moments(config.teacher.initial) == ((0.0, 4.25), (2.0, 1.875))
    assert moments(config.teacher.target) == ((2.5, 0.5), (0.004, 0.00375))
    assert config.task.observation_size == 6


@pytest.mark.parametrize(
    "teacher", ["default", "random", "alp-gmm", "goal-gan", "sagg-riac"]
)
def test_every_curriculum_is_measured_on_the_same_target(teacher):
    assert moments(resolved("point-mass-3d", teacher=teacher).teacher.target) == TARGET


def test_published_constants_of_trpo():
    agent = resolved("point-mass-3d", "trpo").agent
    assert agent.steps_per_iteration == 2048
    assert (
        agent.discount,
        agent.gae_lambda,
        agent.hidden,
        agent.bootstrap_time_limit,
    ) == (0.95, 0.99, (64, 64), False)
    assert (agent.max_kl, agent.kl_tolerance, agent.line_search_steps) == (
        0.01,
        1.5,
        10,
    )
    assert (agent.cg_iterations, agent.cg_damping, agent.fisher_stride) == (10, 0.01, 5)
    assert (agent.value_learning_rate, agent.value_epochs, agent.value_batch) == (
        3e-4,
        3,
        128,
    )


def test_published_constants_of_sac():
    agent = resolved("point-mass-3d", "sac").agent
    assert (agent.num_envs, agent.updates_per_step, agent.steps_per_iteration) == (
        5,
        1,
        2050,
    )  # one update in 5 steps
    assert (agent.replay_size, agent.learning_starts, agent.batch_size) == (
        10_000,
        500,
        64,
    )
    assert (agent.learning_rate, agent.target_rate, agent.initial_temperature) == (
        3e-4,
        0.005,
        1.0,
    )
    assert (agent.critic, agent.target_entropy, agent.hidden) == (
        "state-value",
        None,
        (64, 64),
    )
    assert (agent.discount, agent.bootstrap_time_limit) == (0.95, False)


@pytest.mark.parametrize(
    ("variant", "alp_gmm", "goal_gan"),
    [
        ("published", (0.2, 50, 500), (0.1, 50, 0.2)),
        ("article", (0.1, 100, 1000), (0.05, 200, 0.2)),
    ],
)
def test_the_printed_settings_of_the_other_curricula_belong_to_the_article(
    variant, alp_gmm, goal_gan
):
    alp = resolved("point-mass-3d", "trpo", "alp-gmm", variant=variant).teacher
    gan = resolved("point-mass-3d", "trpo", "goal-gan", variant=variant).teacher
    assert (alp.random_fraction, alp.num_rollouts, alp.buffer_size) == alp_gmm
    assert (gan.noise, gan.num_rollouts, gan.success_fraction) == goal_gan
    assert gan.start == "initial"


@pytest.mark.parametrize("task", ["point-mass-3d", "point-mass-2d"])
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("variant", "column"), [("article", 0), ("published", 1)])
def test_each_row_of_the_tables_of_the_other_curricula_reaches_its_teacher(
    task, agent, variant, column
):
    alp = resolved(task, agent, "alp-gmm", variant=variant).teacher
    gan = resolved(task, agent, "goal-gan", variant=variant).teacher
    assert (alp.random_fraction, alp.num_rollouts, alp.buffer_size) == ALP_GMM[
        task, agent
    ][column]
    assert (gan.noise, gan.num_rollouts, gan.success_fraction) == GOAL_GAN[task, agent][
        column
    ]
