"""A small episodic task whose best parameters are known."""

import jax.numpy as jnp
from flax import struct

from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.episodes import Outcome


class ToyTask(EpisodicTask):
    """What the tests' tasks share: one control step, and nothing to look at."""

    control_period = 1.0
    horizon = 1

    def states(self, key, theta, context):
        still = jnp.tile(theta[:2], (self.horizon + 1, 1))
        return whole_rollout(still, self.rollout(key, theta, context), context)

    def trace(self, state):
        return state.physics


@struct.dataclass
class Aim(ToyTask):
    """Reward 10 exp(-|theta - (c, 1, ...)|^2 / 4), or 1 for a success: the best policy is linear in the context."""

    size: int = struct.field(pytree_node=False, default=2)
    sparse: bool = struct.field(pytree_node=False, default=False)

    context_space = ContextSpace(("place",), ("m",), (-3.0,), (3.0,))

    @property
    def initial(self):
        return Gaussian.from_std((0.0,), (1.0,), outside="redraw")

    @property
    def target(self):
        return Gaussian.from_std((2.0,), (0.1,), outside="redraw")

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
        reward = (
            success.astype(float) if self.sparse else 10 * jnp.exp(-(distance**2) / 4)
        )
        return Outcome(reward=reward, success=success, length=jnp.ones((), jnp.int32))
