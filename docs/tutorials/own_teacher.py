"""A teacher of your own: it moves from the initial to the target distribution, whatever the agent can do."""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import ContextDistribution
from spjax.settings import setting
from spjax.teachers.base import Teacher


@struct.dataclass
class LinearState:
    """How much of the way is done."""

    share: Float[Array, ""]  # 0 at the initial, 1 at the target distribution


@struct.dataclass
class LinearMetrics:
    """Of one iteration; each field becomes a column of the run folder's metrics."""

    kl_to_target: Float[Array, ""]  # nats; `spjax plot` draws a metric of this name


@part("teacher", "linear")
@struct.dataclass
class Linear(Teacher):
    """Interpolates mean and spread in equal steps."""

    num_updates: int = setting(
        100, least=1, unit="iterations", help="until the target is reached"
    )

    def init(self, key, space):
        """Returns the state before any episode."""
        return LinearState(share=jnp.zeros(()))

    def sample(self, state, key, space):
        """Returns one context; the rollout asks whenever a slot has finished."""
        return self.distribution(state).sample(key, space)

    def update(self, state, key, episodes, value):
        """Returns the state one iteration further, and its metrics."""
        share = jnp.minimum(1.0, state.share + 1 / self.num_updates)
        state = LinearState(share=share)
        kl = self.distribution(state).kl_to(self.aims_at)
        return state, LinearMetrics(kl_to_target=kl)

    def distribution(self, state) -> ContextDistribution:
        """Returns where contexts are drawn from now."""

        def between(start, end):
            return (1 - state.share) * start + state.share * end

        return jax.tree.map(between, self.starts_at, self.aims_at)
