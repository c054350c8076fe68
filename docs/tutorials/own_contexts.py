"""A context family of your own: positive quantities that vary by factors, such as masses and lengths."""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import Parametric, Summary
from spjax.settings import setting


@part("distribution", "log-normal")
@struct.dataclass
class LogNormal(Parametric):
    """Independent contexts whose logarithms are normal."""

    median: Float[Array, " dim"] = setting(
        above=0, unit="context units", help="of each context"
    )
    spread: Float[Array, " dim"] = setting(
        above=0, unit="1", help="std of the logarithm"
    )

    def sample(self, key, space=None):
        """Returns one draw, moved to the nearest bound where it lies outside."""
        noise = jax.random.normal(key, self.median.shape, self.median.dtype)
        context = self.median * jnp.exp(self.spread * noise)
        return context if space is None else space.clip(context)

    def log_prob(self, context):
        """Returns the log density in nats; every context of the space must have one."""
        context = jnp.maximum(context, jnp.finfo(context.dtype).tiny)
        standard = jnp.log(context / self.median) / self.spread
        density = -0.5 * standard**2 - jnp.log(context * self.spread)
        return (density - 0.5 * jnp.log(2 * jnp.pi)).sum()

    def summary(self):
        """Returns mean and covariance, for metrics and pictures."""
        mean = self.median * jnp.exp(self.spread**2 / 2)
        return Summary(mean, jnp.diag(mean**2 * jnp.expm1(self.spread**2)))

    def kl_to(self, other):
        """Returns KL(self || other) in nats: that of the logarithms."""
        ratio = self.spread / other.spread
        shift = jnp.log(self.median / other.median) / other.spread
        return 0.5 * (ratio**2 - 1 - 2 * jnp.log(ratio) + shift**2).sum()

    def unconstrained(self):
        """Returns numbers of any sign that say the same as the settings."""
        return jnp.concatenate([jnp.log(self.median), jnp.log(self.spread)])

    def at(self, numbers):
        """Returns the distribution of such numbers."""
        median, spread = jnp.split(jnp.exp(numbers), 2)
        return LogNormal(median, spread)
