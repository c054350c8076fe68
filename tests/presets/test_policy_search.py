"""SPRL on the step-based point mass: the printed constants, and what was chosen where the paper is silent."""

import pytest

from spjax.agents.episodic import SPRL, Polynomial
from spjax.envs.adapters.policy_search import PolicySearch
from spjax.self_paced.schedules import Proportion
from tests.presets.resolved import moments, resolved


@pytest.mark.parametrize(
    ("name", "zeta", "floor", "size"),
    [
        ("point-mass-2d", 1.5, (0.2, 0.1875), 168),
        ("point-mass-3d", 2.0, (0.2, 0.1875, 0.1), 189),
    ],
)
def test_the_published_settings_are_the_printed_constants(name, zeta, floor, size):
    config = resolved(name, "sprl")
    learner, task, teacher = config.agent, config.task, config.teacher
    assert isinstance(learner, SPRL)
    assert isinstance(task, PolicySearch)
    assert (learner.max_kl, learner.fit_max_kl) == (0.5, 0.2)
    assert (learner.num_samples, learner.buffer_size, learner.value_features) == (
        25,
        10,
        Polynomial(2),
    )
    assert teacher.schedule == Proportion(
        zeta=zeta, offset=41, max_alpha=1e6, negative_return="absolute"
    )
    assert (teacher.std_floor, teacher.floor_kl, teacher.alpha_from) == (
        floor,
        8000.0,
        "buffer",
    )
    assert (task.name, task.hidden, task.parameter_size, set(task.parameter_std)) == (
        name,
        21,
        size,
        {1.0},
    )


def test_what_the_paper_leaves_open_is_as_measured():
    task = resolved("point-mass-3d", "sprl").task
    assert (task.output, task.discount) == ("linear", 0.95)
    assert (task.of.force_gain, task.of.noise_std) == (1.5, 0.05)
    assert set(task.parameter_upper) == {float("inf")}


def test_the_article_has_k_alpha_iterations_without_target_and_looks_at_new_rollouts_alone():
    config = resolved("point-mass-2d", "sprl", variant="article")
    assert (config.teacher.schedule.offset, config.teacher.alpha_from) == (40, "batch")
    assert (config.task.of.force_gain, config.task.of.noise_std) == (
        1.5,
        0.05,
    )  # as those of the step-based results


def test_a_run_has_the_published_distributions_and_evaluation():
    config = resolved("point-mass-3d", "sprl")
    assert moments(config.teacher.initial) == ((0.0, 4.25, 2.0), (2.0, 1.875, 1.0))
    assert moments(config.teacher.target) == ((2.5, 0.5, 0.0), (0.004, 0.00375, 0.002))
    assert config.teacher.target.outside == "redraw"
    assert (
        config.num_iterations,
        config.evaluate_every,
        config.evaluation_episodes,
    ) == (1000, 10, 50)


def test_any_step_based_task_can_be_searched_in():
    config = resolved("ball-catching", "c-reps", "default")
    assert config.task.name == "ball-catching"
    assert config.task.parameter_size == 21 * (21 + 5)
