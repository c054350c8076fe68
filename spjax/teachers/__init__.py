"""Who chooses the next task: pure functions over a state, behind one contract."""

from spjax.teachers.alp_gmm.teacher import ALPGMM
from spjax.teachers.base import Teacher
from spjax.teachers.closed_form import SelfPacedGaussian
from spjax.teachers.goal_gan.episodic import EpisodicGoalGAN
from spjax.teachers.goal_gan.step_based import GoalGAN
from spjax.teachers.sagg_riac.teacher import SAGGRIAC
from spjax.teachers.self_paced import SelfPaced
from spjax.teachers.target import Target
from spjax.teachers.uniform import Random

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
