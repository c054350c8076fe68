"""A small episodic task whose best parameters are known."""

import dataclasses

import jax.numpy as jnp

from spjax.contexts import ContextSpace
from spjax.envs.episodic import EpisodicTask, diagonal
from spjax.episodes import Outcome


@dataclasses.dataclass(frozen=True)
class Aim(EpisodicTask):
    """Reward 10 exp(-|theta - (c, 1, ...)|^2 / 4), or 1 for a success: the best policy is linear in the context."""

    size: int = 2
    sparse: bool = False

    name = "aim"
    control_period = 1.0
    horizon = 1
    context_space = ContextSpace(("place",), ("m",), (-3.0,), (3.0,))
    initial_mean = (0.0,)
    initial_covariance = diagonal(1.0)
    target_mean = (2.0,)
    target_covariance = diagonal(0.01)

    @property
    def parameter_lower(self):
        return (-5.0,) * self.size

    @property
    def parameter_upper(self):
        return (5.0,) * self.size

    @property
    def parameter_std(self):
        return (2.0,) * self.size

    def rollout(self, key, theta, context):
        goal = jnp.ones_like(theta).at[0].set(context[0])
        distance = jnp.linalg.norm(theta - goal)
        success = distance < 0.5
        reward = 1.0 * success if self.sparse else 10 * jnp.exp(-(distance**2) / 4)
        return Outcome(reward=reward, success=success, length=jnp.ones((), jnp.int32))

    def trace(self, key, theta, context):
        return theta[None, :2]

    def scenery(self, context):
        return []
