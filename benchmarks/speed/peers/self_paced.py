"""Self-paced teacher of Klink et al. (2021), Section 7, with SciPy's `trust-constr`, as the published results used it.

The rule (K_alpha, zeta): maximise the importance-weighted mean value minus alpha KL(p || target), subject to
KL(old || p) <= epsilon. Constants are those of the 3-D point mass. The published code took its gradients from
automatic differentiation in PyTorch; here they are analytic, in NumPy, which is faster.
"""

from collections import deque
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, NonlinearConstraint, minimize

from benchmarks.speed.peers import gaussian
from benchmarks.speed.peers.gaussian import Vector
from benchmarks.speed.peers.point_mass import CONTEXT_LOWER, CONTEXT_UPPER

INITIAL = gaussian.from_std(np.array([0.0, 4.25, 2.0]), np.array([2.0, 1.875, 1.0]))
TARGET = gaussian.from_std(np.array([2.5, 0.5, 0.0]), np.array([0.004, 0.00375, 0.002]))
MAX_ALPHA = 1e5
MAX_KL = 0.05  # epsilon
STD_FLOOR = np.array([0.2, 0.1875, 0.1])
STD_FLOOR_KL = 8000.0  # the floor holds while the KL to the target is larger
MAX_EPISODES = 1000  # that one update sees


class Episode(NamedTuple):
    """What the teacher learns about one finished episode."""

    first_observation: NDArray[np.float32]
    context: Vector
    discounted_return: float


class SelfPacedTeacher:
    """Moves the context distribution from what the agent can do to the target.

    Args:
        offset: K_alpha, in teacher updates.
        kl_proportion: zeta.
    """

    def __init__(self, offset: int, kl_proportion: float) -> None:
        self.parameters = INITIAL
        self._offset = offset
        self._kl_proportion = kl_proportion
        self._updates = 0

    def sample(self, generator: np.random.Generator) -> Vector:
        """Returns one context (3,), clipped to the bounds."""
        mean, chol = gaussian.unpack(self.parameters)
        return np.clip(
            mean + chol @ generator.standard_normal(mean.size),
            CONTEXT_LOWER,
            CONTEXT_UPPER,
        )

    def update(self, contexts: Vector, values: Vector, mean_return: float) -> None:
        """Moves the distribution, given contexts (M, 3), their values (M,) and the mean discounted return."""
        self._updates += 1
        target_kl, _ = gaussian.kl_to_target(self.parameters, TARGET)
        alpha = 0.0
        if self._updates >= self._offset:
            alpha = min(
                MAX_ALPHA,
                self._kl_proportion * max(0.0, mean_return) / max(1e-10, target_kl),
            )
        self.parameters = solve(
            self.parameters, contexts, values, alpha, floored=target_kl > STD_FLOOR_KL
        )


def solve(
    old: Vector, contexts: Vector, values: Vector, alpha: float, floored: bool
) -> Vector:
    """Returns the next distribution, or ``old`` where the solver found nothing that is feasible and better."""
    old_log_density = gaussian.log_density(old, contexts)

    def loss(parameters: Vector) -> tuple[float, Vector]:
        performance, performance_gradient = gaussian.expectation(
            parameters, contexts, old_log_density, values
        )
        divergence, divergence_gradient = gaussian.kl_to_target(parameters, TARGET)
        return (
            alpha * divergence - performance,
            alpha * divergence_gradient - performance_gradient,
        )

    lower = np.full(old.size, -np.inf)
    if floored:
        lower[STD_FLOOR.size : 2 * STD_FLOOR.size] = np.log(STD_FLOOR)
    start = np.maximum(old, lower)
    trust_region = NonlinearConstraint(
        fun=lambda parameters: gaussian.kl_from_old(parameters, old)[0],
        jac=lambda parameters: gaussian.kl_from_old(parameters, old)[1],
        lb=-np.inf,
        ub=MAX_KL,
        keep_feasible=True,
    )
    result = minimize(
        loss,
        start,
        method="trust-constr",
        jac=True,
        bounds=Bounds(lower, np.inf, keep_feasible=True) if floored else None,
        constraints=[trust_region],
        options={"gtol": 1e-4, "xtol": 1e-6},
    )
    feasible = (
        gaussian.kl_from_old(result.x, old)[0] <= MAX_KL
    )  # the bounds hold to rounding
    better = result.fun < loss(start)[0]
    return result.x if result.success or (feasible and better) else old


class Curriculum(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Starts every episode in a context of the teacher's choice and remembers how it went."""

    def __init__(
        self, env: gymnasium.Env[Any, Any], teacher: SelfPacedTeacher, discount: float
    ) -> None:
        super().__init__(env)
        self._teacher = teacher
        self._discount = discount
        self.episodes: deque[Episode] = deque(
            maxlen=MAX_EPISODES
        )  # since the last update of the teacher
        self.returns: list[
            float
        ] = []  # discounted, of the episodes that finished in this iteration

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Returns the first observation of an episode in a context drawn from the teacher."""
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._context = self._teacher.sample(self.np_random)
        self._first_observation, facts = self.env.reset(
            options={"context": self._context}
        )
        self._return, self._weight = 0.0, 1.0
        return self._first_observation, facts

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns what the wrapped environment returns."""
        observation, reward, terminated, truncated, facts = self.env.step(action)
        self._return += self._weight * float(reward)
        self._weight *= self._discount
        if terminated or truncated:
            self.episodes.append(
                Episode(self._first_observation, self._context, self._return)
            )
            self.returns.append(self._return)
        return observation, reward, terminated, truncated, facts
