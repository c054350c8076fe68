"""The scene of the ant: a torso on four legs, a floor, and a wall of two halves that leave a gate between them.

Source: Klink et al. (2021), Section 7.2, and the ant of OpenAI Gym, whose geometry it is said to have: joint damping 1 N m s/rad,
hips +-30 degrees, ankles 30 to 70 degrees, motors of 20 N m (Gym: 150). The walls are mocap bodies, so a gate is state and never
a new model. Torso, hips, legs and feet all collide with floor and walls (in common models of the ant the feet alone do), and
not with each other. No released file says how thick and high the wall is: optimised jumps reach 2.1 m, launches by the solver
3.05 m, so 4 m are enough; no ant passes through 0.5 m.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from spjax.envs import physics

WALL_X = 3.0  # m
WALL_THICKNESS, WALL_HEIGHT, WALL_LENGTH = 0.5, 4.0, 100.0  # m, of each half
TORSO_RADIUS, LEG_RADIUS = 0.25, 0.08  # m
TORQUE = 20.0  # N m at action 1
START_HEIGHT = 0.6  # m
# name, signs of x and y of the leg, axis of the ankle, its range [degrees], and its angle at rest [rad]
LEGS = (
    ("front_left", (1, 1), (-1, 1, 0), (30, 70), 1.0),
    ("front_right", (-1, 1), (1, 1, 0), (-70, -30), -1.0),
    ("back_left", (-1, -1), (-1, 1, 0), (-70, -30), -1.0),
    ("back_right", (1, -1), (1, 1, 0), (30, 70), 1.0),
)
REST = tuple(angle for *_, ankle in LEGS for angle in (0.0, ankle))  # rad
POSITION_NOISE = 0.1  # m and rad, half-width of the uniform noise of a reset
VELOCITY_NOISE = 0.1  # m/s and rad/s, standard deviation


@functools.cache
def scene(timestep: float, substeps: int, armature: float) -> physics.Scene:
    """Returns the scene; its field is what `walls` returns."""
    return physics.Scene(
        mjcf=mjcf(timestep, armature),
        substeps=substeps,
        fields=(physics.Field("mocap_pos", ("wall_right", "wall_left")),),
    )


def walls(context: Float[Array, "2"]) -> Float[Array, "2 3"]:
    """Returns the middles of the right and the left half of the wall [m] for a gate (position, width)."""
    position, width = context[0], context[1]
    away = (width + WALL_LENGTH) / 2
    x, z = (jnp.full((), value, context.dtype) for value in (WALL_X, WALL_HEIGHT / 2))
    return jnp.stack(
        [jnp.stack([x, position - away, z]), jnp.stack([x, position + away, z])]
    )


def start(
    key: Array, dtype: jnp.dtype
) -> tuple[Float[Array, "15"], Float[Array, "14"]]:
    """Returns positions and velocities near rest at the origin."""
    key_position, key_velocity = jax.random.split(key)
    rest = jnp.asarray((0.0, 0.0, START_HEIGHT, 1.0, 0.0, 0.0, 0.0, *REST), dtype)
    noise = jax.random.uniform(
        key_position, rest.shape, dtype, -POSITION_NOISE, POSITION_NOISE
    )
    velocities = VELOCITY_NOISE * jax.random.normal(key_velocity, (14,), dtype)
    return upright(rest + noise), velocities


def upright(qpos: Float[Array, "15"]) -> Float[Array, "15"]:
    """Returns the positions with the torso's quaternion at length 1."""
    quaternion = qpos[3:7]
    return qpos.at[3:7].set(quaternion / jnp.sqrt((quaternion**2).sum()))


def mjcf(timestep: float, armature: float) -> str:
    """Returns the scene.

    Positions are x, y, z and quaternion of the torso, then hip and ankle of every leg in the order of `LEGS`; so are the motors.
    """
    half = f"{WALL_THICKNESS / 2} {WALL_LENGTH / 2} {WALL_HEIGHT / 2}"
    halves = "".join(
        f'<body name="wall_{side}" mocap="true" pos="{WALL_X} {sign * WALL_LENGTH} {WALL_HEIGHT / 2}">'
        f'<geom name="wall_{side}" type="box" size="{half}" contype="0" conaffinity="1" rgba="0.55 0.57 0.62 1"/></body>'
        for side, sign in (("right", -1), ("left", 1))
    )
    motors = "".join(
        f'<motor name="{name}_{joint}" joint="{name}_{joint}" gear="{TORQUE}" ctrlrange="-1 1" ctrllimited="true"/>'
        for name, *_ in LEGS
        for joint in ("hip", "ankle")
    )
    return f"""
<mujoco model="ant">
  <compiler angle="degree" inertiafromgeom="true"/>
  <option timestep="{timestep}" integrator="implicitfast" solver="Newton" cone="pyramidal"/>
  <default>
    <joint armature="{armature}" damping="1" limited="true"/>
    <geom contype="1" conaffinity="0" condim="3" density="5" friction="1 0.5 0.5" margin="0.01" rgba="0.8 0.55 0.3 1"/>
  </default>
  <worldbody>
    <light pos="0 0 12" dir="0.1 0.1 -1"/>
    <camera name="above" pos="-9 -14 12" xyaxes="0.84 -0.54 0 0.31 0.48 0.82" fovy="45"/>
    <geom name="floor" type="plane" size="40 40 1" contype="0" conaffinity="1" rgba="0.9 0.9 0.9 1"/>
    {halves}
    <body name="torso" pos="0 0 0.75">
      <joint name="root" type="free" limited="false" armature="0" damping="0"/>
      <geom name="torso" type="sphere" size="{TORSO_RADIUS}"/>
      {"".join(map(_leg, LEGS))}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""


def _leg(
    leg: tuple[str, tuple[int, int], tuple[int, ...], tuple[int, int], float],
) -> str:
    name, (x, y), axis, (low, high), _ = leg
    short, long = f"{0.2 * x} {0.2 * y} 0", f"{0.4 * x} {0.4 * y} 0"
    capsule = f'type="capsule" size="{LEG_RADIUS}"'
    return f"""
      <geom name="{name}_hip" {capsule} fromto="0 0 0 {short}"/>
      <body name="{name}_leg" pos="{short}">
        <joint name="{name}_hip" axis="0 0 1" range="-30 30"/>
        <geom name="{name}_leg" {capsule} fromto="0 0 0 {short}"/>
        <body name="{name}_foot" pos="{short}">
          <joint name="{name}_ankle" axis="{" ".join(map(str, axis))}" range="{low} {high}"/>
          <geom name="{name}_foot" {capsule} fromto="0 0 0 {long}"/>
        </body>
      </body>"""
