"""A small scene with everything that the interface knows: an arm with velocity-driven position control, a ball, a wall."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from spjax.envs.physics import Contact, Field, Physics, PhysicsState, Scene

MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="4 4 0.1"/>
    <body name="upper" pos="0 0 0.6">
      <joint name="shoulder" axis="0 0 1" range="-2.6 2.6" damping="0.1" frictionloss="0.001"/>
      <geom name="upper" type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" mass="2"/>
      <body name="lower" pos="0.4 0 0" quat="0.9 0.1 0.2 0.3">
        <joint name="elbow" axis="0 1 0" pos="0 0.01 0" range="-2 2" actuatorfrcrange="-60 60"/>
        <geom name="lower" type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>
        <geom name="net" type="cylinder" size="0.06 0.01" pos="0.35 0 0" mass="0.1" solimp="0 0 0.001"/>
        <body name="palm" pos="0.3 0 0.1"/>
      </body>
    </body>
    <body name="ball">
      <freejoint/>
      <geom name="ball" type="sphere" size="0.02" mass="0.1"/>
    </body>
    <body name="wall" mocap="true" pos="9 0 0.5"><geom name="wall" type="box" size="0.05 0.3 0.3"/></body>
    <body name="post" pos="-9 0 0.5"><geom name="post" type="sphere" size="0.1"/></body>
  </worldbody>
  <contact><exclude body1="lower" body2="wall"/></contact>
  <actuator>
    <general joint="shoulder" dyntype="integrator" gainprm="200" biastype="affine" biasprm="0 -200 -7"/>
    <general joint="elbow" dyntype="integrator" gainprm="300" biastype="affine" biasprm="0 -300 -15"/>
    <general joint="elbow" gainprm="0.6"/>
  </actuator>
</mujoco>
"""
SCENE = Scene(
    mjcf=MJCF,
    substeps=5,
    contacts=(Contact(("ball",), ("net",)), Contact(("ball",))),
    fields=(
        Field("mocap_pos", ("wall",)),
        Field("geom_size", ("post",)),
        Field("geom_pos", ("post",)),
    ),
)


def place(
    wall: tuple = (9.0, 0.0, 0.5), radius: float = 0.1, post: tuple = (0.0, 0.0, 0.0)
) -> tuple[Array, Array, Array]:
    """Returns the fields of an instance [m]: position of the wall, size of the post, and the post's place in its body."""
    return jnp.asarray([wall]), jnp.asarray([(radius, 0.0, 0.0)]), jnp.asarray([post])


def start(
    physics: Physics,
    ball: Array,
    velocity: Array,
    joints: Array | None = None,
    fields: tuple | None = None,
) -> PhysicsState:
    """Returns the arm with desired = actual joint positions and the ball thrown from somewhere."""
    joints = jnp.zeros(2, ball.dtype) if joints is None else joints
    qpos = jnp.concatenate(
        [joints, ball, jnp.asarray([1.0, 0.0, 0.0, 0.0], ball.dtype)]
    )
    qvel = jnp.concatenate(
        [jnp.zeros(2, ball.dtype), velocity, jnp.zeros(3, ball.dtype)]
    )
    return physics.reset(qpos, qvel, act=joints, fields=fields or place())


def control(action: Array) -> Array:
    """Returns the controls of both joints' desired velocities [rad/s]."""
    return jnp.concatenate([action, action[1:]])


def follow(physics: Physics, state: PhysicsState, actions: Array) -> PhysicsState:
    """Returns all states [time, ...] under a sequence of actions, the first state left out."""

    def control_step(
        state: PhysicsState, action: Array
    ) -> tuple[PhysicsState, PhysicsState]:
        state = physics.step(state, control(action))
        return state, state

    return jax.lax.scan(control_step, state, actions)[1]
