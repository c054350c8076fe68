"""The contract of episodic tasks, for black-box learners: a whole rollout is one function of its parameters and the context.

Parallel to `spjax.envs.base`: a task is a frozen, hashable dataclass of static facts with pure functions for one rollout, which
the caller maps over many.
"""

import abc

import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float
from spjax.envs.registry import Registry

from spjax.contexts import ContextSpace, Gaussian

Covariance = tuple[tuple[float, ...], ...]


@struct.dataclass
class Outcome:
    """What a rollout gave."""

    reward: Float[Array, ""]
    success: Bool[Array, ""]


class EpisodicTask(abc.ABC):
    """What every episodic task offers."""

    name: str
    parameter_lower: tuple[float, ...]  # bounds of theta
    parameter_upper: tuple[float, ...]
    parameter_std: tuple[float, ...]  # of the published initial search distribution, whose mean is 0
    context_space: ContextSpace
    initial_mean: tuple[float, ...]  # published initial context distribution
    initial_covariance: Covariance  # squared context units
    target_mean: tuple[float, ...]  # published target distribution
    target_covariance: Covariance
    goal: tuple[float, float] | None = None  # a point to mark in pictures of trajectories
    plane: tuple[str, str] = ("x", "y")  # the axes of these pictures
    scenery_name: str = "wall"  # what their polylines are

    @property
    def parameter_size(self) -> int:
        """The number of entries of theta."""
        return len(self.parameter_lower)

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
        """Returns the points of the plane that the rollout with the same arguments goes through."""

    @abc.abstractmethod
    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the polylines (walls) that pictures of trajectories show for one context."""


def diagonal(*variances: float) -> Covariance:
    """Returns the covariance of independent dimensions."""
    return tuple(tuple(v if i == j else 0.0 for j in range(len(variances))) for i, v in enumerate(variances))


_TASKS: Registry[EpisodicTask] = Registry("episodic task")
register, names, make = _TASKS.register, _TASKS.names, _TASKS.make
