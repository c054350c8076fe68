"""The process that draws frames of a MuJoCo scene: reads a folder, writes raw pixels (RGB) to its output.

It is a process of its own, run by its path, because OpenGL is chosen for good when MuJoCo is imported, and a driver that
fails may take the process with it.
"""

import itertools
import os
import sys
from pathlib import Path

import mujoco
import numpy as np

TRAIL_WIDTH = 3.0  # pixels
TRAIL_COLOR = np.array([0.3, 0.3, 0.3, 0.8], np.float32)


def main(folder: Path) -> None:
    """Draws the frames of frames.npz, whose entries are those that `spjax.rendering.offscreen` writes."""
    pixels = os.dup(sys.stdout.fileno())
    os.dup2(
        sys.stderr.fileno(), sys.stdout.fileno()
    )  # what drivers print must not get between the pixels
    model = mujoco.MjModel.from_binary_path(str(folder / "model.mjb"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    with np.load(folder / "frames.npz") as content:
        frames = dict(content)
    width, height = frames["size"].tolist()
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    camera = _camera(model, frames["camera"].tolist())
    options = mujoco.MjvOption()
    options.flags[mujoco.mjtVisFlag.mjVIS_TENDON] = False  # geoms show strings
    with (
        os.fdopen(pixels, "wb") as output,
        mujoco.Renderer(model, height, width) as renderer,
    ):
        for index in range(len(frames["positions"])):
            data.geom_xpos[:] = frames["positions"][index]
            data.geom_xmat[:] = frames["matrices"][index]
            model.geom_size[:] = frames["sizes"][frames["episode"][index]]
            renderer.update_scene(data, camera, options)
            _draw_trail(renderer.scene, frames, index)
            output.write(renderer.render().tobytes())


def _camera(model: mujoco.MjModel, numbers: list[float]) -> mujoco.MjvCamera:
    camera = mujoco.MjvCamera()
    camera.lookat[:], (camera.distance, camera.azimuth, camera.elevation, fovy) = (
        numbers[:3],
        numbers[3:],
    )
    model.vis.global_.fovy = fovy
    return camera


def _draw_trail(
    scene: mujoco.MjvScene, frames: dict[str, np.ndarray], index: int
) -> None:
    """Draws the way of one geom since its episode began."""
    if not frames["trail"].size:
        return
    start = int(np.searchsorted(frames["episode"], frames["episode"][index]))
    points = frames["positions"][start : index + 1, frames["trail"][0]]
    for one, two in itertools.pairwise(points):
        if scene.ngeom < scene.maxgeom and (one != two).any():
            geom = scene.geoms[scene.ngeom]
            kind = mujoco.mjtGeom.mjGEOM_LINE
            mujoco.mjv_initGeom(
                geom, kind, np.zeros(3), np.zeros(3), np.zeros(9), TRAIL_COLOR
            )
            mujoco.mjv_connector(geom, kind, TRAIL_WIDTH, one, two)
            scene.ngeom += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
