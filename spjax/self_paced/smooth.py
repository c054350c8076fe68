"""The proportion rule with an onset that has a derivative: K_alpha (Klink et al., 2021, Section 8) as a real number.

Alpha is zero in the first K_alpha updates and then all of zeta * return / KL: a step, so nothing can be learned about K_alpha
from a gradient. Here the step is a logistic curve of some updates' width.
"""

import jax
import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.self_paced.schedules import Aim, Evidence, Schedule, alpha_proportion
from spjax.settings import setting


@part("schedule", "smooth-proportion")
@struct.dataclass
class SmoothProportion(Schedule):
    """SPDL (zeta) in which the penalty sets in by and by; the narrower the onset, the closer to `proportion`."""

    zeta: float = setting(
        1.6,
        least=0,
        unit="1",
        help="zeta, share of the mean return that the penalty is in the end",
    )
    offset: float = setting(
        10.0,
        least=0,
        unit="updates",
        help="K_alpha: half of the penalty has set in between this update and the next",
    )
    width: float = setting(
        2.0,
        above=0,
        unit="updates",
        help="of the onset: so many before and after its middle, 27 and 73 percent have set in",
    )
    max_alpha: float = setting(1e5, least=0, help="largest alpha")

    def aim(self, evidence: Evidence) -> Aim:
        """Returns alpha = s zeta * mean return / KL(old || target), s = logistic((k - K_alpha - 1/2) / width) at update k."""
        middle = self.offset + 0.5
        late = (evidence.update.astype(float) - middle) / self.width
        zeta = jax.nn.sigmoid(late) * self.zeta
        alpha = alpha_proportion(
            evidence.mean_return, evidence.kl_to_target, zeta, self.max_alpha
        )
        return Aim(alpha=jnp.where(evidence.mask.any(), alpha, 0.0))

    def still(self, update: int, mean_return: float) -> str | None:
        """Returns that a negative return counts as 0, once K_alpha is over."""
        if update > self.offset and mean_return < 0:
            return "alpha stays 0: the mean return is negative"
        return None
