"""Schedules that walk along the tempered path mu(c) exp(V(c))^(1 / alpha) in steps that the values of the episodes measure.

The path of Klink et al. (2021), Eq. (29) (sprl-path-2), starts where returns are highest, at the inverse temperature
beta = 1 / alpha = infinity, and ends at the target, beta = 0. From beta to beta - d it takes the importance weights
w_i = exp(-d V_i). Annealed samplers choose d from these weights: so that their effective sample size is a given share
of the samples (`EffectiveSampleSize`), or so that the step has a given length in the metric of Fisher and Rao, in which
the path has the speed sqrt(Var V) (`ConstantSpeed`). The samples are the episodes, so their contexts should be about where
the path is. Both are the same for values that are shifted or scaled: no constant knows the unit of the return.

For small steps the two agree: a length L keeps the share 1 / (1 + L^2).
"""

import abc

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.catalogue import part
from spjax.contexts import ContextDistribution
from spjax.episodes import masked_mean
from spjax.self_paced.schedules import MIN_KL, Aim, Evidence, Schedule
from spjax.settings import setting
from spjax.solvers.root import bracket_root

TOLERANCE = 1e-4  # of the step, standard deviations of the values


@struct.dataclass
class Tempered(Schedule):
    """Alpha = 1 / beta, and beta falls with every update; what is kept is beta, 0 before the first."""

    penalty: float = setting(
        1.0,
        above=0,
        unit="1",
        help="alpha KL at the start, in standard deviations of the values",
    )
    offset: int = setting(
        0,
        least=0,
        infinite=True,
        unit="updates",
        help="K_alpha: alpha is 0 in so many updates",
    )
    max_growth: float = setting(
        1.5, least=1, unit="1", help="largest factor by which alpha grows in an update"
    )
    max_alpha: float = setting(1e5, above=0, help="largest alpha")

    def init(self, initial: ContextDistribution) -> Float[Array, ""]:
        """Returns that there is no temperature yet."""
        return jnp.zeros(())

    def aim(self, evidence: Evidence) -> Aim:
        """Returns alpha = 1 / beta after the step."""
        standard, spread = standardised(evidence.values, evidence.mask)
        old = evidence.memory
        known = spread > 0
        scale = jnp.where(known, spread, 1.0)

        # the first penalty is worth some standard deviations of the values
        first = jnp.maximum(MIN_KL, evidence.kl_to_target) / (self.penalty * scale)

        # equal values put no limit on the step
        step = self.step(standard, evidence.mask, old * scale) / scale
        lowest = jnp.maximum(old / self.max_growth, 1 / self.max_alpha)
        after = jnp.maximum(jnp.where(known, old - step, 0.0), lowest)
        beta = jnp.where(old > 0, after, jnp.maximum(first, 1 / self.max_alpha))

        begun = evidence.mask.any() & (evidence.update > self.offset)
        begun &= known | (old > 0)
        return Aim(
            alpha=jnp.where(begun, 1 / beta, 0.0), memory=jnp.where(begun, beta, old)
        )

    @abc.abstractmethod
    def step(
        self,
        standard: Float[Array, " capacity"],
        mask: Bool[Array, " capacity"],
        rest: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Returns by how much beta falls, from values of mean 0 and standard deviation 1; there is only ``rest`` left."""


@part("schedule", "effective-sample-size")
@struct.dataclass
class EffectiveSampleSize(Tempered):
    """The longest step whose importance weights keep a share of the effective sample size."""

    share: float = setting(
        0.9, least=0.01, most=0.999, unit="1", help="of the episodes"
    )

    def step(
        self,
        standard: Float[Array, " capacity"],
        mask: Bool[Array, " capacity"],
        rest: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Returns the root of a decreasing function; all the rest where the weights keep their share even then."""

        def missing(step: Float[Array, ""]) -> Float[Array, ""]:
            return self.share - effective_share(-step * standard, mask)

        return bracket_root(missing, jnp.zeros_like(rest), rest, TOLERANCE).low


@part("schedule", "constant-speed")
@struct.dataclass
class ConstantSpeed(Tempered):
    """Steps of one length in the metric of Fisher and Rao."""

    length: float = setting(
        0.3, above=0, unit="1", help="of an update; 0.32 is a divergence of 0.05 nats"
    )

    def step(
        self,
        standard: Float[Array, " capacity"],
        mask: Bool[Array, " capacity"],
        rest: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Returns the length: the path has speed 1 in these units."""
        return jnp.minimum(self.length, rest)


def effective_share(
    log_weights: Float[Array, " capacity"], mask: Bool[Array, " capacity"]
) -> Float[Array, ""]:
    """Returns (sum w)^2 / (M sum w^2) over the M masked rows; 1 for equal weights.

    It never grows when all log weights are multiplied by a number above 1: with l the log weights, d log / d beta is
    2 (E_beta[l] - E_2beta[l]), and the mean of l grows with beta.
    """
    logs = jnp.where(mask, log_weights, -jnp.inf)
    largest = jnp.where(mask.any(), logs.max(), 0.0)
    weights = jnp.where(mask, jnp.exp(log_weights - largest), 0.0)
    count = jnp.maximum(mask.sum(), 1).astype(weights.dtype)
    return weights.sum() ** 2 / (count * jnp.maximum((weights**2).sum(), 1e-30))


def standardised(
    values: Float[Array, " capacity"], mask: Bool[Array, " capacity"]
) -> tuple[Float[Array, " capacity"], Float[Array, ""]]:
    """Returns the masked values with mean 0 and standard deviation 1, and the standard deviation that they had.

    Values that differ by no more than rounding count as equal, with a standard deviation of 0.
    """
    mean = masked_mean(values, mask)
    apart = jnp.where(mask, values - mean, 0.0)
    spread = jnp.sqrt(masked_mean(apart**2, mask))
    rounding = 8 * jnp.finfo(spread.dtype).eps * jnp.abs(mean)
    spread = jnp.where(spread > rounding, spread, 0.0)
    return apart / jnp.where(spread > 0, spread, 1.0), spread
