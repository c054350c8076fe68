"""The published results on the point mass: Tables 1 and 2 of Klink et al. (2021), 20 seeds each.

"Final" is the mean discounted return on the target tasks after 400 iterations, +- one standard error. Table 2 prints
two decimals where Table 1 prints one, so the self-paced curriculum is taken from there.
"""

from typing import NamedTuple

NUM_ITERATIONS = 400
LAST_EVALUATED = 395  # the last model of PPO and SAC that was saved and evaluated


class Method(NamedTuple):
    """What was trained, in the names of the run folder."""

    env: str
    agent: str
    teacher: str
    schedule: str | None = None


class Estimate(NamedTuple):
    """A published mean with its standard error."""

    mean: float
    standard_error: float


class Published(NamedTuple):
    """What the paper prints about one method."""

    final: Estimate  # discounted return
    iterations: Estimate | None = None  # until 80 % of the lower final return of the two schedules


_P3D, _P2D = "point-mass-3d", "point-mass-2d"

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
}
