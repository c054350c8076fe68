"""The three learners of Klink et al. (2021), Section 7.2, from Stable-Baselines3 and sb3-contrib, with the published constants.

PPO is the published one. The others do a little less or other work than ours, where the library offers no setting for it:

    TRPO    subsamples the surrogate and the line search as well as the Fisher products, where ours subsamples only the latter;
            accepts a step below the KL limit, where ours accepts up to 1.5 times the limit.
    SAC     is the twin-Q form: slow copies of both action-value networks and no state-value network, where ours runs the
            published form with a state-value network and its slow copy. The value that the teacher reads is therefore
            min(Q1, Q2) - temperature log pi of one action drawn from the policy.

The time limit is terminal in all three, and one environment is stepped. An iteration has 2,048 environment steps; of SAC it has
2,050, as ours has, since the gradient steps follow every fifth environment step.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib import TRPO
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from benchmarks.speed.peers.gaussian import Vector

DISCOUNT = 0.95
HIDDEN = [64, 64]
Observations = NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Peer:
    """A learner of the library."""

    name: str
    num_steps: int  # environment steps an iteration
    build: Callable[[VecEnv, int], BaseAlgorithm]  # from environment and seed
    values: Callable[
        [Any, torch.Tensor], torch.Tensor
    ]  # of observations (M, 7), what the teacher reads

    def agent(self, env: gymnasium.Env[Any, Any], seed: int) -> BaseAlgorithm:
        """Returns an untrained agent in this environment."""
        return self.build(DummyVecEnv([lambda: env]), seed)

    def values_of(self, agent: BaseAlgorithm, observations: Observations) -> Vector:
        """Returns the agent's values (M,) of observations (M, 7)."""
        with torch.no_grad():
            return (
                self.values(agent, torch.as_tensor(observations))
                .numpy()
                .ravel()
                .astype(np.float64)
            )


def _ppo(env: VecEnv, seed: int) -> PPO:
    """Returns PPO.

    ``vf_coef`` is half the published 1.0, since the published loss halves the mean squared error of the values and
    Stable-Baselines3 does not. The losses are equal.
    """
    return PPO(
        "MlpPolicy",
        env,
        learning_rate=2.5e-4,
        n_steps=2048,
        batch_size=64,
        n_epochs=8,
        gamma=DISCOUNT,
        gae_lambda=0.99,
        clip_range=0.2,
        clip_range_vf=None,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=math.inf,
        policy_kwargs=_on_policy_networks(adam_eps=1e-5),
        seed=seed,
        device="cpu",
    )


def _trpo(env: VecEnv, seed: int) -> TRPO:
    """Returns TRPO; ``learning_rate``, ``batch_size`` and ``n_critic_updates`` (epochs) are those of the critic."""
    return TRPO(
        "MlpPolicy",
        env,
        learning_rate=3e-4,
        n_steps=2048,
        batch_size=128,
        n_critic_updates=3,
        gamma=DISCOUNT,
        gae_lambda=0.99,
        target_kl=0.01,
        cg_max_steps=10,
        cg_damping=0.01,
        line_search_max_iter=10,
        line_search_shrinking_factor=0.5,
        sub_sampling_factor=5,
        policy_kwargs=_on_policy_networks(adam_eps=1e-8),
        seed=seed,
        device="cpu",
    )


def _sac(env: VecEnv, seed: int) -> SAC:
    """Returns SAC; the target entropy is minus the number of action dimensions, the first temperature 1."""
    return SAC(
        "MlpPolicy",
        env,
        learning_rate=3e-4,
        buffer_size=10_000,
        learning_starts=500,
        batch_size=64,
        tau=0.005,
        gamma=DISCOUNT,
        train_freq=5,
        gradient_steps=1,
        ent_coef="auto",
        target_entropy="auto",
        policy_kwargs={"net_arch": HIDDEN, "activation_fn": torch.nn.Tanh},
        seed=seed,
        device="cpu",
    )


def _on_policy_networks(adam_eps: float) -> dict[str, Any]:
    return {
        "net_arch": {"pi": HIDDEN, "vf": HIDDEN},
        "activation_fn": torch.nn.Tanh,
        "log_std_init": 0.0,
        "optimizer_kwargs": {"eps": adam_eps},
    }


def _critic_values(agent: PPO | TRPO, observations: torch.Tensor) -> torch.Tensor:
    return agent.policy.predict_values(observations)


def _soft_values(agent: SAC, observations: torch.Tensor) -> torch.Tensor:
    actions, log_prob = agent.actor.action_log_prob(observations)
    smaller = torch.minimum(*agent.critic(observations, actions)).squeeze(1)
    return smaller - agent.log_ent_coef.exp() * log_prob


PEERS = {
    "ppo": Peer("Stable-Baselines3 PPO", 2048, _ppo, _critic_values),
    "trpo": Peer("sb3-contrib TRPO", 2048, _trpo, _critic_values),
    "sac": Peer("Stable-Baselines3 SAC", 2050, _sac, _soft_values),
}
