"""SPRL on the step-based point mass: the printed constants, and what was chosen where the paper is silent."""

import pytest

from spjax.agents.episodic import Polynomial
from spjax.presets.policy_search import config, policy_search


@pytest.mark.parametrize(
    ("name", "zeta", "floor", "size"),
    [("point-mass-2d", 1.5, (0.2, 0.1875), 168), ("point-mass-3d", 2.0, (0.2, 0.1875, 0.1), 189)],
)
def test_the_published_settings_are_the_printed_constants(name, zeta, floor, size):
    learner, task = policy_search(name)
    learner.check()
    assert (learner.max_kl, learner.fit_max_kl, learner.kl_proportion, learner.offset) == (0.5, 0.2, zeta, 40)
    assert (learner.num_samples, learner.buffer_size, learner.value_features) == (25, 10, Polynomial(2))
    assert (learner.std_floor, learner.floor_kl, learner.alpha_from) == (floor, 8000.0, "buffer")
    assert (task.name, task.hidden, task.parameter_size, set(task.parameter_std)) == (name, 21, size, {1.0})


def test_what_the_paper_leaves_open_is_as_measured():
    learner, task = policy_search("point-mass-3d")
    assert (task.output, task.discount) == ("linear", 0.95)
    assert learner.max_alpha == 1e6
    assert set(task.parameter_upper) == {float("inf")}


def test_the_article_has_k_alpha_iterations_without_target_and_looks_at_new_rollouts_alone():
    learner, _ = policy_search("point-mass-2d", "article")
    assert (learner.offset, learner.alpha_from) == (39, "batch")


def test_a_run_has_the_published_distributions_and_evaluation():
    run = config("point-mass-3d", "sprl", "self-paced", None, "published", "initial")
    assert run.teacher.initial_mean == (0.0, 4.25, 2.0)
    assert run.teacher.initial_std == pytest.approx((2.0, 1.875, 1.0))
    assert (run.num_iterations, run.evaluation_episodes) == (1000, 50)
