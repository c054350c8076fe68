"""Who chooses the next task: pure functions over a state, behind one contract."""

from spjax.teachers.alp_gmm import ALPGMM
from spjax.teachers.base import Teacher
from spjax.teachers.closed_form import SPGL
from spjax.teachers.currot import CURROT
from spjax.teachers.doraemon import DORAEMON
from spjax.teachers.goal_gan import EpisodicGoalGAN, GoalGAN
from spjax.teachers.particles import SelfPacedParticles
from spjax.teachers.sagg_riac import SAGGRIAC
from spjax.teachers.self_paced import SelfPaced
from spjax.teachers.self_paced_joint import SelfPacedJoint
from spjax.teachers.target import Target, TargetMean
from spjax.teachers.uniform import Random

__all__ = [
    "ALPGMM",
    "CURROT",
    "DORAEMON",
    "SAGGRIAC",
    "SPGL",
    "EpisodicGoalGAN",
    "GoalGAN",
    "Random",
    "SelfPaced",
    "SelfPacedJoint",
    "SelfPacedParticles",
    "Target",
    "TargetMean",
    "Teacher",
]
