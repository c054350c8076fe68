"""What Klink et al. (2021) print in Tables 1 and 2: step-based agents, 20 seeds each.

"Final" is the mean discounted return on the target tasks after the last iteration, +- one standard
error. Table 2 prints two decimals where Table 1 prints one, so the self-paced curriculum of the
point mass is taken from there; its iterations are those to 80 % of the lower final return of the
two schedules.

In ball catching the paper stars self-paced curricula and GoalGAN whose contexts start at the initial
distribution, and Default without a policy that was cloned to hold still.

The ant's printed returns are above the largest discounted one that its printed reward allows, 6 in
each of 750 steps or 1,172 at gamma = 0.995, so they are taken for returns without discount, whose
largest is 4,500. How long it was trained is not printed; 400 iterations are ours.
"""

from typing import NamedTuple

from spjax.runs.schema import Estimate, Reference

SOURCE = "Klink et al. (2021)"
NUM_ITERATIONS = {
    "point-mass-3d": 400,
    "point-mass-2d": 400,
    "ball-catching": 500,
    "ant": 400,
}
UNDISCOUNTED = ("ant",)  # tasks whose printed returns are taken for "episode_return"
# iterations before the end at which the last policies of PPO and SAC were saved and evaluated
SAVED_BEFORE_THE_END = 5


def published(
    task: str,
    agent: str,
    teacher: str,
    schedule: str | None = None,
    start: str | None = None,
    hold_position: bool = False,
) -> Reference | None:
    """Returns what the paper prints about one experiment, None where it prints nothing.

    Args:
        task: name of the task.
        agent: name of the agent.
        teacher: name of the teacher.
        schedule: of the self-paced teacher.
        start: distribution that the contexts start from, "initial" or "target"; None for teachers
            without one.
        hold_position: whether the policy was cloned to the zero action before training.
    """
    printed = _PRINTED.get(
        Experiment(task, agent, teacher, schedule, start, hold_position)
    )
    if printed is None:
        return None
    length = NUM_ITERATIONS[task]
    return Reference(
        final=printed.final,
        iterations=printed.iterations,
        num_iterations=length,
        last_evaluated=length - SAVED_BEFORE_THE_END,
        source=SOURCE,
        metric="episode_return" if task in UNDISCOUNTED else "discounted_return",
    )


class Experiment(NamedTuple):
    """What tells the printed experiments apart; the arguments of `published`."""

    task: str
    agent: str
    teacher: str
    schedule: str | None
    start: str | None
    hold_position: bool


class Printed(NamedTuple):
    """The numbers of one experiment."""

    final: Estimate
    iterations: Estimate | None


def experiments() -> list[Experiment]:
    """Returns every experiment that is in print."""
    return list(_PRINTED)


# task and agent -> teacher -> final return, of Table 1
_POINT_MASS_BASELINES = {
    ("point-mass-3d", "ppo"): {
        "alp-gmm": (2.43, 0.3),
        "goal-gan": (0.66, 0.1),
        "random": (0.67, 0.1),
        "default": (2.40, 0.0),
    },
    ("point-mass-3d", "sac"): {
        "alp-gmm": (4.68, 0.8),
        "goal-gan": (2.14, 0.6),
        "random": (2.70, 0.7),
        "default": (2.47, 0.0),
    },
    ("point-mass-2d", "ppo"): {
        "alp-gmm": (5.23, 0.4),
        "goal-gan": (1.63, 0.5),
        "random": (2.49, 0.3),
        "default": (2.37, 0.0),
    },
    ("point-mass-2d", "sac"): {
        "alp-gmm": (5.11, 0.7),
        "goal-gan": (1.34, 0.4),
        "random": (4.99, 0.8),
        "default": (2.40, 0.0),
    },
}

# agent -> (teacher, start, cloned policy) -> final return, of Table 1
_CATCHING_BASELINES = {
    "trpo": {
        ("alp-gmm", None, True): (39.8, 1.1),
        ("goal-gan", "target", True): (42.5, 1.6),
        ("goal-gan", "initial", True): (45.8, 1.0),
        ("default", None, True): (21.0, 0.3),
        ("default", None, False): (21.2, 0.3),
    },
    "ppo": {
        ("alp-gmm", None, True): (46.5, 0.7),
        ("goal-gan", "target", True): (42.6, 2.7),
        ("goal-gan", "initial", True): (45.9, 1.0),
        ("default", None, True): (22.1, 0.3),
        ("default", None, False): (23.0, 0.7),
    },
}

# task and start -> agent and schedule -> final return and iterations, of Table 2
_SELF_PACED = {
    ("point-mass-3d", "initial"): {
        ("trpo", "proportion"): ((8.04, 0.25), (198.0, 18.0)),
        ("trpo", "bound"): ((7.79, 0.28), (220.0, 19.0)),
        ("ppo", "proportion"): ((8.45, 0.42), (165.0, 14.0)),
        ("ppo", "bound"): ((8.66, 0.07), (120.0, 10.0)),
        ("sac", "proportion"): ((6.85, 0.77), (94.0, 8.0)),
        ("sac", "bound"): ((7.13, 0.71), (67.0, 4.0)),
    },
    ("point-mass-2d", "initial"): {
        ("trpo", "proportion"): ((7.47, 0.33), (201.0, 20.0)),
        ("trpo", "bound"): ((7.67, 0.20), (198.0, 19.0)),
        ("ppo", "proportion"): ((8.94, 0.10), (132.0, 5.0)),
        ("ppo", "bound"): ((9.01, 0.07), (119.0, 3.0)),
        ("sac", "proportion"): ((5.67, 0.77), (134.0, 30.0)),
        ("sac", "bound"): ((6.56, 0.82), (59.0, 3.0)),
    },
    ("ant", "initial"): {
        ("ppo", "proportion"): ((1371.0, 23.0), (131.0, 3.0)),
        ("ppo", "bound"): ((1305.0, 38.0), (131.0, 2.0)),
    },
    ("ball-catching", "target"): {
        ("trpo", "proportion"): ((47.0, 2.0), (379.0, 21.0)),
        ("trpo", "bound"): ((50.0, 1.5), (320.0, 20.0)),
        ("ppo", "proportion"): ((53.9, 0.4), (285.0, 19.0)),
        ("ppo", "bound"): ((51.6, 1.7), (234.0, 12.0)),
        ("sac", "proportion"): ((34.1, 2.3), (205.0, 12.0)),
        ("sac", "bound"): ((34.1, 1.3), (139.0, 8.0)),
    },
    ("ball-catching", "initial"): {
        ("trpo", "proportion"): ((43.3, 2.0), (354.0, 18.0)),
        ("trpo", "bound"): ((46.0, 1.5), (285.0, 20.0)),
        ("ppo", "proportion"): ((49.3, 1.4), (224.0, 7.0)),
        ("ppo", "bound"): ((51.8, 0.5), (212.0, 17.0)),
        ("sac", "proportion"): ((36.9, 1.0), (235.0, 23.0)),
        ("sac", "bound"): ((37.1, 1.2), (173.0, 20.0)),
    },
}


def _printed() -> dict[Experiment, Printed]:
    """Returns all tables as one."""
    found: dict[Experiment, Printed] = {}
    for (task, agent), baselines in _POINT_MASS_BASELINES.items():
        for teacher, final in baselines.items():
            start = "initial" if teacher == "goal-gan" else None
            experiment = Experiment(task, agent, teacher, None, start, False)
            found[experiment] = Printed(Estimate(*final), None)
    for agent, rows in _CATCHING_BASELINES.items():
        for (teacher, moved_from, cloned), final in rows.items():
            experiment = Experiment(
                "ball-catching", agent, teacher, None, moved_from, cloned
            )
            found[experiment] = Printed(Estimate(*final), None)
    for (task, start), cells in _SELF_PACED.items():
        cloned = task == "ball-catching"
        for (agent, schedule), (final, iterations) in cells.items():
            experiment = Experiment(task, agent, "self-paced", schedule, start, cloned)
            found[experiment] = Printed(Estimate(*final), Estimate(*iterations))
    return found


_PRINTED = _printed()
