"""A task of your own: swing a pendulum up whose mass and length are the context."""

import dataclasses

import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.base import Env, EnvState
from spjax.settings import setting


@part("task", "pendulum")
@struct.dataclass
class Pendulum(Env):
    """A rod on a motor that is too weak to lift it at once; the angle is 0 rad when it stands."""

    gravity: float = setting(9.81, least=0, unit="m/s^2", help="pulls the mass down")

    context_space = ContextSpace(
        ("mass", "length"), ("kg", "m"), (0.1, 0.2), (2.0, 2.0)
    )
    initial = property(lambda self: Gaussian.from_std((0.3, 0.5), (0.1, 0.1)))
    target = property(lambda self: Gaussian.from_std((1.0, 1.0), (0.05, 0.05)))
    observation_size = 5
    action_lower = (-4.0,)  # torque, N m
    action_upper = (4.0,)
    horizon = 100  # control steps
    control_period = 0.05  # s

    def reset(self, key, context):
        """Returns the pendulum hanging still."""
        physics = jnp.array([jnp.pi, 0.0])  # angle [rad], velocity [rad/s]
        return EnvState.start(physics, observe(*physics, context), context)

    def dynamics(self, key, state, action):
        """Returns the state one control period later: one step of semi-implicit Euler."""
        (angle, velocity), (mass, length) = state.physics, state.context
        pull = self.gravity / length * jnp.sin(angle)
        velocity += self.control_period * (action[0] / (mass * length**2) + pull)
        angle += self.control_period * velocity
        return dataclasses.replace(
            state,
            physics=jnp.stack([angle, velocity]),
            observation=observe(angle, velocity, state.context),
            reward=(1 + jnp.cos(angle)) / 2,  # never negative: schedules weigh returns
            success=jnp.cos(angle) > 0.95,
        )

    def trace(self, state):
        """Returns where the mass is [m], for pictures and films."""
        angle = state.physics[0]
        return state.context[1] * jnp.stack([jnp.sin(angle), jnp.cos(angle)])


def observe(angle, velocity, context):
    """Returns cosine and sine of the angle, the velocity, and the context."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), velocity, *context])
