"""MuJoCo without the OpenGL that MUJOCO_GL names: where that one fails, MuJoCo cannot be imported at all.

Only rendering needs OpenGL, and does so in a process of its own.
"""

import importlib
import os


def import_mujoco() -> None:
    """Imports MuJoCo for the first time; every package that imports it calls this before."""
    chosen = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disabled"
    try:
        importlib.import_module("mujoco")
    finally:
        del os.environ["MUJOCO_GL"]
        if chosen is not None:
            os.environ["MUJOCO_GL"] = chosen
