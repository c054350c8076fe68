"""Strings as films show them: right length, right ends, the curve of a string at rest."""

import mujoco
import numpy as np
import pytest

from spjax.rendering.strings import PIECES, add_strings, hang, hanging, strings

ROPE = """
<mujoco>
  <worldbody>
    <site name="a" pos="0 0 1"/>
    <body name="b" pos="0.1 0 0.9"><freejoint/><geom size="0.02"/><site name="c"/></body>
  </worldbody>
  <tendon>
    <spatial name="rope" limited="true" range="0 0.3" width="0.004"><site site="a"/><site site="c"/></spatial>
    <spatial name="spring" stiffness="3"><site site="a"/><site site="c"/></spatial>
  </tendon>
</mujoco>"""


def lengths(points):
    return np.linalg.norm(np.diff(points, axis=0), axis=1)


@pytest.mark.parametrize("end", [(0.2, 0.0, 0.0), (0.05, 0.1, -0.2), (-0.01, 0.0, 0.1)])
def test_a_slack_string_has_its_length_its_ends_and_even_pieces(end):
    points = hanging(np.zeros(3), np.array(end), 0.33, 4001)
    np.testing.assert_allclose(points[[0, -1]], [np.zeros(3), end], atol=1e-9)
    assert lengths(points).sum() == pytest.approx(0.33, rel=1e-5)
    np.testing.assert_allclose(lengths(points), 0.33 / 4000, rtol=1e-3)


def test_it_is_the_catenary():
    """y'' = sqrt(1 + y'^2) / a along it, for one a."""
    points = hanging(np.zeros(3), np.array([0.2, 0.0, 0.05]), 0.4, 4001)
    x, y = points[:, 0], points[:, 2]
    slope = np.gradient(y, x)
    curvature = np.gradient(slope, x) / np.sqrt(1 + slope**2)
    inner = curvature[100:-100]
    np.testing.assert_allclose(inner, inner.mean(), rtol=2e-3)
    assert inner.mean() > 0  # it hangs down


@pytest.mark.parametrize("stretch", [1.0, 1.02])
def test_a_taut_string_is_straight_even_where_its_limit_gives(stretch):
    end = 0.3 * stretch * np.array([0.6, 0.0, -0.8])
    points = hanging(np.zeros(3), end, 0.3, 5)
    np.testing.assert_allclose(points, np.linspace(0, 1, 5)[:, None] * end, atol=1e-12)


def test_a_string_whose_ends_are_above_each_other_is_folded():
    points = hanging(np.zeros(3), np.array([0.0, 0.0, 0.1]), 0.3, 4)
    np.testing.assert_allclose(points[:, 2], [0.0, -0.1, 0.0, 0.1], atol=1e-12)


def test_only_a_tendon_with_a_largest_length_is_a_string_and_its_pieces_meet_its_ends():
    spec = mujoco.MjSpec.from_string(ROPE)
    add_strings(spec)
    model = spec.compile()
    (rope,) = strings(model)
    assert rope.length == pytest.approx(0.3)
    assert len(rope.pieces) == PIECES == model.ngeom - 1
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    positions, quaternions = data.geom_xpos.copy(), np.tile([1.0, 0, 0, 0], (17, 1))
    hang(rope, data, positions, quaternions)
    half = model.geom_size[rope.pieces[0], 1]
    ends = []
    for piece, side in ((rope.pieces[0], -1), (rope.pieces[-1], 1)):
        along = np.zeros(3)
        mujoco.mju_rotVecQuat(
            along, np.array([0.0, 0.0, side * half]), quaternions[piece]
        )
        ends.append(positions[piece] + along)
    np.testing.assert_allclose(ends, [[0, 0, 1], [0.1, 0, 0.9]], atol=2e-4)
