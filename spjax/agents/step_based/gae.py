"""Generalised advantage estimation (Schulman et al., 2016), with real ends and time limits kept apart.

Equation numbers are those of the article.
"""

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
    # nothing follows an end
    following = jnp.where(terminated, 0.0, next_values)
    deltas = rewards + discount * following - values  # Eq. (11)

    # gamma * lambda; no trace reaches from one episode into the next
    decay = jnp.where(terminated | truncated, 0.0, discount * trace)

    def backward_step(
        advantage: Float[Array, " env"], inputs: tuple[Array, Array]
    ) -> tuple[Float[Array, " env"], Float[Array, " env"]]:
        delta, factor = inputs
        advantage = (
            delta + factor * advantage
        )  # Eq. (16), its sum from the last step to the first
        return advantage, advantage

    after_the_last = jnp.zeros_like(rewards[0])
    _, advantages = jax.lax.scan(
        backward_step, after_the_last, (deltas, decay), reverse=True
    )
    return advantages
