"""The tasks of the paper, each written for one instance and vmapped by the caller; imports as ``spjax.envs``."""

import importlib
from typing import TYPE_CHECKING

from jaxtyping import PyTree

if TYPE_CHECKING:
    from spjax.envs.ball_catching import BallCatching
    from spjax.envs.base import Env, EnvState, Task
    from spjax.envs.episodic import EpisodicTask
    from spjax.envs.gate import Gate
    from spjax.envs.point_mass import PointMass

__all__ = [
    "BallCatching",
    "Env",
    "EnvState",
    "EpisodicTask",
    "Gate",
    "PointMass",
    "Task",
]

_HOMES = {
    "BallCatching": "ball_catching",
    "Env": "base",
    "EnvState": "base",
    "EpisodicTask": "episodic",
    "Gate": "gate",
    "PointMass": "point_mass",
    "Task": "base",
}


def __getattr__(name: str) -> PyTree:
    """Imports a task when it is asked for: some bring MuJoCo with them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
