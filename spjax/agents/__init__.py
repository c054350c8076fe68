"""Step-based learners and what they share: networks, rollout, generalised advantage estimation."""

from spjax.agents.ppo import PPO
from spjax.agents.trpo import TRPO

__all__ = ["PPO", "TRPO"]
