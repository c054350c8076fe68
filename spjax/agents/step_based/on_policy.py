"""What PPO and TRPO share: the two networks, the rollout with its log probabilities, advantages and value targets.

Observations and rewards may be normalised by running statistics (`spjax.agents.step_based.normalization`). Networks, batch and
losses then live on the normalised scale; what goes in and comes out of an agent, `act` and `value`, on that of the task.
"""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, PyTree

from spjax.agents.base import Slots, StepBased
from spjax.agents.formula import Formula
from spjax.agents.step_based.gae import gae
from spjax.agents.step_based.networks import (
    GaussianPolicy,
    Params,
    Value,
    check_hidden,
    gaussian_log_prob,
    gaussian_sample,
)
from spjax.agents.step_based.normalization import Normalizer, normalized_rollout
from spjax.agents.step_based.rollout import Transitions, flat, rollout
from spjax.envs.base import Env
from spjax.episodes import Episodes
from spjax.settings import setting


@struct.dataclass
class OnPolicyState:
    """What every on-policy learner knows; each adds its own."""

    params: Params  # {"policy": ..., "value": ...}
    normalizer: Normalizer  # without leaves where nothing is normalised


State = TypeVar("State", bound=OnPolicyState)


@struct.dataclass
class Batch:
    """The rows of one iteration that an update learns from; the values before it are target - advantage."""

    observation: Float[Array, "row observation"]
    action: Float[Array, "row action"]
    log_prob: Float[Array, " row"]
    advantage: Float[Array, " row"]
    target: Float[Array, " row"]


@struct.dataclass
class OnPolicy(StepBased):
    """Settings of every on-policy learner; its state is an `OnPolicyState`."""

    num_envs: int = setting(16, static=True, least=1, help="parallel environment slots")
    num_steps: int = setting(
        128,
        static=True,
        least=1,
        unit="control steps",
        help="of each slot in an iteration",
    )
    hidden: tuple[int, ...] = setting(
        (64, 64), static=True, least=1, help="widths of both networks"
    )
    bootstrap_time_limit: bool = setting(
        True, static=True, help="value what a time limit cuts off; else it is an end"
    )
    normalize_observations: bool = setting(
        False, static=True, help="by the mean and variance of all observations so far"
    )
    normalize_rewards: bool = setting(
        False, static=True, help="by the variance of all discounted returns so far"
    )
    discount: float = setting(0.95, least=0, most=1, help="gamma")
    gae_lambda: float = setting(
        0.99, least=0, most=1, help="lambda of the generalised advantages"
    )
    entropy_coefficient: float = setting(
        0.0, least=0, help="weight of the policy's entropy"
    )

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps."""
        return self.num_envs * self.num_steps

    def check(self) -> None:
        """Checks concrete settings.

        Raises:
            ValueError: a value out of its range.
        """
        check_hidden(self.hidden)

    def act(
        self,
        state: OnPolicyState,
        env: Env,
        key: Array,
        observation: Float[Array, "*batch observation"],
    ) -> Float[Array, "*batch action"]:
        """Returns actions drawn from the policy, unclipped; the statistics stay as they are."""
        seen = state.normalizer.observation(observation)
        return gaussian_sample(key, *self.policy(state.params["policy"], env, seen))

    def deterministic_action(
        self,
        state: OnPolicyState,
        env: Env,
        observation: Float[Array, "*batch observation"],
    ) -> Float[Array, "*batch action"]:
        """Returns the means of the policy, unclipped."""
        seen = state.normalizer.observation(observation)
        return self.policy(state.params["policy"], env, seen)[0]

    def formula(self, state: OnPolicyState, task: Env) -> Formula:
        """Returns the means of the policy, with the statistics that observations are normalised by."""
        return Formula.of_network(
            state.params["policy"]["params"]["MLP_0"],
            task.action_lower,
            task.action_upper,
            normalised=state.normalizer.observation_scale,
        )

    @property
    def has_value(self) -> bool:
        """A state-value network."""
        return True

    def value(
        self, state: OnPolicyState, observation: Float[Array, "*batch observation"]
    ) -> Float[Array, "*batch"]:
        """Returns the critic's discounted return from these observations, on the scale of the task's rewards.

        Where rewards are normalised, that is the critic's number times the scale of the rewards as of now, see
        `spjax.agents.step_based.normalization.Normalizer.value`.
        """
        seen = state.normalizer.observation(observation)
        return state.normalizer.value(self.critic(state.params["value"], seen))

    def acquainted(
        self, state: State, observation: Float[Array, "row observation"]
    ) -> State:
        """Returns the state whose statistics have these observations in them, where there are any."""
        normalizer = state.normalizer.seeing(observation)
        return dataclasses.replace(state, normalizer=normalizer)

    def init_normalizer(self, env: Env) -> Normalizer:
        """Returns the statistics of what is normalised, before anything was seen."""
        return Normalizer.empty(
            env.observation_size,
            self.num_envs,
            observations=self.normalize_observations,
            rewards=self.normalize_rewards,
        )

    def init_params(self, key: Array, env: Env) -> dict[str, Params]:
        """Returns fresh networks, {"policy": ..., "value": ...}."""
        key_policy, key_value = jax.random.split(key)
        observation = jnp.zeros(env.observation_size)
        return {
            "policy": self._policy_network(env).init(key_policy, observation),
            "value": Value(self.hidden).init(key_value, observation),
        }

    def policy(
        self, params: Params, env: Env, observation: Array
    ) -> tuple[Array, Array]:
        """Returns the mean of the action and its log standard deviation."""
        output: PyTree = self._policy_network(env).apply(params, observation)
        return output

    def critic(self, params: Params, observation: Array) -> Array:
        """Returns the values that these parameters give."""
        output: PyTree = Value(self.hidden).apply(params, observation)
        return output

    def collect(
        self, state: State, world: Slots, key: Array
    ) -> tuple[State, Slots, Batch, Episodes, Array]:
        """Runs one iteration's environment steps.

        Returns:
            the state with the statistics of what was seen, the world, the flat batch, the episodes as the task gives them, and
            the number of non-finite ends.
        """
        policy = state.params["policy"]

        def act(act_key: Array, observation: Array) -> tuple[Array, Array]:
            mean, log_std = self.policy(policy, world.env, observation)
            action = gaussian_sample(act_key, mean, log_std)
            return action, gaussian_log_prob(mean, log_std, action)

        asked = (world.env, key, world.slots, act, world.assign, self.num_steps)
        if self.normalize_observations or self.normalize_rewards:
            slots, transitions, episodes, num_failed, normalizer = normalized_rollout(
                *asked, self.discount, state.normalizer
            )
            state = dataclasses.replace(state, normalizer=normalizer)
        else:
            slots, transitions, episodes, num_failed = rollout(*asked, self.discount)

        world = dataclasses.replace(world, slots=slots)
        batch = self.batch(state.params["value"], transitions)
        return state, world, batch, episodes, num_failed

    def batch(self, params: Params, transitions: Transitions) -> Batch:
        """Returns the flat batch [T * B, ...] with advantages and value targets."""
        values = self.critic(params, transitions.observation)
        terminated, truncated = transitions.terminated, transitions.truncated
        if self.bootstrap_time_limit:
            next_values = self.critic(params, transitions.next_observation)
        else:
            # Within an episode the next observation is the next row's; at its end the value is not used.
            terminated, truncated = terminated | truncated, jnp.zeros_like(truncated)
            next_values = jnp.concatenate(
                [values[1:], self.critic(params, transitions.next_observation[-1:])]
            )
        advantages = gae(
            transitions.reward,
            values,
            next_values,
            terminated,
            truncated,
            self.discount,
            self.gae_lambda,
        )
        return flat(
            Batch(
                observation=transitions.observation,
                action=transitions.action,
                log_prob=transitions.extras,
                advantage=advantages,
                target=advantages + values,
            )
        )

    def _policy_network(self, env: Env) -> GaussianPolicy:
        return GaussianPolicy(self.hidden, len(env.action_lower))


def gaussian_entropy(log_std: Float[Array, " action"]) -> Float[Array, ""]:
    """Returns the entropy of a diagonal Gaussian in nats."""
    return (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
