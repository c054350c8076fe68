"""Tiny environments whose right values and actions are known, so that learning can be asserted in seconds."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from spjax.contexts import ContextSpace
from spjax.envs.base import Env, EnvState


@dataclasses.dataclass(frozen=True)
class Probe(Env):
    """The context is observed; subclasses say what an action earns."""

    name = "probe"
    observation_size = 2
    action_lower = (-1.0,)
    action_upper = (1.0,)
    horizon = 1
    control_period = 1.0
    context_space = ContextSpace(("target",), ("1",), (-1.0,), (1.0,))
    initial_mean = target_mean = (0.0,)
    initial_std = target_std = (0.5,)

    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        no = jnp.asarray(False)
        context = self.context_space.clip(context)
        return EnvState(
            physics=(),
            observation=self.observe(context, jnp.zeros(())),
            reward=jnp.zeros(()),
            terminated=no,
            truncated=no,
            success=no,
            context=context,
            time_step=jnp.zeros((), jnp.int32),
        )

    def step(self, key: Array, state: EnvState, action: Float[Array, "1"]) -> EnvState:
        time_step = state.time_step + 1
        return state.replace(
            observation=self.observe(state.context, time_step.astype(float)),
            reward=self.reward(state, action),
            terminated=self.ends(time_step),
            truncated=~self.ends(time_step) & (time_step >= self.horizon),
            time_step=time_step,
        )

    def observe(self, context: Array, time: Array) -> Array:
        return jnp.stack([context[0], time])

    def reward(self, state: EnvState, action: Array) -> Array:
        return jnp.ones(())

    def ends(self, time_step: Array) -> Array:
        return time_step >= self.horizon

    def trace(self, state: EnvState) -> Array:
        return state.observation

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        return []


@dataclasses.dataclass(frozen=True)
class ConstantReward(Probe):
    """One step, reward 1: the value is 1."""


@dataclasses.dataclass(frozen=True)
class DelayedReward(Probe):
    """Two steps, reward 1 at the second: values gamma, then 1."""

    horizon = 2

    def reward(self, state: EnvState, action: Array) -> Array:
        return (state.time_step == 1).astype(float)


@dataclasses.dataclass(frozen=True)
class EndlessReward(Probe):
    """Reward 1 for ever, cut every five steps: with a bootstrap the value is 1 / (1 - gamma)."""

    horizon = 5

    def observe(self, context: Array, time: Array) -> Array:
        return jnp.zeros(2)

    def ends(self, time_step: Array) -> Array:
        return jnp.asarray(False)


@dataclasses.dataclass(frozen=True)
class MatchContext(Probe):
    """One step, reward -(action - context / 2)^2: the right action is half the context."""

    def reward(self, state: EnvState, action: Array) -> Array:
        return -((action[0] - 0.5 * state.context[0]) ** 2)
