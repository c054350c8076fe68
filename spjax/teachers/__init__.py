"""Who chooses the next task: pure functions over a state, behind one contract."""

from spjax.teachers.alp_gmm import ALPGMM
from spjax.teachers.base import Teacher
from spjax.teachers.goal_gan import GoalGAN
from spjax.teachers.goal_gan_episodic import EpisodicGoalGAN
from spjax.teachers.random import Random
from spjax.teachers.sagg_riac import SAGGRIAC
from spjax.teachers.self_paced import SelfPaced
from spjax.teachers.self_paced_gaussian import SelfPacedGaussian
from spjax.teachers.target import Target

__all__ = [
    "ALPGMM",
    "SAGGRIAC",
    "EpisodicGoalGAN",
    "GoalGAN",
    "Random",
    "SelfPaced",
    "SelfPacedGaussian",
    "Target",
    "Teacher",
]
