"""Agents that act step by step and what they share: networks, rollout, advantages, replay."""

from spjax.agents.step_based.ppo import PPO
from spjax.agents.step_based.sac import SAC
from spjax.agents.step_based.trpo import TRPO

__all__ = ["PPO", "SAC", "TRPO"]
