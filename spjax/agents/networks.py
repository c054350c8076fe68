"""The networks of the step-based learners (reference: Stable Baselines 2.9 `MlpPolicy`, separate policy and value nets)."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Params = Any


class MLP(nn.Module):
    """A tanh network; orthogonal kernels with gain sqrt(2), zero biases, a linear output with its own gain."""

    hidden: Sequence[int]
    outputs: int
    output_gain: float

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Returns the outputs [..., outputs] for inputs [..., features]."""
        for width in self.hidden:
            x = nn.tanh(nn.Dense(width, kernel_init=nn.initializers.orthogonal(jnp.sqrt(2.0)))(x))
        return nn.Dense(self.outputs, kernel_init=nn.initializers.orthogonal(self.output_gain))(x)


class GaussianPolicy(nn.Module):
    """A Gaussian over raw actions whose mean is an MLP and whose log standard deviation is a free parameter."""

    hidden: Sequence[int]
    action_size: int

    @nn.compact
    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """Returns mean [..., action] and log standard deviation [action], both in raw action units."""
        mean = MLP(self.hidden, self.action_size, 0.01)(observation)
        log_std = self.param("log_std", nn.initializers.zeros, (self.action_size,))
        return mean, log_std


class Value(nn.Module):
    """A state-value function."""

    hidden: Sequence[int]

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Returns values [...] for observations [..., features]."""
        return MLP(self.hidden, 1, 1.0)(observation)[..., 0]


def gaussian_log_prob(
    mean: Float[Array, "*batch action"], log_std: Float[Array, " action"], action: Float[Array, "*batch action"]
) -> Float[Array, "*batch"]:
    """Returns the log density of unclipped actions under a diagonal Gaussian, in nats."""
    scaled = (action - mean) * jnp.exp(-log_std)
    return (-0.5 * scaled**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def gaussian_sample(
    key: Array, mean: Float[Array, "*batch action"], log_std: Float[Array, " action"]
) -> Float[Array, "*batch action"]:
    """Returns one unclipped action for each mean."""
    return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape, mean.dtype)
