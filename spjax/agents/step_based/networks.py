"""The networks of the step-based learners (reference: Stable Baselines 2.9 `MlpPolicy`, separate networks for all roles)."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

Params = PyTree


class MLP(nn.Module):
    """A tanh network with a linear output and zero biases.

    Kernels are orthogonal, with gain sqrt(2) and a gain of its own for the output (PPO, TRPO), or Glorot-uniform where the
    gain is None (SAC); an output of several heads is drawn head by head, as separate layers would be.
    """

    hidden: Sequence[int]
    outputs: int
    output_gain: float | None = None
    heads: int = 1

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Returns the outputs [..., outputs] for inputs [..., features]."""
        glorot = nn.initializers.glorot_uniform()
        for width in self.hidden:
            init = (
                glorot
                if self.output_gain is None
                else nn.initializers.orthogonal(jnp.sqrt(2.0))
            )
            x = nn.tanh(nn.Dense(width, kernel_init=init)(x))
        init = (
            glorot
            if self.output_gain is None
            else nn.initializers.orthogonal(self.output_gain)
        )
        return nn.Dense(self.outputs, kernel_init=_by_heads(init, self.heads))(x)


def _by_heads(init: PyTree, heads: int) -> PyTree:
    def draw(key: Array, shape: tuple[int, int], dtype: PyTree = jnp.float32) -> Array:
        if heads == 1:
            return init(key, shape, dtype)
        part = (shape[0], shape[1] // heads)
        return jnp.concatenate(
            [init(k, part, dtype) for k in jax.random.split(key, heads)], axis=1
        )

    return draw


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
    output_gain: float | None = 1.0

    @nn.compact
    def __call__(self, observation: Array) -> Array:
        """Returns values [...] for observations [..., features]."""
        return MLP(self.hidden, 1, self.output_gain)(observation)[..., 0]


class SquashedPolicy(nn.Module):
    """A Gaussian whose tanh is an action in [-1, 1]; both moments come from the network."""

    hidden: Sequence[int]
    action_size: int

    @nn.compact
    def __call__(self, observation: Array) -> tuple[Array, Array]:
        """Returns mean and log standard deviation [..., action] before squashing; the latter clipped to [-20, 2]."""
        mean, log_std = jnp.split(
            MLP(self.hidden, 2 * self.action_size, heads=2)(observation), 2, axis=-1
        )
        return mean, jnp.clip(log_std, -20.0, 2.0)


class ActionValue(nn.Module):
    """A value function of observation and action."""

    hidden: Sequence[int]

    @nn.compact
    def __call__(self, observation: Array, action: Array) -> Array:
        """Returns values [...] for observations [..., features] and actions [..., action] in [-1, 1]."""
        return MLP(self.hidden, 1)(jnp.concatenate([observation, action], axis=-1))[
            ..., 0
        ]


def squashed_sample(
    noise: Float[Array, "*batch action"],
    mean: Float[Array, "*batch action"],
    log_std: Float[Array, "*batch action"],
    *,
    exact: bool = True,
) -> tuple[Float[Array, "*batch action"], Float[Array, "*batch"]]:
    """Returns actions in [-1, 1] from standard normal noise, and their log density in nats.

    With a = tanh(u) the density is log N(u) - sum log(1 - a^2): Haarnoja et al. (2018), appendix C, Eq. (21).

    Args:
        noise: one draw of N(0, I) for each action.
        mean: of u.
        log_std: of u.
        exact: False takes log(1 - a^2 + 1e-6) as the published code does: 0.24 nats too high at |u| = 7, and without
            a gradient from |u| = 10 on.
    """
    raw = mean + jnp.exp(log_std) * noise
    action = jnp.tanh(raw)
    log_prob = (-0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)

    # log(1 - tanh(u)^2) = -2 log cosh(u)
    squashing = (
        2 * (jnp.log(2.0) - raw - jax.nn.softplus(-2 * raw))
        if exact
        else jnp.log(1 - action**2 + 1e-6)
    )
    return action, log_prob - squashing.sum(-1)


def gaussian_log_prob(
    mean: Float[Array, "*batch action"],
    log_std: Float[Array, " action"],
    action: Float[Array, "*batch action"],
) -> Float[Array, "*batch"]:
    """Returns the log density of unclipped actions under a diagonal Gaussian, in nats."""
    inverse_std = lax.broadcast_to_rank(jnp.exp(-log_std), mean.ndim)
    log_std = lax.broadcast_to_rank(log_std, mean.ndim)

    scaled = (action - mean) * inverse_std
    return (-0.5 * scaled**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def gaussian_sample(
    key: Array, mean: Float[Array, "*batch action"], log_std: Float[Array, " action"]
) -> Float[Array, "*batch action"]:
    """Returns one unclipped action for each mean."""
    std = lax.broadcast_to_rank(jnp.exp(log_std), mean.ndim)
    return mean + std * jax.random.normal(key, mean.shape, mean.dtype)


def check_hidden(hidden: Sequence[int]) -> None:
    """Raises ValueError where a network has no hidden layer or an empty one."""
    if not hidden or min(hidden) < 1:
        raise ValueError(f"agent.hidden needs positive widths, got {hidden}")
