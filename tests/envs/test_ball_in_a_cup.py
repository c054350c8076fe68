"""Ball-in-a-cup: its model against the published description, its reward, and what ends a movement."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from spjax.envs import ball_in_a_cup_scene as scene
from spjax.envs.ball_in_a_cup import BallInACup
from spjax.envs.physics import compile_scene
from spjax.settings import check

TASK = BallInACup()
ONE = jnp.asarray([1.0])


@functools.cache
def started(string: str, scale: float = 1.0):
    task = BallInACup(string=string)
    return task, task._start(jnp.asarray([scale]))


def model_at(scale: float, string: scene.String = "tendon") -> mujoco.MjModel:
    compiled = compile_scene(scene.scene(string))
    for name, rows, _, value in compiled.split_fields(scene.fields(scale)):
        getattr(compiled.model, name)[rows] = value
    return compiled.model


def test_the_start_posture_holds_the_palm_and_the_cup_where_they_were_published():
    model = model_at(1.0)
    data = mujoco.MjData(model)
    data.qpos[:7] = scene.START
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(
        data.body("wrist_palm").xpos, (0, -0.698, 1.305), atol=1e-3
    )
    turn = data.body("cup").xmat.reshape(3, 3)
    np.testing.assert_allclose(turn[:, 1], (0, -0.056, 0.998), atol=2e-3)
    goal = data.body("cup").xpos + turn @ (0, scene.GOAL_HEIGHT, scene.axis(1.0))
    np.testing.assert_allclose(goal, (0, -0.813, 1.273), atol=1e-3)


@pytest.mark.parametrize(
    "string", ["tendon", pytest.param("chain", marks=pytest.mark.slow)]
)
def test_the_settled_arm_sags_and_the_ball_hangs_as_published(string):
    task, state = started(string)
    sag = state.qpos[:7] - jnp.asarray(scene.START)
    np.testing.assert_allclose(sag, (0, 0.064, 0, 0.049, 0.006, 0.037, 0), atol=6e-4)
    distance, inside = task.ball_in_cup(state, ONE)
    assert distance == pytest.approx(0.330, abs=1e-3)
    assert not inside
    assert jnp.abs(state.qvel).max() < 0.05


def test_a_start_between_the_settled_scales_is_the_settled_one():
    qpos, _ = scene.start("tendon", jnp.asarray(1.37))
    settled, _ = scene._settle(
        compile_scene(scene.scene("tendon")), "tendon", np.float64(1.37)
    )
    np.testing.assert_allclose(qpos, settled, atol=1e-4)


def test_wall_plate_and_string_grow_with_the_scale_across_the_axis_alone():
    for scale in (0.9, 1.0, 2.5):
        model = model_at(scale)
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        cup = data.body("cup")
        turn = cup.xmat.reshape(3, 3)

        def inside_cup(place, cup=cup, turn=turn):
            return turn.T @ (place - cup.xpos)

        middle = np.asarray([0, 0, 0.1165 + 0.0385 * (scale - 1)])
        for index, name in enumerate(scene.WALLS):
            geom, size = data.geom(name), model.geom(name).size
            out = inside_cup(geom.xpos) - middle
            angle = math.radians(30 * index + 15)
            normal = turn.T @ geom.xmat.reshape(3, 3)[:, 2]
            np.testing.assert_allclose(
                normal, (math.sin(angle), 0, math.cos(angle)), atol=1e-7
            )
            assert out @ normal - size[2] == pytest.approx(0.034 * scale)
            assert out @ normal + size[2] == pytest.approx(0.0384 * scale)
            assert out[1] - size[1] == pytest.approx(-0.032)
            assert out[1] + size[1] == pytest.approx(0.0506)
            # neighbours meet: no slit between the segments
            assert size[0] == pytest.approx(0.0384 * scale * math.tan(math.pi / 12))
        plate = inside_cup(data.geom("plate").xpos) - middle
        np.testing.assert_allclose(plate, (0, -0.035, 0), atol=1e-9)
        assert model.geom("plate").size[0] == pytest.approx(0.038 * scale)
        end = inside_cup(data.site("string_end").xpos) - middle
        np.testing.assert_allclose(end, (0, -0.045, 0), atol=1e-9)


def test_fields_that_jax_traces_are_those_of_numpy():
    for one, other in zip(
        scene.fields(1.7), scene.traced_fields(jnp.asarray(1.7)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_masses_are_the_published_ones():
    model = model_at(2.5)
    assert model.body("cup").mass == pytest.approx(0.132)
    assert model.body("ball").mass == pytest.approx(0.021)
    chain = model_at(1.0, "chain")
    links = [i for i in range(chain.nbody) if chain.body(i).name.startswith("string")]
    assert len(links) == 30
    assert chain.body_mass[links] == pytest.approx(7.4927e-5)
    assert chain.nv == 7 + 58
    assert chain.opt.timestep == pytest.approx(0.0005)
    assert scene.scene("chain").substeps == 4


def test_no_movement_is_no_catch_and_lasts_the_whole_rollout():
    outcome = jax.jit(TASK.rollout)(jax.random.key(0), jnp.zeros(15), ONE)
    assert not outcome.success
    assert outcome.reward == 0
    assert outcome.length == TASK.horizon == 2100


def test_set_points_start_and_end_at_rest_and_move_three_joints():
    from spjax.envs.ball_in_a_cup import set_points

    theta = jnp.linspace(-2.0, 2.0, 15)
    points = set_points(theta)
    offsets = np.asarray(points.positions) - np.asarray(scene.START)
    assert np.abs(offsets[0]).max() < 0.02
    assert np.abs(offsets[1749]).max() < 0.02
    assert (offsets[1750:] == offsets[1749]).all()
    assert (np.asarray(points.velocities)[1750:] == 0).all()
    assert {*np.flatnonzero(np.abs(offsets).max(axis=0) > 1e-6)} == {1, 3, 5}

    # one hand-made point: the third basis function that carries a weight is centred at the middle of the movement
    centres = np.linspace(-0.01, 1.01, 9)
    phase = 1000 / 1749
    bumps = np.exp(-((phase - centres) ** 2) / (2 * 0.0035))
    weights = math.sqrt(0.02) * np.asarray(theta).reshape(5, 3)
    expected = (bumps / bumps.sum())[2:7] @ weights
    np.testing.assert_allclose(offsets[1000, [1, 3, 5]], expected, atol=1e-5)
    slopes = np.gradient(offsets[:1750], 3.5 / 1749, axis=0)
    np.testing.assert_allclose(
        np.asarray(points.velocities)[10:1740], slopes[10:1740], atol=0.02
    )


def placed(place: tuple[float, float, float], scale: float):
    """Returns a state whose ball is at a place in the frame of the cup [m]."""
    task, state = started("tendon", scale)
    position, rotation = task._physics.body_pose(state, "cup")
    ball = position + rotation @ jnp.asarray(place)
    return dataclasses.replace(state, qpos=state.qpos.at[7:].set(ball))


@pytest.mark.parametrize(
    ("off_axis", "along", "distance", "inside"),
    [
        (0.0, 0.0, 0.025, True),
        (0.0, 0.049, 0.074, True),
        (0.0, 0.052, 0.077, False),  # above the rim
        (0.0, -0.0595, 0.0345, False),  # touches the plate from below
        (0.09, -0.02, None, False),  # outside the wall
    ],
)
def test_inside_is_between_plate_wall_and_rim_where_distance_alone_is_not(
    off_axis, along, distance, inside
):
    state = placed((off_axis, along, scene.axis(2.0)), 2.0)
    found, is_inside = TASK.ball_in_cup(state, jnp.asarray([2.0]))
    expected = math.hypot(off_axis, along + 0.025) if distance is None else distance
    assert found == pytest.approx(expected, abs=1e-5)
    assert bool(is_inside) == inside


@pytest.mark.parametrize(
    ("catch", "along", "success"),
    [
        ("distance", -0.0595, True),
        ("inside", -0.0595, False),
        ("inside", 0.0, True),
        ("distance", 0.08, False),
    ],
)
def test_the_reward_of_a_catch_is_one_minus_the_cost_of_the_weights(
    catch, along, success
):
    task = BallInACup(catch=catch)
    theta = jnp.full(15, 2.0)
    state = placed((0.0, along, scene.axis(1.5)), 1.5)
    moved = task._physics.track(
        state, scene.SERVO, jax.tree.map(lambda rows: rows[:1], _points())
    )
    outcome = task.outcome(moved, theta, jnp.asarray([1.5]))
    assert bool(outcome.success) == success
    # 0.0014 theta' theta
    assert outcome.reward == pytest.approx((1 - 0.0014 * 60) * success)


def _points():
    from spjax.envs.ball_in_a_cup import set_points

    return set_points(jnp.zeros(15))


def test_a_touch_of_the_palm_ends_the_movement_and_the_step_before_is_judged():
    task, state = started("tendon")
    position, rotation = task._physics.body_pose(state, "cup")
    # just above the flange, falling on it
    above = position + rotation @ jnp.asarray([0.0, 0.055, 0.007])
    state = dataclasses.replace(
        state,
        qpos=state.qpos.at[7:].set(above),
        qvel=state.qvel.at[7:].set(rotation @ jnp.asarray([0.0, -0.5, 0.0])),
    )
    moved = task._physics.track(state, scene.SERVO, _points())
    assert moved.num_steps < 20
    assert moved.state.contacts.all()
    assert not moved.before.contacts.any()
    assert not jnp.allclose(moved.before.qpos, moved.state.qpos)


@pytest.mark.slow
def test_the_ball_stays_on_its_string():
    theta = jnp.asarray(TASK.parameter_std) * jax.random.normal(
        jax.random.key(3), (15,)
    )
    states = jax.jit(TASK.states)(jax.random.key(0), theta, ONE)
    assert states.physics.qpos.shape == (2101, 10)

    def length(physics):
        position, rotation = TASK._physics.body_pose(physics, "cup")
        end = position + rotation @ jnp.asarray([0.0, -0.045, scene.axis(1.0)])
        return jnp.sqrt(((physics.qpos[7:] - end) ** 2).sum())

    lengths = jax.jit(jax.vmap(length))(states.physics)
    # the limit is soft: it gives way by a few centimetres in the fastest swing
    assert 29 * 0.0107 < lengths.max() < 29 * 0.0107 + 0.03
    outcome = jax.jit(TASK.rollout)(jax.random.key(0), theta, ONE)
    assert int(states.terminated.argmax()) == outcome.length
    assert jnp.abs(states.physics.qpos[-1] - states.physics.qpos[0])[7:].max() > 0.01


def test_the_settings_name_the_strings_that_there_are():
    with pytest.raises(
        ValueError, match=r"^task.string must be tendon or chain, got 'rope'$"
    ):
        check("task", BallInACup(string="rope"))
