"""V_LB for estimates that cannot be trusted to the letter: with a margin of error, and with a way back.

Both are the rule of Klink et al. (2021), Eq. (20) (spdl-v2); that the estimate is noisy, and what to do once the performance is
lost, are questions that the paper leaves open.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool

from spjax.catalogue import part
from spjax.contexts import ContextDistribution
from spjax.episodes import masked_mean
from spjax.self_paced.schedules import Aim, Evidence, Schedule
from spjax.settings import setting

ANY_RETURN = 1e30  # as a bound: above whatever is reached; below it, with a minus


@part("schedule", "chance-bound")
@struct.dataclass
class ChanceBound(Schedule):
    """As near to the target as the performance allows that is reached with a given probability.

    The estimate of the performance is a mean of M values, with a standard error s / sqrt(M). Its lower confidence bound must
    reach V_LB, so the estimate itself must be above V_LB by so many standard errors. The error is that of the current
    distribution.
    """

    performance_bound: float = setting(
        3.5, unit="return", help="V_LB, discounted return"
    )
    confidence: float = setting(
        0.9,
        least=0.5,
        most=0.9999,
        unit="1",
        help="probability that the expected performance is above V_LB; 0.5 is the rule without a margin",
    )

    def aim(self, evidence: Evidence) -> Aim:
        """Returns V_LB with the margin; no distribution is good enough where one episode is all that was seen."""
        count = evidence.mask.sum()
        mean = masked_mean(evidence.values, evidence.mask)
        squares = masked_mean((evidence.values - mean) ** 2, evidence.mask)
        others = jnp.maximum(count - 1, 1).astype(squares.dtype)
        error = jnp.sqrt(squares / others)  # s^2 = squares M / (M - 1)
        bound = self.performance_bound + ndtri(self.confidence) * error
        return Aim(performance_bound=jnp.where(count == 1, ANY_RETURN, bound))


@struct.dataclass
class LastGood:
    """What `Rollback` keeps."""

    distribution: ContextDistribution  # the last one that kept V_LB
    exists: Bool[Array, ""]


@part("schedule", "rollback")
@struct.dataclass
class Rollback(Schedule):
    """V_LB with a way back: where the performance is lost, the last distribution that kept it is approached.

    The rule without it stays where the agent fails. The way back is made in steps within the trust region, as all others.
    """

    performance_bound: float = setting(
        3.5, unit="return", help="V_LB, discounted return"
    )

    def init(self, initial: ContextDistribution) -> LastGood:
        """Returns that none was good so far."""
        return LastGood(distribution=initial, exists=jnp.asarray(False))

    def aim(self, evidence: Evidence) -> Aim:
        """Returns V_LB; or, where it is lost, the last good distribution as what to approach, at any return."""
        kept, here, target = evidence.memory, evidence.distribution, evidence.target
        assert here is not None  # a self-paced teacher gives both
        assert target is not None
        mean = masked_mean(evidence.values, evidence.mask)
        good = evidence.mask.any() & (mean >= self.performance_bound)
        lost = ~good & kept.exists
        return Aim(
            performance_bound=jnp.where(lost, -ANY_RETURN, self.performance_bound),
            target=_select(lost, kept.distribution, target),
            memory=LastGood(
                distribution=_select(good, here, kept.distribution),
                exists=kept.exists | good,
            ),
        )


def _select(
    condition: Bool[Array, ""],
    one: ContextDistribution,
    other: ContextDistribution,
) -> ContextDistribution:
    """Returns one of two distributions of a family, with the static settings of the other."""
    leaves = [
        jnp.where(condition, first, second)
        for first, second in zip(
            jax.tree.leaves(one), jax.tree.leaves(other), strict=True
        )
    ]
    return jax.tree.unflatten(jax.tree.structure(other), leaves)
