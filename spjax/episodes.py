"""What passes between agents and teachers: attempts, finished episodes, outcomes of whole rollouts."""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree


@struct.dataclass
class Maybe:
    """A number of a metric that there may be nothing to say of; so NaN, where it comes up, is always a fault."""

    value: Float[Array, "..."]  # 0 where there is none
    present: Bool[Array, ""]

    @classmethod
    def where(cls, present: Bool[Array, ""], value: Float[Array, "..."]) -> "Maybe":
        """Returns the value where it is present; what it is elsewhere does not matter."""
        return cls(jnp.where(present, value, jnp.zeros_like(value)), present)

    @classmethod
    def mean(cls, values: Float[Array, " row"], mask: Bool[Array, " row"]) -> "Maybe":
        """Returns the mean over the masked rows, if there are any."""
        return cls(masked_mean(values, mask), mask.any())


@struct.dataclass
class Attempt:
    """What a slot has just finished; the teacher decides from it what the slot does next."""

    ticket: PyTree
    context: Float[Array, " dim"]
    success: Bool[Array, ""]


@struct.dataclass
class Episodes:
    """Finished episodes, at most one for each row; rows with a False mask are meaningless."""

    mask: Bool[Array, " row"]
    context: Float[Array, "row dim"]
    first_observation: Float[Array, "row observation"]
    episode_return: Float[Array, " row"]
    discounted_return: Float[Array, " row"]
    length: Int[Array, " row"]  # control steps
    success: Bool[Array, " row"]
    ticket: PyTree  # the teacher's own note on the episode
    fit: "ContextFit | None" = (
        None  # of an agent that fits the contexts together with its policy
    )


@struct.dataclass
class Outcome:
    """What a rollout gave."""

    reward: Float[Array, ""]
    success: Bool[Array, ""]
    length: Int[Array, ""]  # control steps


@struct.dataclass
class ContextFit:
    """The context distribution that an agent fitted together with its policy, and how."""

    distribution: PyTree  # a distribution over contexts
    alpha: Float[Array, ""]  # weight of the KL divergence to the target
    kl_to_target: Float[Array, ""]  # before the fit, nats
    memory: PyTree = ()  # what the teacher's schedule keeps for the next fit


def masked_mean(
    values: Float[Array, " row"], mask: Bool[Array, " row"]
) -> Float[Array, ""]:
    """Returns the mean over the masked rows, 0 where there are none."""
    return jnp.where(mask, values, 0.0).sum() / jnp.maximum(
        mask.sum().astype(float), 1.0
    )
