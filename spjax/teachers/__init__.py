"""Who chooses the next task: pure functions over a state, behind one contract."""

from spjax.teachers.base import Teacher
from spjax.teachers.random import Random
from spjax.teachers.self_paced import SelfPaced
from spjax.teachers.target import Target

__all__ = ["Random", "SelfPaced", "Target", "Teacher"]
