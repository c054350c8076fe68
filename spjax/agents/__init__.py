"""Step-based learners and what they share: networks, rollout, generalised advantage estimation."""

from spjax.agents.ppo import PPO

__all__ = ["PPO"]
