"""Tiny environments whose right values and actions are known, so that learning can be asserted in seconds."""

import dataclasses

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.base import Env, EnvState


@struct.dataclass
class Probe(Env):
    """The context is observed; subclasses say what an action earns."""

    observation_size = 2
    action_lower = (-1.0,)
    action_upper = (1.0,)
    horizon = 1
    control_period = 1.0
    context_space = ContextSpace(("target",), ("1",), (-1.0,), (1.0,))

    @property
    def initial(self) -> Gaussian:
        return Gaussian.from_std((0.0,), (0.5,))

    @property
    def target(self) -> Gaussian:
        return self.initial

    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        context = self.context_space.clip(context)
        return EnvState.start((), self.observe(context, jnp.zeros(())), context)

    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, "1"]
    ) -> EnvState:
        time_step = state.time_step + 1
        return dataclasses.replace(
            state,
            observation=self.observe(state.context, time_step.astype(float)),
            reward=self.reward(state, action),
            terminated=self.terminates(time_step),
        )

    def observe(self, context: Array, time: Array) -> Array:
        return jnp.stack([context[0], time])

    def reward(self, state: EnvState, action: Array) -> Array:
        return jnp.ones(())

    def terminates(self, time_step: Array) -> Array:
        return time_step >= self.horizon

    def trace(self, state: EnvState) -> Array:
        return state.observation


@struct.dataclass
class ConstantReward(Probe):
    """One step, reward 1: the value is 1."""


@struct.dataclass
class DelayedReward(Probe):
    """Two steps, reward 1 at the second: values gamma, then 1."""

    horizon = 2

    def reward(self, state: EnvState, action: Array) -> Array:
        return (state.time_step == 1).astype(float)


@struct.dataclass
class EndlessReward(Probe):
    """Reward 1 for ever, cut every five steps: with a bootstrap the value is 1 / (1 - gamma)."""

    horizon = 5

    def observe(self, context: Array, time: Array) -> Array:
        return jnp.zeros(2)

    def terminates(self, time_step: Array) -> Array:
        return jnp.asarray(False)


@struct.dataclass
class MatchContext(Probe):
    """One step, reward -(action - context / 2)^2: the right action is half the context."""

    def reward(self, state: EnvState, action: Array) -> Array:
        return -((action[0] - 0.5 * state.context[0]) ** 2)
