"""The published results of the step-based learners: Tables 1 and 2 of Klink et al. (2021), 20 seeds each.

"Final" is the mean discounted return on the target tasks after the last iteration, +- one standard error. Table 2 prints
two decimals where Table 1 prints one, so the self-paced curriculum of the point mass is taken from there.
"""

from typing import NamedTuple

NUM_ITERATIONS = {"point-mass-3d": 400, "point-mass-2d": 400, "ball-catching": 500}
LAST_EVALUATED = 5  # iterations before the end: where the last model of PPO and SAC was saved and evaluated


class Method(NamedTuple):
    """What was trained, in the names of the run folder."""

    env: str
    agent: str
    teacher: str
    schedule: str | None = None
    starred: bool = False  # the paper's asterisk in ball catching; see `RunConfig.method`


class Estimate(NamedTuple):
    """A published mean with its standard error."""

    mean: float
    standard_error: float


class Published(NamedTuple):
    """What the paper prints about one method."""

    final: Estimate  # discounted return
    iterations: Estimate | None = None  # until 80 % of the lower final return of the two schedules


_P3D, _P2D, _BC = "point-mass-3d", "point-mass-2d", "ball-catching"

PAPER: dict[Method, Published] = {
    # Table 1
    Method(_P3D, "ppo", "alp-gmm"): Published(Estimate(2.43, 0.3)),
    Method(_P3D, "ppo", "goal-gan"): Published(Estimate(0.66, 0.1)),
    Method(_P3D, "ppo", "random"): Published(Estimate(0.67, 0.1)),
    Method(_P3D, "ppo", "default"): Published(Estimate(2.40, 0.0)),
    Method(_P3D, "sac", "alp-gmm"): Published(Estimate(4.68, 0.8)),
    Method(_P3D, "sac", "goal-gan"): Published(Estimate(2.14, 0.6)),
    Method(_P3D, "sac", "random"): Published(Estimate(2.70, 0.7)),
    Method(_P3D, "sac", "default"): Published(Estimate(2.47, 0.0)),
    Method(_P2D, "ppo", "alp-gmm"): Published(Estimate(5.23, 0.4)),
    Method(_P2D, "ppo", "goal-gan"): Published(Estimate(1.63, 0.5)),
    Method(_P2D, "ppo", "random"): Published(Estimate(2.49, 0.3)),
    Method(_P2D, "ppo", "default"): Published(Estimate(2.37, 0.0)),
    Method(_P2D, "sac", "alp-gmm"): Published(Estimate(5.11, 0.7)),
    Method(_P2D, "sac", "goal-gan"): Published(Estimate(1.34, 0.4)),
    Method(_P2D, "sac", "random"): Published(Estimate(4.99, 0.8)),
    Method(_P2D, "sac", "default"): Published(Estimate(2.40, 0.0)),
    Method(_BC, "trpo", "alp-gmm"): Published(Estimate(39.8, 1.1)),
    Method(_BC, "trpo", "goal-gan"): Published(Estimate(42.5, 1.6)),
    Method(_BC, "trpo", "goal-gan", None, True): Published(Estimate(45.8, 1.0)),
    Method(_BC, "trpo", "default"): Published(Estimate(21.0, 0.3)),
    Method(_BC, "trpo", "default", None, True): Published(Estimate(21.2, 0.3)),
    Method(_BC, "ppo", "alp-gmm"): Published(Estimate(46.5, 0.7)),
    Method(_BC, "ppo", "goal-gan"): Published(Estimate(42.6, 2.7)),
    Method(_BC, "ppo", "goal-gan", None, True): Published(Estimate(45.9, 1.0)),
    Method(_BC, "ppo", "default"): Published(Estimate(22.1, 0.3)),
    Method(_BC, "ppo", "default", None, True): Published(Estimate(23.0, 0.7)),
    # Table 2
    Method(_P3D, "trpo", "self-paced", "proportion"): Published(Estimate(8.04, 0.25), Estimate(198.0, 18.0)),
    Method(_P3D, "trpo", "self-paced", "bound"): Published(Estimate(7.79, 0.28), Estimate(220.0, 19.0)),
    Method(_P3D, "ppo", "self-paced", "proportion"): Published(Estimate(8.45, 0.42), Estimate(165.0, 14.0)),
    Method(_P3D, "ppo", "self-paced", "bound"): Published(Estimate(8.66, 0.07), Estimate(120.0, 10.0)),
    Method(_P3D, "sac", "self-paced", "proportion"): Published(Estimate(6.85, 0.77), Estimate(94.0, 8.0)),
    Method(_P3D, "sac", "self-paced", "bound"): Published(Estimate(7.13, 0.71), Estimate(67.0, 4.0)),
    Method(_P2D, "trpo", "self-paced", "proportion"): Published(Estimate(7.47, 0.33), Estimate(201.0, 20.0)),
    Method(_P2D, "trpo", "self-paced", "bound"): Published(Estimate(7.67, 0.2), Estimate(198.0, 19.0)),
    Method(_P2D, "ppo", "self-paced", "proportion"): Published(Estimate(8.94, 0.10), Estimate(132.0, 5.0)),
    Method(_P2D, "ppo", "self-paced", "bound"): Published(Estimate(9.01, 0.07), Estimate(119.0, 3.0)),
    Method(_P2D, "sac", "self-paced", "proportion"): Published(Estimate(5.67, 0.77), Estimate(134.0, 30.0)),
    Method(_P2D, "sac", "self-paced", "bound"): Published(Estimate(6.56, 0.82), Estimate(59.0, 3.0)),
    Method(_BC, "trpo", "self-paced", "proportion"): Published(Estimate(47.0, 2.0), Estimate(379.0, 21.0)),
    Method(_BC, "trpo", "self-paced", "bound"): Published(Estimate(50.0, 1.5), Estimate(320.0, 20.0)),
    Method(_BC, "ppo", "self-paced", "proportion"): Published(Estimate(53.9, 0.4), Estimate(285.0, 19.0)),
    Method(_BC, "ppo", "self-paced", "bound"): Published(Estimate(51.6, 1.7), Estimate(234.0, 12.0)),
    Method(_BC, "sac", "self-paced", "proportion"): Published(Estimate(34.1, 2.3), Estimate(205.0, 12.0)),
    Method(_BC, "sac", "self-paced", "bound"): Published(Estimate(34.1, 1.3), Estimate(139.0, 8.0)),
    Method(_BC, "trpo", "self-paced", "proportion", True): Published(Estimate(43.3, 2.0), Estimate(354.0, 18.0)),
    Method(_BC, "trpo", "self-paced", "bound", True): Published(Estimate(46.0, 1.5), Estimate(285.0, 20.0)),
    Method(_BC, "ppo", "self-paced", "proportion", True): Published(Estimate(49.3, 1.4), Estimate(224.0, 7.0)),
    Method(_BC, "ppo", "self-paced", "bound", True): Published(Estimate(51.8, 0.5), Estimate(212.0, 17.0)),
    Method(_BC, "sac", "self-paced", "proportion", True): Published(Estimate(36.9, 1.0), Estimate(235.0, 23.0)),
    Method(_BC, "sac", "self-paced", "bound", True): Published(Estimate(37.1, 1.2), Estimate(173.0, 20.0)),
}


def published(method: Method, last_evaluated: int) -> Published | None:
    """Returns what the paper prints, None where it prints nothing or the run was not as long as the published ones."""
    length = NUM_ITERATIONS.get(method.env, 0)
    if not length - LAST_EVALUATED <= last_evaluated <= length:
        return None
    return PAPER.get(method)
