"""An agent of your own: A2C (Mnih et al., 2016) on the rollout that PPO and TRPO use."""

from typing import Any

import jax
import optax
from flax import struct
from jaxtyping import Array, Float

from spjax.agents.step_based.networks import gaussian_log_prob
from spjax.agents.step_based.on_policy import OnPolicy, OnPolicyState
from spjax.catalogue import part
from spjax.settings import setting

RMSPROP = optax.scale_by_rms(decay=0.99, eps=1e-5)


@struct.dataclass
class A2CState(OnPolicyState):
    """What the agent learns beside its networks; a checkpoint holds it all."""

    optimiser: Any


@struct.dataclass
class A2CMetrics:
    """Of one iteration."""

    loss: Float[Array, ""]


@part("agent", "a2c")
@struct.dataclass
class A2C(OnPolicy):
    """One gradient step an iteration; `OnPolicy` brings networks, rollout and advantages."""

    learning_rate: float = setting(7e-4, least=0, help="of both networks")

    def init(self, key, env):
        """Returns fresh networks."""
        params = self.init_params(key, env)
        return A2CState(params, self.init_normalizer(env), RMSPROP.init(params))

    def iterate(self, state, world, key):
        """Returns the agent one iteration later, the slots, the finished episodes and metrics."""
        state, world, batch, episodes, _ = self.collect(state, world, key)

        def loss(params):
            mean, log_std = self.policy(params["policy"], world.env, batch.observation)
            log_prob = gaussian_log_prob(mean, log_std, batch.action)
            error = self.critic(params["value"], batch.observation) - batch.target
            return (0.5 * error**2 - batch.advantage * log_prob).mean()

        value, gradient = jax.value_and_grad(loss)(state.params)
        steps, optimiser = RMSPROP.update(gradient, state.optimiser)
        steps = jax.tree.map(lambda step: -self.learning_rate * step, steps)
        params = optax.apply_updates(state.params, steps)
        state = state.replace(params=params, optimiser=optimiser)
        return state, world, episodes, A2CMetrics(value)
