"""How fast a curriculum may approach its target: schedules as objects (Klink et al., 2021, Sections 5 and 8).

Before each update of the context distribution a schedule says, from the evidence, what that update is: the weight alpha of
the KL divergence to the target, a lower bound of the expected performance, or nothing. A schedule of one's own:

    @part("schedule", "linear")
    @struct.dataclass
    class Linear(Schedule):
        slope: float = setting(0.01, least=0, help="increase of alpha an update")

        def aim(self, evidence):
            return Aim(alpha=self.slope * evidence.update)
"""

import abc
from typing import Literal

import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.catalogue import part
from spjax.contexts import ContextDistribution
from spjax.settings import Part, setting

MIN_KL = 1e-10  # nats; as in the released code


@struct.dataclass
class Evidence:
    """What an update may use."""

    contexts: Float[Array, "capacity dim"]
    values: Float[Array, " capacity"]  # V of each context
    mask: Bool[Array, " capacity"]  # empty where no update is due
    mean_return: Float[
        Array, ""
    ]  # of this iteration's episodes, else of those in the buffer; discounted
    kl_to_target: Float[Array, ""]  # KL(current || target), nats
    update: Int[
        Array, ""
    ]  # its number, the first is 1; counts on where an update is due
    distribution: ContextDistribution | None = (
        None  # the current one; a self-paced teacher always gives it
    )
    target: ContextDistribution | None = None  # mu; likewise
    memory: PyTree = ()  # what the schedule kept at the update before
    returns: Float[Array, " capacity"] | None = (
        None  # discounted, of each episode; a self-paced teacher always gives it
    )
    count: Int[Array, ""] | None = None  # episodes so far in the ring of rows; likewise
    key: Array | None = None  # for what an update draws; likewise


@struct.dataclass
class Aim:
    """What an update is; with neither alpha nor a bound, the distribution stays.

    With the expected performance P: maximise P - alpha KL(new || target), or approach the target while P >= the bound.
    """

    alpha: Float[Array, ""] | None = None
    performance_bound: Float[Array, ""] | None = None
    target: ContextDistribution | None = (
        None  # what is approached instead of mu; None for mu
    )
    memory: PyTree = ()  # what the schedule keeps for the next update


class Schedule(Part, abc.ABC):
    """The contract of every schedule."""

    kind = "schedule"

    def init(self, initial: ContextDistribution) -> PyTree:
        """Returns what the schedule keeps before the first update, given where contexts start; nothing by default."""
        return ()

    @abc.abstractmethod
    def aim(self, evidence: Evidence) -> Aim:
        """Returns what the next update is. Which of the two it has must not depend on data; their values may.

        A schedule that keeps something returns its memory with every aim, in the shapes of `init`; where no update is due,
        it is not kept.
        """

    def still(self, update: int, mean_return: float) -> str | None:
        """Returns one sentence where alpha is 0 for a reason that the user may not know of; None where it is meant to be.

        Args:
            update: the number of the update, as in `Evidence`.
            mean_return: that it is made from.
        """
        return None


@part("schedule", "proportion")
@struct.dataclass
class Proportion(Schedule):
    """SPDL and SPRL (zeta): the penalty alpha KL is a proportion of the mean return, after K_alpha updates without it."""

    zeta: float = setting(
        1.6,
        least=0,
        unit="1",
        help="zeta, share of the mean return that the penalty is",
    )
    offset: int = setting(
        10,
        least=0,
        infinite=True,
        unit="updates",
        help="K_alpha: alpha is 0 in so many updates",
    )
    max_alpha: float = setting(1e5, least=0, help="largest alpha")
    negative_return: Literal["zero", "absolute"] = setting(
        "zero",
        static=True,
        help="what a negative mean return counts as: 0, or its absolute value as in released SPRL",
    )

    def aim(self, evidence: Evidence) -> Aim:
        """Returns alpha = 0 for the first K_alpha updates, then zeta * mean return / KL(old || target)."""
        mean_return = evidence.mean_return
        if self.negative_return == "absolute":
            mean_return = jnp.abs(mean_return)
        alpha = alpha_proportion(
            mean_return, evidence.kl_to_target, self.zeta, self.max_alpha
        )
        begun = evidence.mask.any() & (evidence.update > self.offset)
        return Aim(alpha=jnp.where(begun, alpha, 0.0))

    def still(self, update: int, mean_return: float) -> str | None:
        """Returns that a negative return counts as 0, once K_alpha is over."""
        if self.negative_return == "zero" and update > self.offset and mean_return < 0:
            return "alpha stays 0: the mean return is negative"
        return None


@part("schedule", "bound")
@struct.dataclass
class Bound(Schedule):
    """SPDL (V_LB): as near to the target as an expected performance of at least V_LB allows."""

    performance_bound: float = setting(
        3.5, unit="return", help="V_LB, discounted return"
    )

    def aim(self, evidence: Evidence) -> Aim:
        """Returns V_LB."""
        return Aim(performance_bound=jnp.asarray(self.performance_bound))


def gives_alpha(
    schedule: Schedule, initial: ContextDistribution, target: ContextDistribution
) -> bool:
    """Returns whether the schedule's aims have an alpha."""
    return trial_aim(schedule, initial, target).alpha is not None


def trial_aim(
    schedule: Schedule, initial: ContextDistribution, target: ContextDistribution
) -> Aim:
    """Returns what the schedule aims at from evidence of one episode, to see which of the things an aim may have it has."""
    evidence = Evidence(
        contexts=jnp.zeros((1, initial.dim)),
        values=jnp.zeros(1),
        mask=jnp.ones(1, bool),
        mean_return=jnp.zeros(()),
        kl_to_target=jnp.ones(()),
        update=jnp.ones((), jnp.int32),
        distribution=initial,
        target=target,
        memory=schedule.init(initial),
        returns=jnp.zeros(1),
        count=jnp.ones((), jnp.int32),
    )
    return schedule.aim(evidence)


def alpha_proportion(
    mean_return: Float[Array, ""],
    kl_to_target: Float[Array, ""],
    zeta: ArrayLike,
    cap: ArrayLike = 1e5,
) -> Float[Array, ""]:
    """Returns alpha = min(cap, zeta max(0, mean return) / KL(old || target)), which is >= 0 and finite.

    The penalty alpha KL is then a proportion zeta of the return. A return that is not positive gives 0, so a failing agent is
    never pushed away from the target nor towards it; hence adding a constant to all rewards changes alpha, and rewards should
    be shifted so that doing nothing is worth zero or more. Differentiable; the derivatives are 0 where alpha is 0 or capped.

    Args:
        mean_return: mean discounted return of the episodes since the last update, raw reward scale.
        kl_to_target: KL(old || target), nats; values below 1e-10 count as 1e-10.
        zeta: the proportion.
        cap: largest alpha.
    """
    alpha = zeta * jnp.maximum(0.0, mean_return) / jnp.maximum(MIN_KL, kl_to_target)
    return jnp.minimum(alpha, cap)
