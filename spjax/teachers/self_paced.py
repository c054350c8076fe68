"""Self-paced deep reinforcement learning, SPDL (Klink et al., 2021, Sections 7 and 8).

One update of the context distribution an iteration, from the episodes finished since the last one. A schedule says what each
update is (`spjax.self_paced.schedules`): `Proportion` weighs the KL divergence to the target by alpha = zeta * return / KL,
zero for the first K_alpha updates; `Bound` approaches the target as long as the expected performance stays above V_LB.

The published results count K_alpha differently from the paper (alpha is zero for the first K_alpha - 1 updates) and constrain
KL(old || new) where the paper prints KL(new || old); the presets come in both variants.
"""

from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import PyTree

from spjax.catalogue import part
from spjax.self_paced.context_update import update_context
from spjax.self_paced.schedules import Evidence, Proportion, Schedule
from spjax.settings import setting
from spjax.teachers.moving import Moving, MovingState, Step


@part("teacher", "self-paced")
@struct.dataclass
class SelfPaced(Moving):
    """SPDL: a KL-constrained step of the context distribution by what the schedule aims at."""

    schedule: Schedule = setting(Proportion(), help="what an update is")
    kl_direction: Literal["old-new", "new-old"] = setting(
        "old-new",
        static=True,
        help="what max_kl constrains: KL(old || new) or KL(new || old)",
    )

    @property
    def needs_value(self) -> bool:
        """Whether it asks the critic."""
        return self.value_source == "critic"

    def still(self, iteration: int, mean_return: float) -> str | None:
        """Returns what the schedule says of the update that came after the iteration, if one did."""
        return self.schedule.still(iteration - self.warmup, mean_return)

    def first_memory(self) -> PyTree:
        """Returns what the schedule keeps before the first update."""
        return self.schedule.init(self.starts_at)

    def move(self, state: MovingState, evidence: Evidence) -> Step:
        """Returns the solution of the problem that the schedule states, its record, and alpha."""
        aim = self.schedule.aim(evidence)
        bound = aim.performance_bound
        alpha = (
            aim.alpha if bound is not None or aim.alpha is not None else jnp.zeros(())
        )
        new, record = update_context(
            state.distribution,
            self.aims_at if aim.target is None else aim.target,
            evidence.contexts,
            evidence.values,
            evidence.mask
            if aim.alpha is not None or bound is not None
            else jnp.zeros_like(evidence.mask),
            alpha=alpha,
            performance_bound=bound,
            reached=None if bound is None else state.reached,
            max_kl=self.max_kl,
            std_floor=self.floor(evidence, evidence.contexts.shape[1]),
            kl_direction=self.kl_direction,
        )
        return Step(new, record, alpha, aim.memory)
