"""The tasks of the paper, each written for one instance and vmapped by the caller; imports as ``spjax.envs``."""

from spjax.envs.ball_catching import BallCatching
from spjax.envs.base import Env, EnvState, Task, make, names
from spjax.envs.episodic import EpisodicTask, Outcome
from spjax.envs.gate import Gate
from spjax.envs.point_mass import PointMass

__all__ = [
    "BallCatching",
    "Env",
    "EnvState",
    "EpisodicTask",
    "Gate",
    "Outcome",
    "PointMass",
    "Task",
    "make",
    "names",
]
