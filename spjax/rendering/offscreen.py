"""Frames of MuJoCo scenes without a display: starts the process that draws, with an OpenGL that works."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from spjax.rendering.film import Film
from spjax.rendering.space import Motion, Stage

# How MuJoCo can get at OpenGL, in the order of preference; "" is its own choice, which is right where there is a display system.
BACKENDS = ("egl", "osmesa") if sys.platform == "linux" else ("",)
_PAINTER = Path(__file__).with_name("painter.py")


class NoGraphics(Exception):
    """No frame can be drawn on this machine; the message says what to install."""


def frames(
    film: Film, stage: Stage, size: tuple[int, int]
) -> Iterator[UInt8[np.ndarray, "height width 3"]]:
    """Yields the frames of all episodes; size is (width, height) in pixels.

    The environment variable MUJOCO_GL chooses the OpenGL where it is set.

    Raises:
        NoGraphics: no OpenGL works, or drawing stopped half-way.
    """
    width, height = size
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        total = _write(folder, film, stage, size)
        num_bytes = 3 * width * height
        with _painter(folder, num_bytes) as (output, pixels):
            count = 0
            while len(pixels) == num_bytes:
                yield np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
                count += 1
                pixels = output.read(num_bytes)
    if count < total:
        raise NoGraphics(f"MuJoCo stopped drawing after {count} of {total} frames")


def _write(folder: Path, film: Film, stage: Stage, size: tuple[int, int]) -> int:
    """Writes what the painter reads, and returns the number of frames."""
    shown = [
        part.at(film.moments(episode))
        for part, episode in zip(stage.motions, film.episodes, strict=True)
    ]
    positions = np.concatenate([part.positions for part in shown])
    camera = stage.camera
    mujoco.mj_saveModel(stage.model, str(folder / "model.mjb"))
    np.savez(
        folder / "frames.npz",
        size=np.array(size),
        camera=np.array(
            [
                *camera.lookat,
                camera.distance,
                camera.azimuth,
                camera.elevation,
                camera.fovy,
            ]
        ),
        trail=np.array([] if stage.trail is None else [stage.trail], int),
        positions=positions,
        matrices=np.concatenate([_matrices(part) for part in shown]),
        sizes=np.array([part.sizes for part in shown]),
        episode=np.repeat(
            np.arange(len(shown)), [len(part.positions) for part in shown]
        ),
    )
    return len(positions)


def _matrices(part: Motion) -> Float[np.ndarray, "frame geom 9"]:
    w, x, y, z = np.moveaxis(part.quaternions, -1, 0)
    rows = [
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return np.stack(rows, axis=-1)


@contextlib.contextmanager
def _painter(folder: Path, num_bytes: int) -> Iterator[tuple[IO[bytes], bytes]]:
    """Gives the output of the process that draws, with the first backend that brings about a frame, and this frame."""
    chosen = os.environ.get("MUJOCO_GL")
    for backend in [chosen] if chosen else BACKENDS:
        process = _start(folder, backend)
        try:
            assert process.stdout is not None
            first = process.stdout.read(num_bytes)
            if len(first) == num_bytes:
                yield process.stdout, first
                return
        finally:
            process.kill()
            process.communicate()
    raise NoGraphics(_advice(chosen))


def _start(folder: Path, backend: str) -> subprocess.Popen:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")
    }
    if backend:
        environment["MUJOCO_GL"] = backend
    command: Sequence[str] = [sys.executable, "-P", str(_PAINTER), str(folder)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _advice(chosen: str | None) -> str:
    if chosen:
        return f"no frame can be drawn with MUJOCO_GL={chosen}; unset it to have one chosen that works. html needs none"
    return (
        "no frame can be drawn: OpenGL is missing. On Debian and Ubuntu install libegl1 and libgl1-mesa-dri, or libosmesa6. "
        "html needs none"
    )
