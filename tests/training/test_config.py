"""Wrong configurations are one sentence before anything compiles; right ones are kept as they are."""

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import spjax
from spjax import catalogue
from spjax.agents.episodic import RadialBasis
from spjax.agents.step_based import PPO
from spjax.contexts import Gaussian
from spjax.envs import PointMass
from spjax.self_paced.schedules import Bound, Evidence, Proportion
from spjax.teachers.self_paced import SelfPaced
from spjax.training.config import RunConfig
from spjax.training.run_folder import record_of
from tests.training.conftest import tiny

GRID = RadialBasis(lower=(0.0,), upper=(1.0,), counts=(5,), inverse_widths=(1.0,))


def taught(**changes):
    """Returns the tiny sweep with these settings of its teacher."""
    return tiny(teacher=dataclasses.replace(tiny().teacher, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, "at least one seed is needed, got none"),
        ({"seeds": (-1,)}, r"seeds must lie in \[0, 2\^32\), got -1..-1"),
        ({"seeds": (1, 1)}, r"each seed may be given once, got \[1, 1\]"),
        ({"seeds": (1.0, 1.5)}, "seeds must be whole numbers, got 1.0"),
        ({"seeds": 5}, r"seeds needs several values, such as \(5,\), got 5"),
        (
            {"over": {"agent.learning_rate": ()}},
            "agent.learning_rate needs at least one value to sweep over, got none",
        ),
        (
            {"over": {"agent.learning_rate": 0.1}},
            r"over 'agent.learning_rate' needs several values, such as \(0.1,\)",
        ),
        (
            {"over": {"agent.learning_rate": (0.1, 0.1)}},
            "each value of agent.learning_rate may be given once, got 0.1",
        ),
        ({"num_iterations": 0}, "num_iterations must be at least 1, got 0"),
        ({"num_iterations": 2.5}, "num_iterations must be a whole number, got 2.5"),
        (
            {"over": {"teacher.schedule.zta": (1.0,)}},
            "did you mean 'teacher.schedule.zeta'",
        ),
        (
            {"over": {"bound.zeta": (1.0,)}},
            "; did you mean 'teacher.schedule.zeta'\\?$",
        ),
        ({"over": {"max_kl": (1.0,)}}, "; did you mean 'teacher.max_kl'\\?$"),
        (
            {"over": {"bound.performance_bound": (1.0,)}},
            "; performance_bound is of the schedule bound or .*, this one is proportion$",
        ),
        (
            {"over": {"teacher.initial.std": ((1.0,), (2.0,))}},
            "^teacher.initial.std: a gaussian needs as many values of std as of mean, got 1 and 2$",
        ),
        ({"over": {"agent.hidden": ((8,),)}}, "it shapes the compiled program"),
        (
            {"over": {"env.noise_std": (0.1,)}},
            "settings are named task., agent. or teacher.<setting>",
        ),
        (
            {"over": {"task.noise_std": (0.1, -1.0)}},
            "task.noise_std must be at least 0, got -1.0",
        ),
        (
            {"over": {"teacher.max_kl": (-0.1,)}},
            "teacher.max_kl must be positive and finite, got -0.1",
        ),
        (
            {"over": {"teacher.max_kl": ("a",)}},
            "teacher.max_kl needs a number, got 'a'",
        ),
        (
            {"over": {"teacher.target.mean": ((2.5, 9.0),)}},
            "teacher.target.mean: gate width = 9 lies outside",
        ),
        (
            {"over": {"teacher.std_floor": (0.1, (0.1, 0.2))}},
            "all values of teacher.std_floor need the same shape",
        ),
        (
            {"over": {"agent.learning_rate": (float("nan"),)}},
            "agent.learning_rate must not be NaN",
        ),
        (
            {"task": "point-mass-2d"},
            r"task must be a task \(spjax.catalogue makes them\), got 'point-mass-2d'",
        ),
        (
            {"agent": SelfPaced()},
            r"agent must be an agent \(.*\), got the teacher SelfPaced$",
        ),
    ],
)
def test_wrong_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes).check()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("zeta", "schedule.zeta"),
        ("kl_proportion", "schedule.zeta"),
        ("K_alpha", "schedule.offset"),
        ("offset", "schedule.offset"),
        ("epsilon", "max_kl"),
        ("sigma_LB", "std_floor"),
        ("K_offset", "warmup"),
        ("target_mean", "target.mean"),
        ("max_lk", "max_kl"),
    ],
)
def test_symbols_of_the_paper_and_slips_lead_to_their_settings(name, meant):
    with pytest.raises(
        ValueError,
        match=f"^unknown setting 'teacher.{name}'; did you mean 'teacher.{meant}'\\?$",
    ):
        tiny(over={f"teacher.{name}": (1.0,)}).check()


def test_the_bound_of_the_paper_leads_to_its_setting_or_to_the_schedule_that_has_it():
    sweep = {"teacher.V_LB": (1.0,)}
    with pytest.raises(
        ValueError, match=r"did you mean 'teacher.schedule.performance_bound'"
    ):
        dataclasses.replace(taught(schedule=Bound()), over=sweep).check()
    with pytest.raises(
        ValueError,
        match=r"unknown setting 'teacher.V_LB'; performance_bound is of the schedule bound",
    ):
        tiny(over=sweep).check()


@pytest.mark.parametrize("name", ["frobnicate", "kl_proportion", "zeta"])
def test_a_far_name_is_not_suggested(name):
    teacher = catalogue.make("teacher", "goal-gan")
    with pytest.raises(ValueError, match=f"unknown setting 'teacher.{name}'; known: "):
        tiny(teacher=teacher, over={f"teacher.{name}": (1.0,)}).check()


@pytest.mark.parametrize(
    ("agent", "part", "changes", "message"),
    [
        (
            "sac",
            "agent",
            {"critic": "twin"},
            "agent.critic must be state-value or twin-q, got 'twin'",
        ),
        (
            "ppo",
            "agent",
            {"num_envs": 4.0},
            "agent.num_envs must be a whole number, got 4.0",
        ),
        (
            "ppo",
            "agent",
            {"num_minibatches": 2048},
            "agent.num_minibatches must leave at least 2 rows in each",
        ),
        (
            "ppo",
            "agent",
            {"learning_rate": math.inf},
            "agent.learning_rate must be finite, got inf",
        ),
        (
            "sac",
            "agent",
            {"initial_temperature": math.inf},
            "agent.initial_temperature must be positive and finite",
        ),
        (
            "trpo",
            "agent",
            {"value_epochs": 0},
            "agent.value_epochs must be at least 1, got 0",
        ),
        (
            "ppo",
            "teacher",
            {"buffer_size": 64.0},
            "teacher.buffer_size must be a whole number, got 64.0",
        ),
        (
            "ppo",
            "teacher",
            {"schedule": Proportion(max_alpha=2**31)},
            "teacher.schedule.max_alpha must be less than 2.31 if it is a whole number",
        ),
        (
            "ppo",
            "teacher",
            {"max_kl": math.inf},
            "teacher.max_kl must be positive and finite, got inf",
        ),
        (
            "ppo",
            "teacher",
            {"max_kl": 0.0},
            "teacher.max_kl must be positive and finite, got 0.0",
        ),
        (
            "ppo",
            "teacher",
            {"schedule": Bound(performance_bound=-math.inf)},
            "teacher.schedule.performance_bound must be finite, got -inf",
        ),
        (
            "ppo",
            "teacher",
            {"std_floor": (0.1, math.inf)},
            "teacher.std_floor must be finite, got inf",
        ),
        (
            "ppo",
            "teacher",
            {"std_floor": -0.1},
            "teacher.std_floor must be at least 0, got -0.1",
        ),
        (
            "sprl",
            "teacher",
            {"std_floor": (0.1,)},
            r"teacher.std_floor needs 2 values \(gate position, gate width\) or one for all, got 1",
        ),
        (
            "sprl",
            "agent",
            {"policy_features": GRID},
            "agent.policy_features has a grid of 1 dimensions, contexts of this task have 2",
        ),
        (
            "ppo",
            "teacher",
            {"schedule": "proportion"},
            "teacher.schedule must be a schedule, got 'proportion'",
        ),
        (
            "ppo",
            "teacher",
            {"target": Bound()},
            "teacher.target must be a distribution, got the schedule Bound",
        ),
        (
            "ppo",
            "teacher",
            {"value_source": "retrun"},
            "teacher.value_source must be critic or return, got 'retrun'",
        ),
        (
            "ppo",
            "teacher",
            {"kl_direction": None},
            "teacher.kl_direction must be old-new or new-old, got None",
        ),
    ],
)
def test_a_value_that_a_part_cannot_have_is_named(agent, part, changes, message):
    config = spjax.preset("point-mass-2d", agent=agent)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(
            config, **{part: dataclasses.replace(getattr(config, part), **changes)}
        ).check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"target": Gaussian.from_std((2.5, 9.0), (0.1, 0.1))},
            r"teacher.target.mean: gate width = 9 lies outside its bounds \[0.5, 8\] m",
        ),
        (
            {
                "target": Gaussian(
                    np.float32([2.5, 1.0]), np.diag(np.float32([0.1, 0.0]))
                )
            },
            "teacher.target.std must be positive and finite, got 0.0",
        ),
        (
            {"target": Gaussian.from_std((2.5,), (0.1,))},
            r"teacher.target.mean needs 2 values \(gate position, gate width\), got 1",
        ),
        (
            {"initial": Gaussian.from_std((-5.0, 1.0), (0.1, 0.1))},
            r"teacher.initial.mean: gate position = -5 lies outside its bounds \[-4, 4\] m",
        ),
    ],
)
def test_a_distribution_that_does_not_fit_the_task_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        taught(**changes).check()


def test_a_critic_without_a_state_value_is_refused_where_the_curriculum_asks_for_one():
    config = spjax.preset("point-mass-2d", agent="sac", schedule="proportion")
    config = dataclasses.replace(config, agent=config.agent.replace(critic="twin-q"))
    with pytest.raises(
        ValueError,
        match=r"the agent 'sac' has no state value; set teacher.value_source to return",
    ):
        config.check()
    dataclasses.replace(
        config, teacher=config.teacher.replace(value_source="return")
    ).check()


def test_settings_that_switch_something_off_and_numbers_of_numpy_are_accepted():
    config = spjax.preset("point-mass-2d", agent="ppo")
    agent = config.agent.replace(
        clip_range=math.inf, max_grad_norm=math.inf, num_epochs=np.int64(3)
    )
    teacher = config.teacher.replace(
        warmup=math.inf, max_kl=np.float32(0.1), schedule=Proportion(offset=math.inf)
    )
    dataclasses.replace(config, agent=agent, teacher=teacher).check()


def test_numbers_of_numpy_become_those_that_the_run_folder_can_hold():
    config = tiny(
        agent=dataclasses.replace(
            tiny().agent, num_steps=np.int64(64), learning_rate=np.float32(0.5)
        ),
        seeds=np.arange(1, 3),
        over={
            "teacher.schedule.offset": np.arange(5, 15, 5),
            "agent.discount": [np.float32(0.5), np.float64(0.9)],
        },
        num_iterations=np.int64(6),
    )
    config.check()
    written = json.loads(json.dumps(record_of(config, "").to_json(), allow_nan=False))[
        "config"
    ]
    assert (written["seeds"], written["num_iterations"]) == ([1, 2], 6)
    assert written["over"] == {
        "teacher.schedule.offset": [5, 10],
        "agent.discount": [0.5, 0.9],
    }
    assert (written["agent"]["num_steps"], written["agent"]["learning_rate"]) == (
        64,
        0.5,
    )
    assert RunConfig.built(written).spelled() == config.spelled()


def test_one_floor_serves_every_dimension():
    config = taught(std_floor=0.1)
    config.check()
    nothing = jnp.zeros(3)
    evidence = Evidence(
        jnp.zeros((3, 2)),
        nothing,
        nothing > 0,
        jnp.float32(1.0),
        jnp.float32(1e4),
        jnp.int32(1),
    )
    np.testing.assert_allclose(config.teacher.floor(evidence, 2), [0.1, 0.1])


@struct.dataclass
class Generous(PointMass):
    """Ten times the reward, under the name that it inherits."""

    def dynamics(self, key, state, action):
        after = super().dynamics(key, state, action)
        return dataclasses.replace(after, reward=10 * after.reward)


@struct.dataclass
class Still(SelfPaced):
    """Never moves."""

    def move(self, state, evidence):
        step = super().move(state, evidence)
        return dataclasses.replace(step, distribution=state.distribution)


@struct.dataclass
class Blind(PPO):
    """Learns nothing."""


@pytest.mark.parametrize(
    ("part", "own"),
    [
        ("task", Generous(dimensions=2)),
        ("teacher", Still()),
        ("agent", Blind(num_envs=4)),
    ],
)
def test_a_class_that_inherits_the_name_of_another_is_refused_before_there_is_a_run(
    part, own, tmp_path
):
    refusal = (
        rf"^tests\.training\.test_config\.{type(own).__name__} is not in the catalogue, so a run with it could not be "
        rf'read again; decorate the class with @part\("{part}", "NAME"\) in a file of its own$'
    )
    with pytest.raises(ValueError, match=refusal):
        spjax.train(tiny(**{part: own}), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_schedule_of_no_name_is_refused_inside_a_teacher_too():
    @struct.dataclass
    class Steep(Proportion):
        pass

    with pytest.raises(
        ValueError, match=r'Steep is not in the catalogue.*@part\("schedule", "NAME"\)'
    ):
        taught(schedule=Steep()).check()


@pytest.mark.parametrize(
    ("task", "agent", "teacher", "message"),
    [
        (
            "point-mass-2d",
            "ppo",
            "self-paced-joint",
            "'self-paced-joint' is for agents that run whole rollouts, got 'ppo'",
        ),
        (
            "gate-precision",
            "sprl",
            "self-paced",
            "the agent 'sprl' needs a teacher whose contexts are fitted together",
        ),
        (
            "gate-precision",
            "c-reps",
            "self-paced-joint",
            "needs an agent that fits the contexts together with its policy",
        ),
        (
            "gate-precision",
            "ppo",
            "default",
            "the agent 'ppo' acts step by step, the task 'gate-precision' is played in",
        ),
    ],
)
def test_parts_that_do_not_go_together_are_refused_by_what_they_can_do(
    task, agent, teacher, message
):
    parts = {"task": task, "agent": agent, "teacher": teacher}
    made = {kind: catalogue.make(kind, name) for kind, name in parts.items()}
    with pytest.raises(ValueError, match=message):
        RunConfig(**made).check()


def test_lanes_are_the_grid_of_settings_times_the_seeds():
    config = tiny(
        seeds=(4, 5),
        over={"teacher.schedule.zeta": (0.4, 0.8), "agent.learning_rate": (1e-3,)},
    )
    lanes = config.lanes()
    assert [(lane.seed, lane.settings["teacher.schedule.zeta"]) for lane in lanes] == [
        (4, 0.4),
        (5, 0.4),
        (4, 0.8),
        (5, 0.8),
    ]
    experiments = config.experiments()
    np.testing.assert_allclose(experiments.teacher.schedule.zeta, [0.4, 0.4, 0.8, 0.8])
    np.testing.assert_allclose(experiments.agent.learning_rate, 1e-3)


def test_a_swept_target_is_each_lanes_own():
    config = tiny(seeds=(1, 2), over={"teacher.target.mean": ((2.5, 0.5), (0.0, 4.0))})
    config.check()
    experiments = config.experiments()
    np.testing.assert_array_equal(
        experiments.teacher.aims_at.mean,
        np.float32([[2.5, 0.5], [2.5, 0.5], [0.0, 4.0], [0.0, 4.0]]),
    )
    np.testing.assert_array_equal(
        experiments.teacher.starts_at.mean, np.float32([[0.0, 4.25]] * 4)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"task": "point-mas-3d"},
            "unknown task 'point-mas-3d'; did you mean 'point-mass-3d'?",
        ),
        ({"agent": "pp"}, "unknown agent 'pp'; did you mean 'ppo'?"),
        (
            {"task": "gate"},
            "unknown task 'gate'; did you mean 'gate-precision', 'gate-global' or 'two-route-gate'?",
        ),
        (
            {"teacher": "selfpaced"},
            "unknown teacher 'selfpaced'; did you mean 'self-paced'?",
        ),
        ({"schedule": "bond"}, "unknown schedule 'bond'; did you mean 'bound'?"),
        ({"variant": "papr"}, "unknown variant 'papr'; known: published, article"),
        (
            {"teacher": "random", "schedule": "bound"},
            "the teacher 'random' has no schedule, got 'bound'",
        ),
        ({"start": "nowhere"}, "start must be initial or target, got 'nowhere'"),
        (
            {"teacher": "random", "start": "target"},
            "the teacher 'random' has no start, got 'target'",
        ),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(arguments, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        spjax.preset(**{"task": "point-mass-3d", **arguments})
    assert str(error.value) == message
