"""Articulated tasks: one neutral interface to MuJoCo, run by C MuJoCo on CPU and by MJX on accelerators."""

import functools

import jax

from spjax.envs.physics.headless import import_mujoco

import_mujoco()  # before the modules below do

from spjax.envs.physics.base import Physics, PhysicsState, Tracked  # noqa: E402
from spjax.envs.physics.scene import Contact, Field, Scene, compile_scene  # noqa: E402
from spjax.envs.physics.servo import Servo, SetPoints  # noqa: E402

__all__ = [
    "ENGINES",
    "Contact",
    "Field",
    "Physics",
    "PhysicsState",
    "Scene",
    "Servo",
    "SetPoints",
    "Tracked",
    "make",
]

ENGINES = ("native", "mjx", "warp")


def make(scene: Scene, engine: str | None = None) -> Physics:
    """Returns the scene with the engine that runs it, always the same object for the same arguments.

    Call it where it is used (in `reset` and `step`, not at import): choosing an engine starts JAX.

    Args:
        scene: what to simulate.
        engine: "native" (C MuJoCo on all cores behind a callback), "mjx" (MuJoCo in JAX) or "warp" (MuJoCo in Warp, for
            NVIDIA GPUs, needs warp-lang); None takes "native" where JAX computes on CPU and "mjx" elsewhere.

    Raises:
        ValueError: no such engine, it cannot run here, or a fault of the scene.
    """
    return _make(
        scene, engine or ("native" if jax.default_backend() == "cpu" else "mjx")
    )


@functools.cache
def _make(scene: Scene, engine: str) -> Physics:
    if engine not in ENGINES:
        raise ValueError(
            f"unknown physics engine {engine!r}; known: {', '.join(ENGINES)}"
        )
    if engine == "native":
        from spjax.envs.physics.native import Native

        return Native(compile_scene(scene))
    from spjax.envs.physics.mjx import Mjx  # takes seconds to import

    return Mjx(compile_scene(scene), {"mjx": "jax", "warp": "warp"}[engine])
