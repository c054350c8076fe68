"""GoalGAN: contexts of intermediate difficulty from a generative network."""

from spjax.teachers.goal_gan.episodic import EpisodicGoalGAN
from spjax.teachers.goal_gan.step_based import GoalGAN

__all__ = ["EpisodicGoalGAN", "GoalGAN"]
