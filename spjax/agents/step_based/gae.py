"""Generalised advantage estimation (Schulman et al., 2016), with real ends and time limits kept apart."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def gae(
    rewards: Float[Array, "time env"],
    values: Float[Array, "time env"],
    next_values: Float[Array, "time env"],
    terminated: Bool[Array, "time env"],
    truncated: Bool[Array, "time env"],
    discount: float | Float[Array, ""],
    trace: float | Float[Array, ""],
) -> Float[Array, "time env"]:
    """Returns the advantages [T, B]; value targets are advantages + values.

    Args:
        rewards: of each step.
        values: of the observation before the step.
        next_values: of the observation that the step led to, before any reset. Ignored where `terminated`.
        terminated: the task ended, nothing follows.
        truncated: the episode was cut by the time limit; its last value is bootstrapped, its trace is cut.
        discount: gamma.
        trace: lambda.
    """
    deltas = rewards + discount * jnp.where(terminated, 0.0, next_values) - values
    decay = jnp.where(terminated | truncated, 0.0, discount * trace)

    def backward_step(
        advantage: Float[Array, " env"], inputs: tuple[Array, Array]
    ) -> tuple[Float[Array, " env"], Float[Array, " env"]]:
        delta, factor = inputs
        advantage = delta + factor * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(backward_step, jnp.zeros_like(rewards[0]), (deltas, decay), reverse=True)
    return advantages
