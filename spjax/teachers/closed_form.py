"""Self-paced curriculum by closed-form steps, after SPGL ("Self Paced Gaussian Contextual Reinforcement Learning").

The distribution is N(mean, scale^2 * covariance of the target). Under the V_LB rule odd updates move the mean and even ones
the scale, each by a formula (`spjax.self_paced.closed_form`, which says what is ours and what may differ from
arXiv:2603.23755). Everything else is that of the solved V_LB rule, so that the two compare: which episodes an update sees, the
values, the trust region KL(old || new), the standard-deviation floor. An update moves the mean or the scale, not both, so a
curriculum needs about twice as many of them. Where the target is narrow and far, give a floor: without it the scale shrinks
before the mean has arrived, and the steps of the mean shrink with it.
"""

import dataclasses

import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.contexts import ContextDistribution, ContextSpace, Gaussian
from spjax.self_paced.closed_form import update_gaussian
from spjax.self_paced.schedules import Evidence
from spjax.settings import setting
from spjax.teachers.moving import Moving, MovingState, Step


@part("teacher", "spgl")
@struct.dataclass
class SPGL(Moving):
    """Closed-form steps of mean or scale in place of the solve, under the V_LB rule."""

    performance_bound: float = setting(
        3.5, unit="return", help="V_LB, discounted return"
    )

    @property
    def needs_value(self) -> bool:
        """Whether it asks the critic."""
        return self.value_source == "critic"

    @property
    def starts_at(self) -> ContextDistribution:
        """N(initial mean, target covariance times a scale) with the volume of the initial distribution.

        It is the initial distribution itself where that is a scaled target.
        """
        start, target = _gaussian(super().starts_at), _gaussian(self.aims_at, "target")
        ratios = jnp.diagonal(start.chol) / jnp.diagonal(target.chol)
        scale = jnp.exp(jnp.log(ratios).mean())
        return dataclasses.replace(target, mean=start.mean, chol=scale * target.chol)

    def move(self, state: MovingState, evidence: Evidence) -> Step:
        """Returns the distribution after a step of the mean or the scale, and its record; there is no alpha."""
        new, record = update_gaussian(
            _gaussian(state.distribution),
            _gaussian(self.aims_at),
            evidence.contexts,
            evidence.values,
            evidence.mask,
            moves_scale=evidence.update % 2 == 0,
            max_kl=self.max_kl,
            performance_bound=self.performance_bound,
            reached=state.reached,
            std_floor=self.floor(evidence, evidence.contexts.shape[1]),
        )
        return Step(new, record)

    def check(self, space: ContextSpace) -> None:
        """Checks, beside the rest, that the distributions are Gaussian."""
        super().check(space)
        _gaussian(self.starts_at)
        _gaussian(self.aims_at, "target")


def _gaussian(distribution: ContextDistribution, which: str = "initial") -> Gaussian:
    if not isinstance(distribution, Gaussian):
        raise ValueError(
            f"spgl moves Gaussian distributions, got {type(distribution).__name__} for teacher.{which}"
        )
    return distribution
