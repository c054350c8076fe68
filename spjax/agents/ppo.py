"""Proximal policy optimisation (Schulman et al., 2017) as the published experiments ran it (Stable Baselines 2.9 `PPO2`).

One optimiser for both networks, advantages normalised a minibatch, batches reshuffled each epoch, no value clipping. The
published point-mass and ball-catching results use ``value_coefficient`` 1 and no gradient clipping, which the paper's
appendix does not mention.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from spjax.agents.gae import gae
from spjax.agents.networks import GaussianPolicy, Params, Value, gaussian_log_prob, gaussian_sample
from spjax.agents.rollout import Episodes, SampleContext, Slot, Transitions, init_slots, rollout
from spjax.envs.base import Env


@struct.dataclass
class PPO:
    """Settings of the learner. Static fields shape the program, the others are traced: sweeps over them never recompile."""

    num_envs: int = struct.field(pytree_node=False, default=16)  # parallel environment slots
    num_steps: int = struct.field(pytree_node=False, default=128)  # control steps a slot and iteration
    num_minibatches: int = struct.field(pytree_node=False, default=32)
    num_epochs: int = struct.field(pytree_node=False, default=8)
    hidden: tuple[int, ...] = struct.field(pytree_node=False, default=(64, 64))  # of both networks
    bootstrap_time_limit: bool = struct.field(pytree_node=False, default=True)  # False: a time limit is an end
    learning_rate: float = 2.5e-4
    discount: float = 0.95  # gamma
    gae_lambda: float = 0.99
    clip_range: float = 0.2
    value_coefficient: float = 1.0
    entropy_coefficient: float = 0.0
    max_grad_norm: float = float("inf")  # global norm

    def check(self) -> None:
        """Checks concrete settings.

        Raises:
            ValueError: a value out of its range, or a batch that the minibatches do not divide.
        """
        for field in ("num_envs", "num_steps", "num_minibatches", "num_epochs"):
            if getattr(self, field) < 1:
                raise ValueError(f"agent.{field} must be at least 1, got {getattr(self, field)}")
        for field in ("learning_rate", "clip_range", "value_coefficient", "entropy_coefficient", "max_grad_norm"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"agent.{field} must be at least 0, got {getattr(self, field)}")
        for field in ("discount", "gae_lambda"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"agent.{field} must lie in [0, 1], got {getattr(self, field)}")
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"agent.hidden needs positive widths, got {self.hidden}")
        batch = self.num_envs * self.num_steps
        if batch % self.num_minibatches:
            raise ValueError(
                f"agent.num_minibatches must divide num_envs * num_steps = {batch}, got {self.num_minibatches}"
            )

    def init(self, key: Array, env: Env) -> "PPOState":
        """Returns fresh networks and optimiser."""
        key_policy, key_value = jax.random.split(key)
        observation = jnp.zeros(env.observation_size)
        params = {
            "policy": self._policy_network(env).init(key_policy, observation),
            "value": Value(self.hidden).init(key_value, observation),
        }
        return PPOState(params=params, optimiser=_ADAM.init(ravel_pytree(params)[0]))

    def init_slots(self, key: Array, env: Env, sample_context: SampleContext) -> Slot:
        """Returns the slots that `iterate` starts from."""
        return init_slots(env, key, self.num_envs, sample_context)

    def act(
        self, state: "PPOState", env: Env, key: Array, observation: Float[Array, "*batch observation"]
    ) -> Float[Array, "*batch action"]:
        """Returns actions drawn from the policy, unclipped."""
        return gaussian_sample(key, *self._policy(state.params, env, observation))

    def value(self, state: "PPOState", observation: Float[Array, "*batch observation"]) -> Float[Array, "*batch"]:
        """Returns the critic's discounted return from these observations."""
        return self._value(state.params, observation)

    def iterate(
        self, state: "PPOState", env: Env, key: Array, slots: Slot, sample_context: SampleContext
    ) -> tuple["PPOState", Slot, Episodes, "PPOMetrics"]:
        """Runs one iteration: num_envs * num_steps environment steps, then all epochs of updates."""
        key_rollout, key_update = jax.random.split(key)

        def act(act_key: Array, observation: Array) -> tuple[Array, Array]:
            mean, log_std = self._policy(state.params, env, observation)
            action = gaussian_sample(act_key, mean, log_std)
            return action, gaussian_log_prob(mean, log_std, action)

        slots, transitions, episodes, num_failed = rollout(
            env, key_rollout, slots, act, sample_context, self.num_steps, self.discount
        )
        batch = self._batch(state, transitions, slots)
        state, losses = self._update(state, env, key_update, batch)
        metrics = PPOMetrics(
            policy_loss=losses.policy.mean(),
            value_loss=losses.value.mean(),
            approximate_kl=losses.approximate_kl[-1].mean(),
            clip_fraction=losses.clip_fraction[-1].mean(),
            policy_std=jnp.exp(state.params["policy"]["params"]["log_std"]).mean(),
            num_failed=num_failed,
        )
        return state, slots, episodes, metrics

    def loss(self, params: Params, env: Env, batch: "Batch") -> tuple[Float[Array, ""], "Losses"]:
        """Returns the loss of one minibatch: clipped surrogate + value_coefficient * MSE / 2 - entropy bonus."""
        mean, log_std = self._policy(params, env, batch.observation)
        log_ratio = gaussian_log_prob(mean, log_std, batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        advantage = (batch.advantage - batch.advantage.mean()) / (batch.advantage.std() + 1e-8)
        clipped = jnp.clip(ratio, 1 - self.clip_range, 1 + self.clip_range)
        policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        value_loss = 0.5 * ((self._value(params, batch.observation) - batch.target) ** 2).mean()
        entropy = (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
        total = policy_loss + self.value_coefficient * value_loss - self.entropy_coefficient * entropy
        losses = Losses(
            policy=policy_loss,
            value=value_loss,
            approximate_kl=0.5 * (log_ratio**2).mean(),
            clip_fraction=(jnp.abs(ratio - 1) > self.clip_range).mean(),
        )
        return total, losses

    def _policy_network(self, env: Env) -> GaussianPolicy:
        return GaussianPolicy(self.hidden, len(env.action_lower))

    def _policy(self, params: Params, env: Env, observation: Array) -> tuple[Array, Array]:
        """Returns the mean of the action and its log standard deviation."""
        output: Any = self._policy_network(env).apply(params["policy"], observation)
        return output

    def _value(self, params: Params, observation: Array) -> Array:
        output: Any = Value(self.hidden).apply(params["value"], observation)
        return output

    def _batch(self, state: "PPOState", transitions: Transitions, slots: Slot) -> "Batch":
        """Returns the flat batch [T * B, ...] with advantages and value targets."""
        values = self.value(state, transitions.observation)
        terminated, truncated = transitions.terminated, transitions.truncated
        if self.bootstrap_time_limit:
            next_values = self.value(state, transitions.next_observation)
        else:
            # Within an episode the next observation is the next row's; at its end the value is not used.
            terminated, truncated = terminated | truncated, jnp.zeros_like(truncated)
            next_values = jnp.concatenate([values[1:], self.value(state, transitions.next_observation[-1:])])
        advantages = gae(transitions.reward, values, next_values, terminated, truncated, self.discount, self.gae_lambda)
        batch = Batch(
            observation=transitions.observation,
            action=transitions.action,
            log_prob=transitions.extras,
            advantage=advantages,
            target=advantages + values,
        )
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)

    def _update(self, state: "PPOState", env: Env, key: Array, batch: "Batch") -> tuple["PPOState", "Losses"]:
        rows, unpack = _packed(batch)
        params, unravel = ravel_pytree(state.params)  # one vector: the optimiser is then one loop, not one a layer

        def loss(params: Array, minibatch: Batch) -> tuple[Float[Array, ""], Losses]:
            return self.loss(unravel(params), env, minibatch)

        def minibatch_step(carry: tuple[Array, Any], part: Array) -> tuple[tuple[Array, Any], Losses]:
            params, optimiser = carry
            grads, losses = jax.grad(loss, has_aux=True)(params, unpack(part))
            norm = jnp.sqrt((grads**2).sum())
            scale = jnp.where(norm > self.max_grad_norm, self.max_grad_norm / norm, 1.0)
            direction, optimiser = _ADAM.update(scale * grads, optimiser)
            return (params - self.learning_rate * direction, optimiser), losses

        def epoch(carry: tuple[Array, Any], epoch_key: Array) -> tuple[tuple[Array, Any], Losses]:
            shuffled = rows[_shuffle(epoch_key, rows.shape[0])].reshape(self.num_minibatches, -1, rows.shape[1])
            return jax.lax.scan(minibatch_step, carry, shuffled)

        keys = jax.random.split(key, self.num_epochs)
        (params, optimiser), losses = jax.lax.scan(epoch, (params, state.optimiser), keys)
        return PPOState(params=unravel(params), optimiser=optimiser), losses


@struct.dataclass
class PPOState:
    """Networks and optimiser moments."""

    params: Params  # {"policy": ..., "value": ...}
    optimiser: Any  # Adam's moments of all parameters as one vector


@struct.dataclass
class PPOMetrics:
    """Of one iteration."""

    policy_loss: Float[Array, ""]
    value_loss: Float[Array, ""]
    approximate_kl: Float[Array, ""]  # nats, old to new policy, last epoch
    clip_fraction: Float[Array, ""]  # last epoch
    policy_std: Float[Array, ""]  # raw action units, mean over action dimensions
    num_failed: Array  # environment slots that ended non-finite


@struct.dataclass
class Batch:
    """Rows that the update shuffles."""

    observation: Float[Array, "row observation"]
    action: Float[Array, "row action"]
    log_prob: Float[Array, " row"]
    advantage: Float[Array, " row"]
    target: Float[Array, " row"]


@struct.dataclass
class Losses:
    """Diagnostics of one minibatch step."""

    policy: Float[Array, ""]
    value: Float[Array, ""]
    approximate_kl: Float[Array, ""]
    clip_fraction: Float[Array, ""]


def _packed(batch: Batch) -> tuple[Float[Array, "row column"], Callable[[Array], Batch]]:
    """Returns the batch as one matrix, so that an epoch gathers once, and the function that takes rows apart again."""
    leaves, structure = jax.tree.flatten(batch)
    widths = [1 if leaf.ndim == 1 else leaf.shape[1] for leaf in leaves]
    ends = list(itertools.accumulate(widths))

    def unpack(rows: Array) -> Batch:
        parts = jnp.split(rows, ends[:-1], axis=1)
        columns = [part[:, 0] if leaf.ndim == 1 else part for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, columns)

    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1), unpack


def _shuffle(key: Array, size: int) -> Int[Array, " size"]:
    """Returns a random order: sorts random numbers that carry their own index in the low bits.

    A tenth of the price of `jax.random.permutation`, which sorts pairs, and twice. Two rows whose random bits (at least 16)
    tie keep their order.
    """
    index_bits = max(1, (size - 1).bit_length())
    if index_bits > 16:
        return jax.random.permutation(key, size)
    mask = jnp.uint32((1 << index_bits) - 1)
    numbers = (jax.random.bits(key, (size,)) & ~mask) | jnp.arange(size, dtype=jnp.uint32)
    return (jax.lax.sort(numbers) & mask).astype(jnp.int32)


_ADAM = optax.scale_by_adam(eps=1e-5)
