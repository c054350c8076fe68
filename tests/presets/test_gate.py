"""The gate experiments' published and printed settings."""

import pytest

from spjax.episodic import CREPS, SPRL
from spjax.presets.gate import gate


def test_the_published_settings_are_those_of_the_released_code():
    learner, task = gate("precision", "sprl")
    assert isinstance(learner, SPRL)
    assert (learner.max_kl, learner.kl_proportion, learner.offset, learner.max_alpha) == (0.4, 0.02, 140, 2.5)
    assert (learner.num_samples, learner.buffer_size, learner.std_floor) == (100, 10, ())
    assert task.parameter_size == 16
    learner, task = gate("global", "sprl")
    assert (learner.max_kl, learner.kl_proportion, learner.max_alpha) == (0.25, 0.002, 1e6)
    assert learner.value_features.upper == (5.0, 1.0)
    assert task.name == "gate-global"


def test_the_article_has_fourteen_parameters_k_alpha_iterations_without_target_and_no_cap():
    learner, task = gate("precision", "sprl", "article")
    assert task.parameter_size == 14
    assert (learner.offset, learner.max_alpha, learner.alpha_from) == (139, 1e6, "batch")


@pytest.mark.parametrize("setting", ["global", "precision"])
@pytest.mark.parametrize("method", ["sprl", "creps"])
def test_every_experiment_passes_its_own_checks(setting, method):
    learner, task = gate(setting, method)
    learner.check()
    assert isinstance(learner, SPRL if method == "sprl" else CREPS)
    assert len(task.target_mean) == task.context_space.size
