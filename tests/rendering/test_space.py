import types

import mujoco
import numpy as np
import pytest

from spjax.envs.physics import Field, PhysicsState, Scene
from spjax.envs.physics.scene import compile_scene
from spjax.rendering.film import Film
from spjax.rendering.record import Episode
from spjax.rendering.space import MARK, Motion, decorated, motion, stage

SIZE = (960, 656)


@pytest.fixture(scope="module")
def shown(space_film):
    return stage(space_film, SIZE)


def test_every_geom_is_where_mujoco_puts_it_in_the_recorded_positions(
    space_film, shown
):
    plain = mujoco.MjModel.from_xml_string(space_film.env.physics_scene().mjcf)
    data = mujoco.MjData(plain)
    for episode, part in zip(space_film.episodes, shown.motions, strict=True):
        for time in (0, 17, episode.length):
            data.qpos[:] = episode.states.physics.qpos[time]
            mujoco.mj_forward(plain, data)
            for geom in range(plain.ngeom):
                same = shown.model.geom(plain.geom(geom).name).id
                np.testing.assert_allclose(
                    part.positions[time, same], data.geom_xpos[geom], atol=1e-5
                )
                matrix = np.empty(9)
                mujoco.mju_quat2Mat(matrix, part.quaternions[time, same])
                np.testing.assert_allclose(matrix, data.geom_xmat[geom], atol=1e-5)
                if (
                    plain.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE
                ):  # which is shown without end
                    np.testing.assert_allclose(part.sizes[same], plain.geom_size[geom])


def test_the_mark_is_where_the_ball_is_thrown_at_and_the_ball_comes_near_it(
    space_film, shown
):
    mark, ball = shown.model.geom(MARK).id, shown.model.geom("ball").id
    assert shown.trail == ball
    angle, radius, _ = space_film.episodes[1].context
    target = [0.0, -radius * np.cos(angle), 0.75 + radius * np.sin(angle)]
    np.testing.assert_allclose(
        shown.motions[1].positions[:, mark],
        np.tile(target, (len(shown.motions[1].positions), 1)),
    )
    distance = np.linalg.norm(shown.motions[1].positions[:, ball] - target, axis=1)
    assert distance.min() < 0.06  # 6 m/s, every 10 ms


def test_the_decoration_changes_no_physics(space_film):
    scene = space_film.env.physics_scene().mjcf
    models = [
        mujoco.MjModel.from_xml_string(text) for text in (scene, decorated(scene))
    ]
    ends = []
    for model in models:
        data = mujoco.MjData(model)
        data.qpos[:] = space_film.episodes[0].states.physics.qpos[0]
        data.qvel[:] = space_film.episodes[0].states.physics.qvel[0]
        mujoco.mj_step(model, data, 100)
        ends.append(data.qpos.copy())
    np.testing.assert_allclose(*ends, atol=1e-5)


def test_between_frames_geoms_move_straight_and_turn_the_short_way():
    half = np.sqrt(0.5)
    frames = Motion(
        positions=np.array([[[0.0, 0.0, 0.0]], [[2.0, 4.0, 0.0]]]),
        quaternions=np.array(
            [[[1.0, 0.0, 0.0, 0.0]], [[-half, 0.0, 0.0, -half]]]
        ),  # a quarter turn about z
        sizes=np.ones((1, 3)),
    )
    middle = frames.at(np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(
        middle.positions[:, 0], [[0, 0, 0], [1, 2, 0], [2, 4, 0]]
    )
    eighth = [np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8)]
    np.testing.assert_allclose(middle.quaternions[1, 0], eighth, atol=1e-12)
    np.testing.assert_allclose(np.abs(middle.quaternions[2, 0]), [half, 0, 0, half])


@pytest.mark.parametrize("view", [(), (90.0,), (200.0, -60.0)])
def test_all_that_moves_is_in_the_picture_and_fills_it(space_film, view):
    camera = stage(space_film, SIZE, view).camera
    assert (camera.azimuth, camera.elevation)[: len(view)] == view
    solid = [
        geom.id
        for geom in map(
            stage(space_film, SIZE).model.geom, ("ball", "net", "turret", "palm")
        )
    ]
    points = np.concatenate(
        [
            part.positions[:, solid].reshape(-1, 3)
            for part in stage(space_film, SIZE).motions
        ]
    )
    right, up, depth = camera.axes() @ (points - camera.lookat).T
    depth = depth + camera.distance
    slope = np.tan(np.radians(camera.fovy) / 2)
    seen = np.abs([right / depth / slope * SIZE[1] / SIZE[0], up / depth / slope])
    assert (depth > 0).all()
    assert 0.7 < seen.max() < 1


def test_a_distance_is_taken_as_it_is(space_film):
    assert stage(space_film, SIZE, (90.0, -10.0, 7.5)).camera.distance == 7.5


def test_fields_of_an_instance_move_and_size_its_geoms():
    scene = Scene(
        '<mujoco><worldbody><geom name="wall" size="1 1 1" type="box"/>'
        '<body name="hand" mocap="true"><geom name="glove" size="0.1" pos="0 0 1"/></body>'
        '<body><joint type="slide" axis="1 0 0"/><geom name="cart" size="0.2" mass="1"/></body></worldbody></mujoco>',
        substeps=1,
        fields=(
            Field("geom_pos", ("wall",)),
            Field("geom_size", ("wall",)),
            Field("mocap_pos", ("hand",)),
        ),
    )
    states = types.SimpleNamespace(
        physics=PhysicsState(
            qpos=np.array([[0.5], [0.75]]),
            qvel=None,
            act=None,
            warmstart=None,
            contacts=None,
            failed=None,
            fields=(
                np.tile([1.0, 2.0, 3.0], (2, 1, 1)),
                np.tile([0.3, 0.2, 0.1], (2, 1, 1)),
                np.array([[[0.0, 0.0, 0.0]], [[0.0, 5.0, 0.0]]]),
            ),
        ),
        context=np.zeros((2, 1)),
    )
    env = types.SimpleNamespace(mark=lambda context: None)
    compiled = compile_scene(Scene(decorated(scene.mjcf), 1, fields=scene.fields))
    episode = Episode(states, np.zeros((2, 2)), np.zeros(2))
    part = motion(compiled, Film(env, (episode,), "", 1.0), episode)
    wall, glove, cart, mark = (
        compiled.model.geom(name).id for name in ("wall", "glove", "cart", MARK)
    )
    np.testing.assert_allclose(part.positions[:, wall], [[1, 2, 3]] * 2)
    np.testing.assert_allclose(part.positions[:, glove], [[0, 0, 1], [0, 5, 1]])
    np.testing.assert_allclose(part.positions[:, cart, 0], [0.5, 0.75])
    np.testing.assert_allclose(part.sizes[wall], [0.3, 0.2, 0.1])
    np.testing.assert_array_equal(part.sizes[mark], 0)  # no mark, so none to be seen


def test_a_geom_that_films_cannot_show_is_one_sentence():
    mesh = '<mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>'
    geom = '<geom name="g" type="mesh" mesh="m"/>'
    scene = f"<mujoco><asset>{mesh}</asset><worldbody>{geom}</worldbody></mujoco>"
    sentence = "films show plane, sphere, capsule, ellipsoid, cylinder, box; the geom 'g' is a mesh"
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        decorated(scene)
