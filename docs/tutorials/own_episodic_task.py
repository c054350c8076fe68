"""An episodic task of your own: throw a ball into a basket; the context is where the basket hangs."""

import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.episodes import Outcome
from spjax.settings import setting


@part("task", "throw")
@struct.dataclass
class Throw(EpisodicTask):
    """The two parameters are the speed of the ball: forwards and upwards [m/s]."""

    gravity: float = setting(9.81, above=0, unit="m/s^2", help="pulls the ball down")

    context_space = ContextSpace(
        ("distance", "height"), ("m", "m"), (0.5, 0.0), (5.0, 3.0)
    )
    initial = property(lambda self: Gaussian.from_std((1.0, 0.5), (0.3, 0.3)))
    target = property(lambda self: Gaussian.from_std((4.0, 2.5), (0.1, 0.1)))
    parameter_lower = (0.0, 0.0)
    parameter_upper = (10.0, 12.0)
    parameter_std = (3.0, 3.0)
    horizon = 40  # control steps
    control_period = 0.05  # s

    def rollout(self, key, theta, context):
        """Returns a reward between 0 and 1: how near the ball comes to the basket."""
        path = self.path(theta)
        miss = jnp.sqrt(((path - context) ** 2).sum(axis=1) + 1e-6).min()
        length = jnp.asarray(self.horizon)
        return Outcome(reward=jnp.exp(-miss), success=miss < 0.1, length=length)

    def states(self, key, theta, context):
        """Returns the states of the same rollout, for pictures and films."""
        return whole_rollout(
            self.path(theta), self.rollout(key, theta, context), context
        )

    def path(self, theta):
        """Returns where the ball is [m] after 0, 1, ... control steps."""
        time = self.control_period * jnp.arange(self.horizon + 1)
        forwards = theta[0] * time
        upwards = theta[1] * time - self.gravity / 2 * time**2
        return jnp.stack([forwards, upwards], axis=1)

    def trace(self, state):
        """Returns the point of the path."""
        return state.physics

    def scenery(self, context):
        """Returns what pictures draw besides the path: the basket."""
        distance, height = context
        return [[(distance - 0.1, height), (distance + 0.1, height)]]
