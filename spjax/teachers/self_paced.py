"""Self-paced deep reinforcement learning, SPDL (Klink et al., 2021, Section 6 and Section 8.2).

Two schedules for how fast the context distribution may approach the target: "proportion" weighs the KL divergence to the
target by alpha = zeta * return / KL, zero for the first K_alpha updates; "bound" approaches the target as long as the
expected performance stays above V_LB. One update an iteration, from the episodes finished since the last one.

The published results count K_alpha differently from the paper (alpha is zero for the first K_alpha - 1 updates) and constrain
KL(old || new) where the paper prints KL(new || old); the presets come in both variants.
"""

from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.checks import check_at_least
from spjax.contexts import ContextSpace, Gaussian
from spjax.self_paced.context_update import ContextUpdate, update_context
from spjax.self_paced.schedules import alpha_proportion
from spjax.teachers.gaussian_curriculum import CurriculumState, Evidence, GaussianCurriculum


@struct.dataclass
class SelfPaced(GaussianCurriculum):
    """Settings of the curriculum. Static fields shape the program, the others are traced."""

    schedule: Literal["proportion", "bound"] = struct.field(pytree_node=False, default="proportion")
    kl_direction: Literal["old-new", "new-old"] = struct.field(pytree_node=False, default="old-new")  # KL(old || new)
    offset: int = 10  # K_alpha: alpha is 0 in the updates before this one; not used by "bound"
    kl_proportion: float = 1.6  # zeta; not used by "bound"
    max_alpha: float = 1e5  # not used by "bound"

    @property
    def initial(self) -> Gaussian:
        """The distribution before any update."""
        return Gaussian.from_std(self.initial_mean, self.initial_std)

    def move(self, state: CurriculumState, evidence: Evidence) -> tuple[Gaussian, ContextUpdate, Float[Array, ""]]:
        """Returns the solution of the schedule's problem, its record, and alpha; NaN under "bound", which has none."""
        data = (state.distribution, self.target, evidence.contexts, evidence.values, evidence.mask)
        if self.schedule == "proportion":
            alpha = self._alpha(evidence)
            new, record = update_context(
                *data,
                alpha=alpha,
                max_kl=self.max_kl,
                std_floor=evidence.std_floor,
                kl_direction=self.kl_direction,
            )
            return new, record, alpha
        new, record = update_context(
            *data,
            performance_bound=self.performance_bound,
            reached=state.reached,
            max_kl=self.max_kl,
            std_floor=evidence.std_floor,
            kl_direction=self.kl_direction,
        )
        return new, record, jnp.full_like(record.kl, jnp.nan)

    def check(self, space: ContextSpace) -> None:
        """Checks distributions, floor and counts."""
        super().check(space)
        check_at_least("teacher", self, 0, "kl_proportion", "max_alpha")
        check_at_least("teacher", self, 0, "offset", infinite=True)

    def _alpha(self, evidence: Evidence) -> Float[Array, ""]:
        alpha = alpha_proportion(evidence.mean_return, evidence.kl_to_target, self.kl_proportion, self.max_alpha)
        return jnp.where(evidence.mask.any() & (evidence.update >= self.offset), alpha, 0.0)
