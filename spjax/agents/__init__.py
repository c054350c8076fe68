"""Step-based learners and what they share: networks, rollout, advantages, replay."""

from spjax.agents.ppo import PPO
from spjax.agents.sac import SAC
from spjax.agents.trpo import TRPO

__all__ = ["PPO", "SAC", "TRPO"]
