"""Schedules that look at the number of the update alone: alpha grows from one value to another, whatever the agent can do.

They are what a curriculum that follows its agent has to beat. Alpha is in the unit of the return, per nat, so its two ends
depend on the task; those of `spjax.self_paced.adaptive_tempering` do not.
"""

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.self_paced.schedules import Aim, Evidence, Schedule
from spjax.settings import setting


@part("schedule", "linear")
@struct.dataclass
class Linear(Schedule):
    """Alpha grows by the same amount with every update."""

    first: float = setting(
        0.0, least=0, unit="return a nat", help="alpha of the first update"
    )
    last: float = setting(
        1.0, least=0, unit="return a nat", help="alpha in the end, which stays"
    )
    num_updates: int = setting(
        100, least=1, unit="updates", help="until the last alpha is reached"
    )

    def aim(self, evidence: Evidence) -> Aim:
        """Returns first + share (last - first)."""
        share = share_of_updates(evidence, self.num_updates)
        alpha = self.first + share * (self.last - self.first)
        return Aim(alpha=jnp.where(evidence.mask.any(), alpha, 0.0))


@part("schedule", "geometric")
@struct.dataclass
class Geometric(Schedule):
    """Alpha grows by the same factor with every update, as annealed temperatures do."""

    first: float = setting(
        1e-3, above=0, unit="return a nat", help="alpha of the first update"
    )
    last: float = setting(
        1.0, above=0, unit="return a nat", help="alpha in the end, which stays"
    )
    num_updates: int = setting(
        100, least=1, unit="updates", help="until the last alpha is reached"
    )

    def aim(self, evidence: Evidence) -> Aim:
        """Returns first (last / first)^share."""
        share = share_of_updates(evidence, self.num_updates)
        low, high = jnp.log(self.first), jnp.log(self.last)
        alpha = jnp.exp(low + share * (high - low))
        return Aim(alpha=jnp.where(evidence.mask.any(), alpha, 0.0))


def share_of_updates(
    evidence: Evidence, num_updates: int | Float[Array, ""]
) -> Float[Array, ""]:
    """Returns how much of so many updates lies behind: 0 at the first one, 1 when all of them were made."""
    return jnp.clip((evidence.update - 1) / num_updates, 0.0, 1.0)
