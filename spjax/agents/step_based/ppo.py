"""Proximal policy optimisation (Schulman et al., 2017) as the published experiments ran it (Stable Baselines 2.9 `PPO2`).

One optimiser for both networks, advantages normalised a minibatch, batches reshuffled each epoch. The published point-mass and
ball-catching results use ``value_coefficient`` 1 and no gradient clipping, which the paper's appendix does not mention, and no
value clipping. The published reacher's learner has the library's defaults, which clip the value too, and `VecNormalize`. Equation
numbers are those of the article.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from spjax.agents.base import Slots
from spjax.agents.step_based.adam import EpsilonPlace, adam
from spjax.agents.step_based.minibatches import minibatches, packed
from spjax.agents.step_based.networks import Params, gaussian_log_prob
from spjax.agents.step_based.on_policy import (
    Batch,
    OnPolicy,
    OnPolicyState,
    gaussian_entropy,
)
from spjax.catalogue import part
from spjax.envs.base import Env
from spjax.episodes import Episodes
from spjax.settings import setting


@part("agent", "ppo")
@struct.dataclass
class PPO(OnPolicy):
    """Proximal policy optimisation."""

    num_minibatches: int = setting(32, static=True, least=1, help="of each epoch")
    num_epochs: int = setting(
        8, static=True, least=1, help="passes over an iteration's steps"
    )
    learning_rate: float = setting(2.5e-4, least=0, help="of both networks")
    clip_range: float = setting(
        0.2, least=0, infinite=True, help="of the probability ratio around 1"
    )
    clip_value: float | None = setting(
        None,
        above=0,
        help="of the value around the one before the iteration's updates; None for no clipping",
    )
    value_coefficient: float = setting(1.0, least=0, help="weight of the value loss")
    max_grad_norm: float = setting(
        float("inf"),
        least=0,
        infinite=True,
        help="global norm that gradients are clipped to",
    )
    adam_epsilon: EpsilonPlace = setting(
        "after-correction",
        static=True,
        help="where Adam's epsilon stands; published: before-correction",
    )

    def check(self) -> None:
        """Checks concrete settings.

        Raises:
            ValueError: a value out of its range, or a batch that the minibatches do not divide or leave in single rows.
        """
        super().check()
        if self.steps_per_iteration % self.num_minibatches:
            raise ValueError(
                f"agent.num_minibatches must divide num_envs * num_steps = {self.steps_per_iteration}, "
                f"got {self.num_minibatches}"
            )
        if self.num_minibatches == self.steps_per_iteration:
            raise ValueError(
                f"agent.num_minibatches must leave at least 2 rows in each, got {self.num_minibatches} for "
                f"{self.steps_per_iteration} rows; the normalised advantage of a single row is 0"
            )

    def init(self, key: Array, env: Env) -> "PPOState":
        """Returns fresh networks and optimiser."""
        params = self.init_params(key, env)
        flat_params, _ = ravel_pytree(params)
        return PPOState(
            params=params,
            normalizer=self.init_normalizer(env),
            optimiser=self._adam.init(flat_params),
        )

    def iterate(
        self, state: "PPOState", world: Slots, key: Array
    ) -> tuple["PPOState", Slots, Episodes, "PPOMetrics"]:
        """Runs one iteration: num_envs * num_steps environment steps, then all epochs of updates."""
        key_rollout, key_update = jax.random.split(key)
        state, world, batch, episodes, num_failed = self.collect(
            state, world, key_rollout
        )
        state, losses = self._update(state, world.env, key_update, batch)
        metrics = PPOMetrics(
            policy_loss=losses.policy.mean(),
            value_loss=losses.value.mean(),
            approximate_kl=losses.approximate_kl[-1].mean(),
            clip_fraction=losses.clip_fraction[-1].mean(),
            policy_std=jnp.exp(state.params["policy"]["params"]["log_std"]).mean(),
            num_failed=num_failed,
        )
        return state, world, episodes, metrics

    def loss(
        self, params: Params, env: Env, batch: Batch
    ) -> tuple[Float[Array, ""], "Losses"]:
        """Returns the loss of one minibatch: clipped surrogate + value_coefficient * MSE / 2 - entropy bonus.

        With `clip_value`, the squared error of a row is that of its value or that of the value kept within this distance
        of the one before the update, whichever is larger.
        """
        # r_t of Eq. (6)
        mean, log_std = self.policy(params["policy"], env, batch.observation)
        log_ratio = gaussian_log_prob(mean, log_std, batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)

        centred = batch.advantage - batch.advantage.mean()
        advantage = centred / (batch.advantage.std() + 1e-8)

        # -L^CLIP
        clipped = jnp.clip(ratio, 1 - self.clip_range, 1 + self.clip_range)
        policy_loss = -jnp.minimum(
            ratio * advantage, clipped * advantage
        ).mean()  # Eq. (7)

        # L^VF, with the half that the article leaves to the coefficient
        value = self.critic(params["value"], batch.observation)
        squared_error = (value - batch.target) ** 2
        if self.clip_value is not None:  # not in the article: `PPO2`
            before = batch.target - batch.advantage
            step = jnp.clip(value - before, -self.clip_value, self.clip_value)
            clipped_error = (before + step - batch.target) ** 2
            squared_error = jnp.maximum(squared_error, clipped_error)
        value_loss = 0.5 * squared_error.mean()

        total = policy_loss + self.value_coefficient * value_loss
        total -= self.entropy_coefficient * gaussian_entropy(
            log_std
        )  # Eq. (9), negated
        losses = Losses(
            policy=policy_loss,
            value=value_loss,
            approximate_kl=0.5 * (log_ratio**2).mean(),
            clip_fraction=(jnp.abs(ratio - 1) > self.clip_range).mean(),
        )
        return total, losses

    def _update(
        self, state: "PPOState", env: Env, key: Array, batch: Batch
    ) -> tuple["PPOState", "Losses"]:
        rows, unpack = packed(batch)
        size = self.steps_per_iteration // self.num_minibatches

        # one vector: the optimiser is then one loop, not one a layer
        params, unravel = ravel_pytree(state.params)

        def loss(params: Array, minibatch: Batch) -> tuple[Float[Array, ""], Losses]:
            return self.loss(unravel(params), env, minibatch)

        def minibatch_step(
            carry: tuple[Array, PyTree], part: Array
        ) -> tuple[tuple[Array, PyTree], Losses]:
            params, optimiser = carry
            gradient, losses = jax.grad(loss, has_aux=True)(params, unpack(part))

            # one norm for all parameters of both networks
            norm = jnp.sqrt((gradient**2).sum())
            scale = jnp.where(norm > self.max_grad_norm, self.max_grad_norm / norm, 1.0)

            direction, optimiser = self._adam.update(scale * gradient, optimiser)
            params = params - self.learning_rate * direction
            return (params, optimiser), losses

        def epoch(
            carry: tuple[Array, PyTree], epoch_key: Array
        ) -> tuple[tuple[Array, PyTree], Losses]:
            return jax.lax.scan(
                minibatch_step, carry, minibatches(epoch_key, rows, size)
            )

        keys = jax.random.split(key, self.num_epochs)
        (params, optimiser), losses = jax.lax.scan(
            epoch, (params, state.optimiser), keys
        )
        state = dataclasses.replace(state, params=unravel(params), optimiser=optimiser)
        return state, losses

    @property
    def _adam(self) -> optax.GradientTransformation:
        return adam(1e-5, self.adam_epsilon)


@struct.dataclass
class PPOState(OnPolicyState):
    """Networks, statistics and optimiser moments."""

    optimiser: PyTree  # Adam's moments of all parameters as one vector


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
class Losses:
    """Diagnostics of one minibatch step."""

    policy: Float[Array, ""]
    value: Float[Array, ""]
    approximate_kl: Float[Array, ""]
    clip_fraction: Float[Array, ""]
