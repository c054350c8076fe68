"""Motions that a servo drives, against C MuJoCo stepped by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from spjax.envs.physics import (
    Contact,
    Field,
    PhysicsState,
    Scene,
    Servo,
    SetPoints,
    make,
)

MJCF = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="4 4 0.1" contype="0"/>
    <body pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" damping="0.1"/>
      <geom name="upper" type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" mass="2" contype="0"/>
      <body name="lower" pos="0.4 0 0">
        <joint name="elbow" axis="0 1 0"/>
        <geom name="lower" type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1" contype="0"/>
      </body>
    </body>
    <body name="ball" pos="2 0 0">
      <joint name="fall" type="slide" axis="0 0 1"/>
      <geom name="ball" type="sphere" size="0.02" mass="0.1"/>
    </body>
    <body name="post" pos="9 0 0"><geom name="post" type="sphere" size="0.1" contype="0"/></body>
  </worldbody>
  <actuator><motor joint="elbow"/><motor joint="shoulder"/></actuator>
</mujoco>
"""
SCENE = Scene(
    mjcf=MJCF,
    substeps=4,
    contacts=(Contact(("ball",), ("floor",)),),
    fields=(Field("body_pos", ("post",)),),
)
SERVO = Servo(("elbow", "shoulder"), (20.0, 30.0), (0.7, 1.5))
STEPS = 170  # more than a callback takes


def start(physics, height: float = 3.0) -> PhysicsState:
    return physics.reset(
        jnp.asarray([0.1, -0.2, height]), jnp.asarray([0.3, 0.0, -1.0])
    )


def wave() -> SetPoints:
    time = jnp.linspace(0.0, 1.36, STEPS)[:, None]
    amplitude = jnp.asarray([[0.5, -0.3]])
    return SetPoints(
        positions=amplitude * jnp.sin(3 * time),
        velocities=3 * amplitude * jnp.cos(3 * time),
    )


def by_hand(physics, height: float) -> tuple[list[np.ndarray], int | None]:
    """Returns qpos after every control step, and the one in which the ball touches."""
    model = physics.compiled.model
    data = mujoco.MjData(model)
    state, points = start(physics, height), wave()
    data.qpos[:], data.qvel[:] = state.qpos, state.qvel
    path = [data.qpos.copy()]
    for step in range(STEPS):
        wanted, speed = (
            np.asarray(rows[step]) for rows in (points.positions, points.velocities)
        )
        joints = [1, 0]
        off, slow = wanted - data.qpos[joints], speed - data.qvel[joints]
        data.ctrl[:] = np.multiply(SERVO.stiffness, off) + np.multiply(
            SERVO.damping, slow
        )
        for _ in range(SCENE.substeps):
            mujoco.mj_step(model, data)
            if data.ncon:
                return [*path, data.qpos.copy()], step + 1
        path.append(data.qpos.copy())
    return path, None


def test_torques_are_computed_once_a_control_step_and_held():
    physics = make(SCENE, "native")
    path, touched = by_hand(physics, 20.0)
    assert touched is None
    tracked = jax.jit(lambda s: physics.track(s, SERVO, wave(), path=True))(
        start(physics, 20.0)
    )
    np.testing.assert_allclose(tracked.path.qpos, path[1:], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(tracked.state.qpos, tracked.path.qpos[-1])
    assert int(tracked.num_steps) == STEPS
    assert jax.tree.all(
        jax.tree.map(lambda a, b: bool((a == b).all()), tracked.state, tracked.before)
    )


@pytest.mark.parametrize(
    "height", [0.5, 7.0]
)  # in the first callback, and in the second
def test_a_contact_ends_the_motion_and_the_state_before_its_control_step_is_kept(
    height,
):
    physics = make(SCENE, "native")
    path, touched = by_hand(physics, height)
    assert touched is not None
    tracked = physics.track(start(physics, height), SERVO, wave(), path=True)
    assert int(tracked.num_steps) == touched
    np.testing.assert_allclose(tracked.before.qpos, path[touched - 1], atol=2e-5)
    np.testing.assert_allclose(tracked.state.qpos, path[touched], atol=2e-5)
    assert tracked.state.contacts.all()
    assert not tracked.before.contacts.any()
    ended = np.arange(STEPS) >= touched - 1
    np.testing.assert_array_equal(tracked.path.contacts[:, 0], ended)
    np.testing.assert_array_equal(
        tracked.path.qpos[touched - 1 :],
        np.broadcast_to(tracked.state.qpos, (STEPS - touched + 1, 3)),
    )


def test_a_batch_has_the_bits_of_single_motions():
    physics = make(SCENE, "native")
    heights = (0.5, 20.0, 2.0)
    batch = jax.tree.map(
        lambda *rows: jnp.stack(rows), *(start(physics, h) for h in heights)
    )
    together = jax.jit(jax.vmap(lambda s: physics.track(s, SERVO, wave())))(batch)
    for index, height in enumerate(heights):
        alone = physics.track(start(physics, height), SERVO, wave())
        for one, other in zip(
            jax.tree.leaves(alone), jax.tree.leaves(together), strict=True
        ):
            np.testing.assert_array_equal(one, other[index])


def test_set_points_that_are_not_finite_are_a_failure_that_keeps_the_state():
    physics = make(SCENE, "native")
    points = dataclasses.replace(
        wave(), positions=wave().positions.at[7, 0].set(jnp.nan)
    )
    tracked = physics.track(start(physics), SERVO, points)
    assert bool(tracked.state.failed)
    np.testing.assert_array_equal(tracked.state.qpos, start(physics).qpos)


def test_a_bodys_place_is_a_field_that_poses_follow():
    physics = make(SCENE, "native")
    state = physics.reset(jnp.zeros(3), fields=(jnp.asarray([[4.0, 5.0, 6.0]]),))
    np.testing.assert_allclose(physics.body_pose(state, "post")[0], (4.0, 5.0, 6.0))


@pytest.mark.parametrize(
    ("servo", "sentence"),
    [
        (
            Servo(("elbow",), (1.0,), (1.0,)),
            "^a servo of 1 joints needs one motor for each, the scene has 2 actuators$",
        ),
        (
            Servo(("elbow", "shoulder"), (1.0,), (1.0, 1.0)),
            "^a servo of 2 joints needs as many values of stiffness, got 1$",
        ),
        (
            Servo(("elbow", "hip"), (1.0, 1.0), (1.0, 1.0)),
            "^the MJCF has no joint 'hip'; it has shoulder, elbow, fall$",
        ),
    ],
)
def test_a_servo_that_does_not_fit_is_refused(servo, sentence):
    physics = make(SCENE, "native")
    with pytest.raises(ValueError, match=sentence):
        physics.track(start(physics), servo, wave())


def test_set_points_of_another_shape_are_refused():
    physics = make(SCENE, "native")
    with pytest.raises(ValueError, match=r"^positions must have the shape \(5, 2\)"):
        physics.track(
            start(physics), SERVO, SetPoints(jnp.zeros((5, 3)), jnp.zeros((5, 3)))
        )


@pytest.mark.slow
def test_mjx_tracks_as_the_simulator_in_c():
    native, mjx = make(SCENE, "native"), make(SCENE, "mjx")
    points = jax.tree.map(lambda rows: rows[:20], wave())
    one = native.track(start(native), SERVO, points, path=True)
    other = jax.jit(lambda s: mjx.track(s, SERVO, points, path=True))(start(mjx))
    np.testing.assert_allclose(one.path.qpos, other.path.qpos, atol=2e-5)
    np.testing.assert_allclose(one.path.qvel, other.path.qvel, atol=5e-4)
