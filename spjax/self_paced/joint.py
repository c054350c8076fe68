"""What a fit of policy and contexts together is about (Klink et al., 2021, Section 6): the currency of SPRL and its teacher."""

import dataclasses
from collections.abc import Callable

import jax
from flax import struct
from jaxtyping import Array, Float, PyTree

from spjax.contexts import Gaussian


@struct.dataclass
class JointAim:
    """What the fit aims at."""

    alpha: Float[Array, ""]  # weight of KL(p || mu)
    kl_to_target: Float[Array, ""]  # nats
    std_floor: Float[Array, " dim"]  # of the new contexts, context units; 0 for none
    memory: PyTree = ()  # what the schedule keeps for the next update


Aims = Callable[
    [Float[Array, "N dim"], Float[Array, " N"], Float[Array, " M"]], JointAim
]


@dataclasses.dataclass(frozen=True)
class JointProblem:
    """The distribution to fit, and what to aim at given the samples."""

    old: Gaussian  # p(c | nu)
    target: Gaussian  # mu
    aim: Aims  # (buffered contexts, their rewards, rewards of the new rollouts) -> aim


def log_ratios(
    target: Gaussian, current: Gaussian, contexts: Float[Array, "N dim"]
) -> Float[Array, " N"]:
    """Returns log mu(c) - log p(c), of the densities without regard to the bounds."""
    return jax.vmap(
        lambda context: target.log_prob(context) - current.log_prob(context)
    )(contexts)
