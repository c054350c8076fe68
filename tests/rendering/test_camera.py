"""The camera of films in space: a wall as good as endless takes no picture for itself."""

import mujoco
import numpy as np
import pytest

from spjax.rendering.space import Motion, _camera

SCENE = """<mujoco><worldbody>
  <geom name="ball" type="sphere" size="0.25"/>
  <geom name="wall" type="box" size="0.25 {half} 2"/>
</worldbody></mujoco>"""


def camera(half):
    model = mujoco.MjModel.from_xml_string(SCENE.format(half=half))
    path = np.linspace((0.0, 0.0, 0.5), (4.0, -8.0, 0.5), 20)
    positions = np.stack([path, np.broadcast_to((3.0, half - 6.0, 2.0), (20, 3))], 1)
    turns = np.broadcast_to((1.0, 0, 0, 0), (20, 2, 4))
    motion = Motion(positions, turns, model.geom_size.copy())
    return _camera(model, (motion,), 1.6, ())


def test_a_wall_as_good_as_endless_does_not_send_the_camera_away():
    near, endless = camera(1.0), camera(50.0)
    assert camera(15.0).distance > 30
    assert endless.distance == pytest.approx(near.distance, rel=0.2)
    assert -9 < endless.lookat[1] < 0
