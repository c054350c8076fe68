"""A schedule of your own: what is asked of the agent before contexts get harder grows with every update."""

import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.self_paced.schedules import Aim, Schedule
from spjax.settings import setting


@part("schedule", "rising-bound")
@struct.dataclass
class RisingBound(Schedule):
    """V_LB rises in a straight line: lenient with a beginner, demanding later."""

    first: float = setting(1.0, unit="return", help="V_LB of the first update")
    last: float = setting(3.5, unit="return", help="V_LB in the end")
    num_updates: int = setting(50, least=1, unit="updates", help="until it is reached")

    def aim(self, evidence):
        """Returns the bound of this update; `Aim(alpha=...)` would weigh the KL divergence instead."""
        share = jnp.minimum(1.0, (evidence.update - 1) / self.num_updates)
        return Aim(performance_bound=self.first + share * (self.last - self.first))
