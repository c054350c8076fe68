"""What is listed can be run."""

import pytest

from spjax import catalogue
from spjax.presets import base, preset, preset_names
from spjax.presets.table import SCHEDULED, STARTED, Table
from tests.built_in import built_in


@pytest.mark.slow
def test_every_listed_preset_can_be_run():
    names = preset_names()
    # eight curricula of three learners on four tasks, four of which have a second start in ball catching; the episodic ones
    # of two gates, cup and reacher; PPO on the reacher; DORAEMON and CURROT on the point masses; two
    # curricula under two schedules and the default on the two-route gate
    assert len(names) == 4 * 3 * 8 + 3 * 4 + 2 + 4 * 5 + 1 + 2 * 3 * 2 + 5
    for task, agent, teacher, schedule, start in names:
        config = preset(task, agent, teacher, schedule, start=start)
        config.check()
        assert start in (None, config.preset.start)
        assert config.preset.schedule == schedule
        assert config.task.name == task
        assert (catalogue.name_of(config.agent), catalogue.name_of(config.teacher)) == (
            agent,
            teacher,
        )


def test_teachers_that_are_listed_with_starts_and_schedules_declare_them():
    declared = {
        name: catalogue.find("teacher", name).cls.declared()
        for name in built_in("teacher")
    }
    assert {name for name in declared if "start" in declared[name]} == set(STARTED)
    assert {name for name in declared if "schedule" in declared[name]} == {
        *SCHEDULED,
        "self-paced-joint",
    }


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"task": "point-mas-2d"},
            "unknown task 'point-mas-2d'; did you mean 'point-mass-2d'?",
        ),
        ({"variant": "articel"}, "unknown variant 'articel'; did you mean 'article'?"),
        (
            {"teacher": "self-pased"},
            "unknown teacher 'self-pased'; did you mean 'self-paced'?",
        ),
        ({"schedule": "bond"}, "unknown schedule 'bond'; did you mean 'bound'?"),
        (
            {"teacher": "spgl", "schedule": "bound"},
            "the teacher 'spgl' has no schedule, got 'bound'",
        ),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest(choice, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        preset(**{"task": "point-mass-3d", **choice})
    assert str(error.value) == message


def test_a_table_that_misspells_a_part_is_an_error_and_not_ignored(monkeypatch):
    table = Table(
        agents={"ppo": ("default",)}, settings=lambda names: {"agnet": {"num_envs": 1}}
    )
    monkeypatch.setattr(base, "table_of", lambda task: table)
    with pytest.raises(TypeError, match="agnet"):
        base.preset("point-mass-2d")
