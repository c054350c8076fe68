"""The contract of episodic tasks, for black-box learners: a whole rollout is one function of its parameters and the context.

A task is a frozen, hashable dataclass of static facts with pure functions for one rollout, which the caller maps over many.
"""

import abc

import numpy as np
from jaxtyping import Array, Float

from spjax.contexts import Gaussian
from spjax.envs.base import Task
from spjax.episodes import Outcome

Covariance = tuple[tuple[float, ...], ...]


class EpisodicTask(Task):
    """What every episodic task offers."""

    parameter_lower: tuple[float, ...]  # bounds of theta
    parameter_upper: tuple[float, ...]
    parameter_std: tuple[float, ...]  # of the published initial search distribution, whose mean is 0
    initial_covariance: Covariance  # of the published initial context distribution, squared context units
    target_covariance: Covariance

    @property
    def parameter_size(self) -> int:
        """The number of entries of theta."""
        return len(self.parameter_lower)

    @property
    def initial_std(self) -> tuple[float, ...]:  # type: ignore[override]
        """Standard deviations of the published initial context distribution."""
        return _stds(self.initial_covariance)

    @property
    def target_std(self) -> tuple[float, ...]:  # type: ignore[override]
        """Standard deviations of the published target distribution."""
        return _stds(self.target_covariance)

    @property
    def initial(self) -> Gaussian:
        """The published initial context distribution, not truncated to the bounds."""
        return Gaussian.from_covariance(np.asarray(self.initial_mean), np.asarray(self.initial_covariance))

    @property
    def target(self) -> Gaussian:
        """The published target distribution mu, not truncated to the bounds."""
        return Gaussian.from_covariance(np.asarray(self.target_mean), np.asarray(self.target_covariance))

    @abc.abstractmethod
    def rollout(self, key: Array, theta: Float[Array, " parameter"], context: Float[Array, " dim"]) -> Outcome:
        """Returns the reward, always finite, and the success of one rollout; theta and context as they are, not clipped."""

    @abc.abstractmethod
    def trace(
        self, key: Array, theta: Float[Array, " parameter"], context: Float[Array, " dim"]
    ) -> Float[Array, "time 2"]:
        """Returns the points of the plane that the rollout with the same arguments goes through, horizon + 1 of them."""


def diagonal(*variances: float) -> Covariance:
    """Returns the covariance of independent dimensions."""
    return tuple(tuple(v if i == j else 0.0 for j in range(len(variances))) for i, v in enumerate(variances))


def _stds(covariance: Covariance) -> tuple[float, ...]:
    return tuple(float(np.sqrt(row[i])) for i, row in enumerate(covariance))
