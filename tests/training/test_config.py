"""Wrong configurations are one sentence before anything compiles."""

import dataclasses
import math

import numpy as np
import pytest

import spjax
from spjax.agents.episodic import RadialBasis
from tests.training.conftest import tiny

GRID = RadialBasis(lower=(0.0,), upper=(1.0,), counts=(5,), inverse_widths=(1.0,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, "at least one seed is needed, got none"),
        ({"seeds": (-1,)}, r"seeds must lie in \[0, 2\^32\), got -1..-1"),
        ({"seeds": (1, 1)}, r"each seed may be given once, got \[1, 1\]"),
        ({"over": {"agent.learning_rate": ()}}, "agent.learning_rate needs at least one value to sweep over, got none"),
        ({"num_iterations": 0}, "num_iterations must be at least 1, got 0"),
        ({"target_mean": (2.5, 9.0)}, r"teacher.target_mean: gate width = 9 lies outside its bounds \[0.5, 8\] m"),
        ({"target_std": (0.1, 0.0)}, "teacher.target_std of gate width must be positive and finite, got 0"),
        ({"over": {"teacher.zeta": (1.0,)}}, "unknown setting 'teacher.zeta'"),
        ({"over": {"teacher.kl_propotion": (1.0,)}}, "did you mean 'teacher.kl_proportion'"),
        ({"over": {"agent.hidden": ((8,),)}}, "it shapes the compiled program"),
        ({"over": {"env.noise_std": (0.1,)}}, "settings are named agent.<setting> or teacher.<setting>"),
        ({"over": {"teacher.max_kl": (-0.1,)}}, "teacher.max_kl must be at least 0, got -0.1"),
        ({"over": {"teacher.max_kl": ("a",)}}, "teacher.max_kl needs a number, got 'a'"),
        ({"over": {"agent.learning_rate": (float("nan"),)}}, "agent.learning_rate must not be NaN"),
    ],
)
def test_wrong_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes).check()


@pytest.mark.parametrize(
    ("agent", "part", "changes", "message"),
    [
        ("sac", "agent", {"critic": "twin"}, "agent.critic must be state-value or twin-q, got 'twin'"),
        ("ppo", "agent", {"num_envs": 4.0}, "agent.num_envs must be a whole number, got 4.0"),
        ("ppo", "agent", {"num_minibatches": 2048}, "agent.num_minibatches must leave at least 2 rows in each"),
        ("ppo", "agent", {"learning_rate": math.inf}, "agent.learning_rate must be finite, got inf"),
        ("sac", "agent", {"initial_temperature": math.inf}, "agent.initial_temperature must be positive and finite"),
        ("trpo", "agent", {"value_epochs": 0}, "agent.value_epochs must be at least 1, got 0"),
        ("ppo", "teacher", {"buffer_size": 64.0}, "teacher.buffer_size must be a whole number, got 64.0"),
        ("ppo", "teacher", {"max_alpha": 2**31}, "teacher.max_alpha must be less than 2.31 if it is a whole number"),
        ("ppo", "teacher", {"max_kl": math.inf}, "teacher.max_kl must be finite, got inf"),
        ("ppo", "teacher", {"performance_bound": -math.inf}, "teacher.performance_bound must be finite, got -inf"),
        ("ppo", "teacher", {"std_floor": (0.1, math.inf)}, "teacher.std_floor needs 2 finite values of at least 0"),
        ("sprl", "agent", {"std_floor": (0.1,)}, "agent.std_floor needs 2 values, got"),
        (
            "sprl",
            "agent",
            {"policy_features": GRID},
            "agent.policy_features has a grid of 1 dimensions, contexts of this task have 2",
        ),
        ("ppo", "teacher", {"schedule": "propotion"}, "teacher.schedule must be proportion or bound, got 'propotion'"),
        ("ppo", "teacher", {"value_source": "retrun"}, "teacher.value_source must be critic or return, got 'retrun'"),
        ("ppo", "teacher", {"kl_direction": None}, "teacher.kl_direction must be old-new or new-old, got None"),
    ],
)
def test_a_word_that_no_setting_knows_is_named(agent, part, changes, message):
    config = spjax.preset("point-mass-2d", agent=agent)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(config, **{part: getattr(config, part).replace(**changes)}).check()


def test_a_critic_without_a_state_value_is_refused_where_the_curriculum_asks_for_one():
    config = spjax.preset("point-mass-2d", agent="sac", schedule="proportion")
    config = dataclasses.replace(config, agent=config.agent.replace(critic="twin-q"))
    with pytest.raises(ValueError, match=r"the twin-q critic has no state value; set teacher.value_source to return"):
        config.check()
    dataclasses.replace(config, teacher=config.teacher.replace(value_source="return")).check()


def test_settings_that_switch_something_off_and_numbers_of_numpy_are_accepted():
    config = spjax.preset("point-mass-2d", agent="ppo")
    agent = config.agent.replace(clip_range=math.inf, max_grad_norm=math.inf, num_epochs=np.int64(3))
    teacher = config.teacher.replace(offset=math.inf, warmup=math.inf, max_kl=np.float32(0.1))
    dataclasses.replace(config, agent=agent, teacher=teacher).check()


def test_an_initial_mean_outside_the_bounds_is_named():
    config = tiny()
    config = dataclasses.replace(config, teacher=config.teacher.replace(initial_mean=(-5.0, 1.0)))
    with pytest.raises(
        ValueError, match=r"teacher.initial_mean: gate position = -5 lies outside its bounds \[-4, 4\] m"
    ):
        config.check()


def test_lanes_are_the_grid_of_settings_times_the_seeds():
    config = tiny(seeds=(4, 5), over={"teacher.kl_proportion": (0.4, 0.8), "agent.learning_rate": (1e-3,)})
    lanes = config.lanes()
    assert [(lane.seed, lane.settings["teacher.kl_proportion"]) for lane in lanes] == [
        (4, 0.4),
        (5, 0.4),
        (4, 0.8),
        (5, 0.8),
    ]
    experiments = config.experiments()
    np.testing.assert_allclose(experiments.teacher.kl_proportion, [0.4, 0.4, 0.8, 0.8])
    np.testing.assert_allclose(experiments.agent.learning_rate, 1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "point-mas-3d"}, "unknown environment 'point-mas-3d'; did you mean 'point-mass-3d'?"),
        ({"agent": "pp"}, "unknown agent 'pp'; did you mean 'ppo'?"),
        ({"teacher": "selfpaced"}, "unknown teacher 'selfpaced'; did you mean 'self-paced'?"),
        ({"schedule": "bond"}, "unknown schedule 'bond'; did you mean 'bound'?"),
        ({"variant": "papr"}, "unknown variant 'papr'; known: article, published"),
        (
            {"teacher": "random", "schedule": "bound"},
            "only the self-paced teacher of ppo, trpo, sac has a schedule, got schedule 'bound' for ppo with 'random'",
        ),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(arguments, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        spjax.preset(**{"env": "point-mass-3d", **arguments})
    assert str(error.value) == message
