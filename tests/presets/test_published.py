import pytest

from spjax.presets.published import Experiment, experiments, published
from spjax.runs.schema import Estimate

SELF_PACED = [
    (agent, schedule)
    for agent in ("trpo", "ppo", "sac")
    for schedule in ("proportion", "bound")
]


@pytest.mark.parametrize("task", ["point-mass-3d", "point-mass-2d"])
def test_every_method_of_both_point_masses_is_there(task: str) -> None:
    for agent, schedule in SELF_PACED:
        assert (
            published(task, agent, "self-paced", schedule, "initial").iterations
            is not None
        )
    for agent in ("ppo", "sac"):
        for teacher, start in (
            ("alp-gmm", None),
            ("goal-gan", "initial"),
            ("random", None),
            ("default", None),
        ):
            assert published(task, agent, teacher, None, start).iterations is None
    assert sum(experiment.task == task for experiment in experiments()) == 3 * 2 + 2 * 4


def test_ball_catching_has_self_paced_curricula_of_every_agent_and_others_of_two() -> (
    None
):
    for agent, schedule in SELF_PACED:
        for start in ("target", "initial"):
            assert (
                published(
                    "ball-catching", agent, "self-paced", schedule, start, True
                ).iterations
                is not None
            )
    for agent in ("trpo", "ppo"):
        for start in ("target", "initial"):
            assert (
                published(
                    "ball-catching", agent, "goal-gan", None, start, True
                ).iterations
                is None
            )
        for cloned in (False, True):
            assert (
                published("ball-catching", agent, "default", None, None, cloned)
                is not None
            )
        assert (
            published("ball-catching", agent, "alp-gmm", None, None, True) is not None
        )
    assert (
        sum(experiment.task == "ball-catching" for experiment in experiments())
        == 3 * 4 + 2 * 5
    )


def test_the_headline_numbers_are_those_of_tables_1_and_2() -> None:
    best = published("point-mass-3d", "ppo", "self-paced", "bound", "initial")
    assert (best.final, best.iterations) == (Estimate(8.66, 0.07), Estimate(120, 10))
    assert (best.num_iterations, best.last_evaluated, best.source) == (
        400,
        395,
        "Klink et al. (2021)",
    )
    assert published("point-mass-2d", "sac", "random").final == Estimate(4.99, 0.8)
    catching = published(
        "ball-catching", "ppo", "self-paced", "proportion", "target", True
    )
    assert (catching.final, catching.num_iterations) == (Estimate(53.9, 0.4), 500)


def test_the_ants_returns_are_above_the_largest_discounted_one_and_so_without_discount() -> (
    None
):
    largest = 6 * (1 - 0.995**750) / (1 - 0.995)
    for schedule, final, iterations in (
        ("proportion", Estimate(1371, 23), Estimate(131, 3)),
        ("bound", Estimate(1305, 38), Estimate(131, 2)),
    ):
        found = published("ant", "ppo", "self-paced", schedule, "initial")
        assert (found.final, found.iterations) == (final, iterations)
        assert (found.metric, found.final.mean > largest) == ("episode_return", True)
    assert published("ant", "ppo", "alp-gmm") is None
    others = [e for e in experiments() if e.task != "ant"]
    assert {published(*e).metric for e in others} == {"discounted_return"}


@pytest.mark.parametrize(
    "changed",
    [
        {"start": "target"},
        {"hold_position": True},
        {"agent": "c-reps"},
        {"schedule": None},
        {"task": "mine"},
    ],
)
def test_another_experiment_is_not_in_print(changed: dict) -> None:
    printed = Experiment(
        "point-mass-3d", "ppo", "self-paced", "bound", "initial", False
    )
    assert published(*printed) is not None
    assert published(**(printed._asdict() | changed)) is None


def test_the_self_paced_curriculum_beats_every_other_in_print() -> None:
    for experiment in experiments():
        if experiment.schedule is None:
            start, cloned = (
                ("target", True)
                if experiment.task == "ball-catching"
                else ("initial", False)
            )
            ours = published(
                experiment.task,
                experiment.agent,
                "self-paced",
                "proportion",
                start,
                cloned,
            )
            assert ours.final.mean > published(*experiment).final.mean
