"""Observations and rewards on a scale of their own (Stable Baselines 2.5.1, `VecNormalize`).

    observation   (o - mean) / sqrt(variance + epsilon), clipped to [-10, 10]; mean and variance of all observations so far
    reward        r / sqrt(variance + epsilon), clipped likewise; variance of all R so far, R = r + gamma R of the step before

R begins at each episode anew. All slots share the statistics, which are a part of the agent's state, and change at every control
step of training and nowhere else: an observation is among those that it is normalised by, R among those that its reward is.

Sets of statistics are joined by the formulas of Chan, Golub and LeVeque (1983), written for variances in place of sums of
squares. What comes in during an iteration is gathered apart and joined with the rest where it is used: so no sum adds a millionth
of itself, of which single precision would keep nothing. The published statistics are in double precision, and begin with the
ten-thousandth part of an observation of mean 0 and variance 1; here they begin with nothing.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.step_based.rollout import (
    Act,
    Assign,
    Slot,
    Transitions,
    flat,
    step_keys,
    step_slots,
)
from spjax.envs.base import Env
from spjax.episodes import Episodes

CLIP = 10.0  # standard deviations
EPSILON = 1e-8  # added to variances


@struct.dataclass
class Moments:
    """Number, mean and variance of what was seen so far."""

    count: Float[Array, ""]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]  # divided by the number; 1 where there is none

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "Moments":
        """Returns those of nothing, under which everything stays as it is."""
        return cls(jnp.zeros(()), jnp.zeros(shape), jnp.ones(shape))

    @classmethod
    def of(cls, rows: Float[Array, " row *shape"]) -> "Moments":
        """Returns those of some rows."""
        # from the first row on: equal rows have no variance at all, and a far origin costs no digits
        origin = rows[:1]
        mean = (rows - origin).mean(axis=0)
        variance = ((rows - origin - mean[None]) ** 2).mean(axis=0)
        count = jnp.full((), rows.shape[0], rows.dtype)
        return cls(count, origin[0] + mean, variance)

    def joined(self, other: "Moments") -> "Moments":
        """Returns those of both together."""
        total = self.count + other.count
        share = other.count / jnp.maximum(total, 1.0)
        step = other.mean - self.mean
        within = (1 - share) * self.variance + share * other.variance
        between = share * (1 - share) * step**2
        return Moments(total, self.mean + share * step, within + between)

    @property
    def scale(self) -> Float[Array, "*shape"]:
        """The standard deviation, never 0."""
        return jnp.sqrt(self.variance + EPSILON)


@struct.dataclass
class Normalizer:
    """What the agent has seen and earned so far; a part is None where it is not normalised."""

    observations: Moments | None
    returns: Moments | None
    running: Float[Array, " env"] | None  # R of the episodes that the slots are in

    @classmethod
    def empty(
        cls, observation_size: int, num_envs: int, observations: bool, rewards: bool
    ) -> "Normalizer":
        """Returns that of an agent that has seen nothing.

        Args:
            observation_size: of the task.
            num_envs: environment slots.
            observations: whether they are normalised.
            rewards: whether they are normalised.
        """
        return cls(
            observations=Moments.empty((observation_size,)) if observations else None,
            returns=Moments.empty(()) if rewards else None,
            running=jnp.zeros(num_envs) if rewards else None,
        )

    def joined(self, fresh: "Normalizer") -> "Normalizer":
        """Returns the statistics of both, with the episodes that the fresh one is in."""
        return Normalizer(
            observations=_joined(self.observations, fresh.observations),
            returns=_joined(self.returns, fresh.returns),
            running=fresh.running,
        )

    def seeing(self, rows: Float[Array, "row observation"]) -> "Normalizer":
        """Returns the statistics with these observations too."""
        if self.observations is None:
            return self
        seen = self.observations.joined(Moments.of(rows))
        return dataclasses.replace(self, observations=seen)

    def earning(
        self,
        reward: Float[Array, " env"],
        ended: Bool[Array, " env"],
        discount: float | Float[Array, ""],
    ) -> "Normalizer":
        """Returns the statistics with one more reward of each slot, whose episode may have ended with it."""
        if self.returns is None or self.running is None:
            return self
        running = discount * self.running + reward
        earned = self.returns.joined(Moments.of(running))
        running = jnp.where(ended, 0.0, running)
        return dataclasses.replace(self, returns=earned, running=running)

    def observation(
        self, raw: Float[Array, "*batch observation"]
    ) -> Float[Array, "*batch observation"]:
        """Returns observations as the networks take them."""
        if self.observations is None:
            return raw
        mean, scale = (
            lax.broadcast_to_rank(moment, raw.ndim)
            for moment in (self.observations.mean, self.observations.scale)
        )
        return jnp.clip((raw - mean) / scale, -CLIP, CLIP)

    @property
    def observation_scale(self) -> tuple[Array, Array, float] | None:
        """What `observation` subtracts, divides by and clips to; None where it leaves all as it is."""
        if self.observations is None:
            return None
        return self.observations.mean, self.observations.scale, CLIP

    def reward(self, raw: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Returns rewards as the critic learns them."""
        if self.returns is None:
            return raw
        return jnp.clip(raw / self.returns.scale, -CLIP, CLIP)

    def value(self, normalised: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Returns what the critic says, on the scale of the task's rewards.

        It is as good as the critic, which was fitted to rewards that were divided by earlier scales, and does not know
        of those that were clipped.
        """
        return normalised if self.returns is None else normalised * self.returns.scale


def normalized_rollout(
    env: Env,
    key: Array,
    slots: Slot,
    act: Act,
    assign: Assign,
    num_steps: int,
    discount: float | Float[Array, ""],
    before: Normalizer,
) -> tuple[Slot, Transitions, Episodes, Int[Array, ""], Normalizer]:
    """Runs every slot as `spjax.agents.step_based.rollout.rollout`, with observations and rewards normalised on the way.

    Args:
        env: as there.
        key: as there.
        slots: as there.
        act: as there, for observations that are normalised.
        assign: as there.
        num_steps: as there.
        discount: as there, of R too.
        before: the statistics before.

    Returns:
        as there, transitions normalised, episodes as the task gives them; and the statistics after.
    """

    def environment_step(
        carry: tuple[Slot, Normalizer, Normalizer], keys: Array
    ) -> tuple[
        tuple[Slot, Normalizer, Normalizer],
        tuple[Transitions, Episodes, Bool[Array, " env"]],
    ]:
        slots, seen, _ = carry
        now = before.joined(seen)

        def act_normalised(act_key: Array, observation: Array) -> tuple[Array, Array]:
            action, extras = act(act_key, now.observation(observation))
            return action, extras

        slots, (raw, episodes, failed) = step_slots(
            env, keys, slots, act_normalised, assign, discount
        )

        # what follows is seen with statistics that know it, as it will be when it is acted on
        acted = seen.earning(raw.reward, raw.terminated | raw.truncated, discount)
        following = acted.seeing(slots.env_state.observation)

        transitions = dataclasses.replace(
            raw,
            observation=now.observation(raw.observation),
            reward=before.joined(acted).reward(raw.reward),
            next_observation=before.joined(following).observation(raw.next_observation),
        )
        return (slots, following, acted), (transitions, episodes, failed)

    nothing = _emptied(before)
    start = (slots, nothing.seeing(slots.env_state.observation), nothing)
    keys = step_keys(key, num_steps, slots)
    (slots, _, acted), (transitions, episodes, failed) = jax.lax.scan(
        environment_step, start, keys
    )

    # the last observations are acted on in the next iteration, and count there
    return slots, transitions, flat(episodes), failed.sum(), before.joined(acted)


def _joined(before: Moments | None, fresh: Moments | None) -> Moments | None:
    if before is None or fresh is None:
        return None
    return before.joined(fresh)


def _emptied(normalizer: Normalizer) -> Normalizer:
    """Returns no statistics, in the episodes that the slots are in."""
    observations, returns = normalizer.observations, normalizer.returns
    return Normalizer(
        observations=None
        if observations is None
        else Moments.empty(observations.mean.shape),
        returns=None if returns is None else Moments.empty(()),
        running=normalizer.running,
    )
