"""Self-paced curriculum by closed-form steps, after SPGL ("Self Paced Gaussian Contextual Reinforcement Learning").

The distribution is N(mean, scale^2 * covariance of the target). Under the V_LB rule odd updates move the mean and even ones
the scale, each by a formula (`spjax.self_paced.closed_form`, which says what is ours and what may differ from
arXiv:2603.23755). Everything else is that of the solved V_LB rule, so that the two compare: which episodes an update sees, the
values, the trust region KL(old || new), the standard-deviation floor. An update moves the mean or the scale, not both, so a
curriculum needs about twice as many of them. Where the target is narrow and far, give a floor: without it the scale shrinks
before the mean has arrived, and the steps of the mean shrink with it.
"""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.contexts import Gaussian
from spjax.self_paced.closed_form import update_gaussian
from spjax.self_paced.context_update import ContextUpdate
from spjax.teachers.gaussian_curriculum import CurriculumState, Evidence, GaussianCurriculum


@struct.dataclass
class SelfPacedGaussian(GaussianCurriculum):
    """Settings of the curriculum; those of every self-paced teacher."""

    @property
    def initial(self) -> Gaussian:
        """N(initial_mean, target covariance times a scale) with the volume of `initial_std`.

        It is the initial distribution of the settings where `initial_std` is a multiple of `target_std`.
        """
        ratios = jnp.asarray(self.initial_std) / jnp.asarray(self.target_std)
        scale = jnp.exp(jnp.log(ratios).mean())
        return Gaussian.from_std(self.initial_mean, scale * jnp.asarray(self.target_std))

    def move(self, state: CurriculumState, evidence: Evidence) -> tuple[Gaussian, ContextUpdate, Float[Array, ""]]:
        """Returns the distribution after a step of the mean or the scale, its record, and NaN: there is no alpha."""
        new, record = update_gaussian(
            state.distribution,
            self.target,
            evidence.contexts,
            evidence.values,
            evidence.mask,
            moves_scale=evidence.update % 2 == 0,
            max_kl=self.max_kl,
            performance_bound=self.performance_bound,
            reached=state.reached,
            std_floor=evidence.std_floor,
        )
        return new, record, jnp.full_like(record.kl, jnp.nan)
