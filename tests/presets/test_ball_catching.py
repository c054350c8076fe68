"""The published constants of ball catching, and each point where the printed article differs."""

import math

import numpy as np
import pytest

from spjax.presets import preset
from spjax.presets.table import table_of
from spjax.self_paced.schedules import Bound, Proportion
from tests.presets.resolved import moments, resolved

INITIAL_STD = np.sqrt([1e-3, 1e-3, 0.1])
TARGET_STD = np.sqrt([0.2 * np.pi, 0.15, 1.0])


@pytest.mark.parametrize(
    ("agent", "start", "k_alpha", "zeta", "bound"),
    [
        ("trpo", "target", 70, 0.4, 42.5),
        ("ppo", "target", 50, 0.45, 42.5),
        ("sac", "target", 60, 0.6, 25.0),
        ("trpo", "initial", 0, 0.425, 42.5),
        ("ppo", "initial", 0, 0.45, 42.5),
        ("sac", "initial", 0, 0.6, 25.0),
    ],
)
def test_published_constants_of_the_curriculum(agent, start, k_alpha, zeta, bound):
    config = resolved("ball-catching", agent, start=start)
    teacher = config.teacher
    assert teacher.schedule == Proportion(zeta=zeta, offset=max(0, k_alpha - 1))
    article = resolved("ball-catching", agent, start=start, variant="article").teacher
    assert article.schedule == Proportion(zeta=zeta, offset=k_alpha)
    assert resolved(
        "ball-catching", agent, "self-paced", "bound", start=start
    ).teacher.schedule == Bound(bound)
    closed_form = resolved("ball-catching", agent, "spgl", start=start).teacher
    assert closed_form.performance_bound == bound
    for moving in (teacher, closed_form):
        # the first update comes after 6 iterations of PPO, and after 5 of the others
        assert moving.warmup == (5 if agent == "ppo" else 4)
        assert (moving.max_kl, moving.std_floor) == (0.05, None)
        assert (moving.buffer_size, moving.sliding_window, moving.start) == (
            100,
            True,
            start,
        )
    first = config.task.initial if start == "initial" else config.task.target
    assert moments(teacher.starts_at) == moments(first)
    assert moments(teacher.aims_at) == moments(config.task.target)


def test_published_constants_of_the_learners():
    ppo, trpo, sac = (
        resolved("ball-catching", agent).agent for agent in ("ppo", "trpo", "sac")
    )
    for agent in (ppo, trpo, sac):
        assert (agent.hidden, agent.discount, agent.steps_per_iteration) == (
            (64, 64, 64),
            0.995,
            5000,
        )
        assert agent.bootstrap_time_limit is False
    assert (ppo.num_minibatches, ppo.num_epochs, ppo.gae_lambda, ppo.learning_rate) == (
        25,
        10,
        0.95,
        2.5e-4,
    )
    assert (ppo.value_coefficient, ppo.max_grad_norm) == (1.0, math.inf)
    assert (trpo.gae_lambda, trpo.max_kl) == (0.95, 0.01)
    assert (sac.batch_size, sac.replay_size, sac.learning_starts) == (
        512,
        100_000,
        1000,
    )
    assert (
        sac.num_steps * sac.updates_per_step == 5000
    )  # a gradient step for each environment step
    for schedule, source in (("bound", "return"), ("proportion", "critic")):
        assert (
            resolved(
                "ball-catching", "sac", "self-paced", schedule
            ).teacher.value_source
            == source
        )
    assert resolved("ball-catching", "sac", "spgl").teacher.value_source == "return"


def test_the_experiment_is_500_iterations_with_200_throws_an_evaluation_from_a_cloned_policy():
    config = resolved("ball-catching")
    assert (
        config.num_iterations,
        config.evaluate_every,
        config.evaluation_episodes,
    ) == (500, 5, 200)
    assert config.hold_position
    mean, std = moments(config.teacher.target)
    np.testing.assert_allclose(mean, [0.3375 * np.pi, 0.85, 2.375], rtol=1e-6)
    np.testing.assert_allclose(std, TARGET_STD, rtol=1e-6)
    mean, std = moments(config.teacher.initial)
    assert mean == (0.68, 0.9, 0.85)
    np.testing.assert_allclose(std, INITIAL_STD, rtol=1e-6)


def test_published_constants_of_the_other_curricula():
    settings = [
        resolved("ball-catching", agent, "alp-gmm").teacher
        for agent in ("trpo", "ppo", "sac")
    ]
    assert [(t.random_fraction, t.num_rollouts, t.buffer_size) for t in settings] == [
        (0.2, 200, 2000),
        (0.3, 200, 2000),
        (0.3, 200, 1000),
    ]
    untaught = resolved("ball-catching", "trpo", "goal-gan").teacher
    assert (untaught.noise, untaught.num_rollouts, untaught.success_fraction) == (
        0.1,
        200,
        0.3,
    )
    assert untaught.start == "target"  # not pre-trained
    assert (
        resolved("ball-catching", "trpo", "goal-gan", start="initial").teacher.start
        == "initial"
    )


@pytest.mark.parametrize(
    ("read", "published", "article"),
    [
        (lambda c: c.task.normal, "third-row", "axis"),
        (lambda c: c.task.unit_velocity, True, False),
        (lambda c: c.teacher.kl_direction, "old-new", "new-old"),
        (lambda c: c.agent.value_coefficient, 1.0, 0.5),
        (lambda c: c.agent.max_grad_norm, math.inf, 0.5),
    ],
)
def test_each_difference_between_article_and_published_results(
    read, published, article
):
    assert read(resolved("ball-catching", start="initial")) == published
    assert (
        read(resolved("ball-catching", variant="article", start="initial")) == article
    )


@pytest.mark.parametrize("teacher", ["self-paced", "default", "random", "alp-gmm"])
def test_the_article_has_other_widths_of_both_distributions_for_every_curriculum(
    teacher,
):
    published = resolved("ball-catching", teacher=teacher).teacher
    article = resolved("ball-catching", teacher=teacher, variant="article").teacher
    np.testing.assert_allclose(moments(published.initial)[1], INITIAL_STD, rtol=1e-6)
    np.testing.assert_allclose(moments(published.target)[1], TARGET_STD, rtol=1e-6)
    assert (moments(article.initial)[1], moments(article.target)[1]) == (
        (0.03, 0.03, 0.3),
        (0.8, 0.38, 1.0),
    )
    for name in ("initial", "target"):
        assert (
            moments(getattr(article, name))[0] == moments(getattr(published, name))[0]
        )


def test_both_starts_were_published_here_and_one_elsewhere():
    assert table_of("ball-catching").starts == ("target", "initial")
    assert table_of("point-mass-3d").starts == ("initial",)
    assert resolved("ball-catching").teacher.start == "target"
    assert resolved("point-mass-3d").teacher.start == "initial"


@pytest.mark.parametrize("task", ["ball-catching", "point-mass-3d"])
def test_a_start_that_is_none_is_one_sentence(task):
    with pytest.raises(
        ValueError, match=r"^start must be initial or target, got 'goal'$"
    ):
        preset(task, start="goal")


def test_a_teacher_that_starts_nowhere_is_given_no_start():
    with pytest.raises(
        ValueError, match=r"^the teacher 'random' has no start, got 'initial'$"
    ):
        preset("ball-catching", teacher="random", start="initial")
