"""The scene of ball-in-a-cup: WAM arm, a cup whose width is the context, and a ball on a string below it.

Source: Klink et al. (2021), appendix "Experimental Details", and the model files behind it. In the frame of the cup its axis is
+y through x = 0 and z = 0.1165 + 0.0385 (s - 1), with the scale s; wall and base plate are scaled across the axis alone, stem and
flange not at all. The published wall is twelve convex meshes; here they are boxes. The published string is a chain of 29 links of
two hinges each ("chain"); "tendon" is one massless tendon with a limit on its length, which is many times as fast and
passes through the wall of the cup, so the two are not equal.
"""

import copy
import functools
import math
from typing import Literal, TypeVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from spjax.envs import physics
from spjax.envs.physics.scene import CompiledScene, compile_scene
from spjax.envs.wam import JOINTS, arm, numbers

String = Literal["tendon", "chain"]
Number = TypeVar("Number", float, Array)
Places = Float[np.ndarray, "_ _"]

START = (0.0, 0.58760536, 0.0, 1.36004913, 0.0, -0.32072943, -1.57)  # rad
STIFFNESS = (200.0, 300.0, 100.0, 100.0, 10.0, 10.0, 2.5)  # P, N m/rad
DAMPING = (7.0, 15.0, 5.0, 2.5, 0.3, 0.3, 0.05)  # D, N m s/rad
SERVO = physics.Servo(JOINTS, STIFFNESS, DAMPING)
CONTROL_PERIOD = 0.002  # s
SUBSTEPS: dict[String, int] = {"tendon": 2, "chain": 4}  # published: 4
SETTLING_STEPS = (
    500  # control steps with a string that is held, and as many with a free one
)

SMALLEST, LARGEST = 0.9, 2.5  # scales
NUM_SETTLED = 9  # scales that a start is computed for
INNER_RADIUS, OUTER_RADIUS, PLATE_RADIUS = 0.034, 0.0384, 0.038  # m, at scale 1
WALL_MIDDLE, WALL_HALF_HEIGHT = 0.0093, 0.0413  # m, along the axis
PLATE_MIDDLE, PLATE_HALF_HEIGHT = -0.035, 0.0045  # m
WALL_ENDS = (WALL_MIDDLE - WALL_HALF_HEIGHT, WALL_MIDDLE + WALL_HALF_HEIGHT)  # m
PLATE_TOP = PLATE_MIDDLE + PLATE_HALF_HEIGHT  # m
GOAL_HEIGHT = -0.025  # m, just above the plate
STRING_HEIGHT = -0.045  # m, just below it
NUM_WALLS = 12
WALLS = tuple(f"wall_{index}" for index in range(NUM_WALLS))

BALL_RADIUS, BALL_MASS = 0.02, 0.021  # m, kg
NUM_LINKS, PITCH = 29, 0.0107  # m, between links
LENGTH = NUM_LINKS * PITCH  # m, of the string
LINK_RADIUS, LINK_HALF_LENGTH = 0.001, 0.00427  # m
LINK_MASS, LINK_INERTIA = 7.4927e-5, (3.746e-11, 5.87e-10, 5.87e-10)  # kg, kg m^2
LINK_DAMPING = 1e-4  # N m s/rad
START_ANGLE = -0.2  # rad, of the string against the axis of the cup

STOPPING = (  # geoms that end a movement when the ball touches them
    "cup_flange",
    "cup_stem",
    "palm",
    "wrist_axle",
    "wrist_hub",
    "wrist_disc",
    "wrist_tab",
    "elbow_hub",
    "forearm_tube",
)


@functools.cache
def scene(string: String) -> physics.Scene:
    """Returns the scene; its fields are what `fields` returns."""
    end = "site_pos" if string == "tendon" else "body_pos"
    widest = tuple((x, y, z) for x, y, z in fields(LARGEST)[1].tolist())
    return physics.Scene(
        mjcf=mjcf(string),
        substeps=SUBSTEPS[string],
        contacts=(physics.Contact(("ball",), STOPPING),),
        fields=(
            physics.Field("geom_pos", (*WALLS, "plate")),
            physics.Field("geom_size", (*WALLS, "plate"), widest),
            physics.Field(end, ("string_end",)),
        ),
    )


def axis(scale: Number) -> Number:
    """Returns z [m] of the axis in the frame of the cup, for numbers and arrays."""
    return 0.1165 + 0.0385 * (scale - 1)


def fields(scale: float) -> tuple[Places, Places, Places]:
    """Returns places and sizes [m] of wall segments and plate, and the place of the string's end; all affine in the scale."""
    angles = 2 * math.pi * (np.arange(NUM_WALLS) + 0.5) / NUM_WALLS
    outward = np.stack([np.sin(angles), np.zeros(NUM_WALLS), np.cos(angles)], axis=1)
    along, middle = np.asarray([0.0, 1.0, 0.0]), np.asarray([0.0, 0.0, axis(scale)])
    radius = (INNER_RADIUS + OUTER_RADIUS) / 2 * scale
    walls = middle + WALL_MIDDLE * along + radius * outward
    plate = middle + PLATE_MIDDLE * along
    wall_size = (
        OUTER_RADIUS * math.tan(math.pi / NUM_WALLS) * scale,
        WALL_HALF_HEIGHT,
        (OUTER_RADIUS - INNER_RADIUS) / 2 * scale,
    )
    plate_size = (PLATE_RADIUS * scale, PLATE_HALF_HEIGHT, 0.0)
    return (
        np.vstack([walls, plate]),
        np.asarray([wall_size] * NUM_WALLS + [plate_size]),
        (middle + STRING_HEIGHT * along)[None],
    )


def traced_fields(scale: Float[Array, ""]) -> tuple[Array, Array, Array]:
    """Returns `fields` of a scale that JAX traces."""
    at_0, at_1 = fields(0.0), fields(1.0)
    places, sizes, end = (
        jnp.asarray(zero, scale.dtype) + scale * jnp.asarray(one - zero, scale.dtype)
        for zero, one in zip(at_0, at_1, strict=True)
    )
    return places, sizes, end


@functools.cache
def settled(string: String) -> tuple[np.ndarray, Places, Places]:
    """Returns scales [scale], and positions and velocities [scale, joint] at the start of a movement.

    The arm holds `START` under its own weight, first with the string held straight, then with a free one; the published
    program does so before its first movement. Between these scales a start is interpolated.
    """
    scales = np.linspace(SMALLEST, LARGEST, NUM_SETTLED)
    compiled = compile_scene(scene(string))
    starts = [_settle(compiled, string, scale) for scale in scales]
    positions, velocities = (np.stack(rows) for rows in zip(*starts, strict=True))
    return scales, positions, velocities


def start(
    string: String, scale: Float[Array, ""]
) -> tuple[Float[Array, " nq"], Float[Array, " nv"]]:
    """Returns positions and velocities at the start of a movement, for a scale that JAX traces."""
    scales, positions, velocities = settled(string)
    interpolate = jax.vmap(jnp.interp, (None, None, 1))
    knots = jnp.asarray(scales, scale.dtype)
    qpos = interpolate(scale, knots, jnp.asarray(positions, scale.dtype))
    return qpos, interpolate(scale, knots, jnp.asarray(velocities, scale.dtype))


def _settle(
    compiled: CompiledScene, string: String, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    model = copy.copy(compiled.model)
    for name, rows, _, value in compiled.split_fields(fields(scale)):
        getattr(model, name)[rows] = value
    data = mujoco.MjData(model)
    data.qpos[: len(START)] = START
    for step in range(2 * SETTLING_STEPS):
        if step <= SETTLING_STEPS:
            _straighten(model, data, string)
        off, speed = START - data.qpos[: len(START)], data.qvel[: len(START)]
        data.ctrl[:] = np.multiply(STIFFNESS, off) - np.multiply(DAMPING, speed)
        mujoco.mj_step(model, data, compiled.scene.substeps)
    return data.qpos.copy(), data.qvel.copy()


def _straighten(model: mujoco.MjModel, data: mujoco.MjData, string: String) -> None:
    """Puts the string where the published program holds it: straight, and a little off the axis of the cup."""
    data.qvel[len(START) :] = 0
    if string == "chain":
        data.qpos[len(START) :] = 0
        data.qpos[model.joint("string_1_y").qposadr] = START_ANGLE
        return
    mujoco.mj_kinematics(model, data)
    # the first hinge of the chain is half a spacing below its end
    straight = LENGTH - PITCH / 2
    below = -PITCH / 2 - straight * math.cos(START_ANGLE)
    offset = np.asarray([0.0, below, -straight * math.sin(START_ANGLE)])
    turn = data.body("cup").xmat.reshape(3, 3)
    data.qpos[len(START) :] = data.site("string_end").xpos + turn @ offset


def mjcf(string: String) -> str:
    """Returns the scene at scale 1.

    Positions are the 7 joints of the arm, then x, y, z of the ball ("tendon") or two angles a link ("chain"). Body ``cup`` has
    the frame of the cup.
    """
    places, sizes, (end,) = fields(1.0)
    solid = 'contype="0" conaffinity="1" solref="-10000 -100" rgba="0.85 0.65 0.3 1"'
    see_through = solid.replace("0.3 1", "0.3 0.5")
    walls = "".join(
        f'<geom name="{name}" type="box" pos="{numbers(place)}" size="{numbers(size)}" '
        f'euler="0 {2 * math.pi * (index + 0.5) / NUM_WALLS} 0" {see_through}/>'
        for index, (name, place, size) in enumerate(
            zip(WALLS, places[:-1], sizes[:-1], strict=True)
        )
    )
    ball = (
        f'<geom name="ball" type="sphere" size="{BALL_RADIUS}" mass="{BALL_MASS}" contype="1" conaffinity="1" '
        'rgba="0.8 0.3 0.2 1"/>'
    )
    hanging, free, rest = _chain(ball, end) if string == "chain" else _tendon(ball, end)
    cup = f"""
<body name="cup" quat="-0.000204 0 0 1">
  <inertial pos="0 8.28e-5 0.0947" mass="0.132" diaginertia="2.856e-4 2.705e-4 9.657e-5" quat="0.999945 -0.0104888 0 0"/>
  <geom name="cup_flange" type="cylinder" fromto="0 0 0.005 0 0 0.010" size="0.03" {solid}/>
  <geom name="cup_stem" type="box" pos="0 0 0.0445" size="0.015 0.03 0.0345" {solid}/>
  {walls}
  <geom name="plate" type="cylinder" pos="{numbers(places[-1])}" size="{numbers(sizes[-1])}" euler="{-math.pi / 2} 0 0" {solid}/>
  {hanging}
</body>"""
    motors = "".join(f'<motor joint="{name}"/>' for name in JOINTS)
    timestep = CONTROL_PERIOD / SUBSTEPS[string]
    return f"""
<mujoco model="ball_in_a_cup">
  <compiler angle="radian"/>
  <option timestep="{timestep}" gravity="0 0 -9.81" integrator="Euler"/>
  <worldbody>
    <light pos="1 -1 4" dir="-0.2 0.2 -1"/>
    <camera name="side" pos="2.6 -1.9 1.5" xyaxes="0.4 0.92 0 -0.1 0.05 0.99" fovy="40"/>
    <geom name="ground" type="plane" size="4 4 1" contype="0" rgba="0.9 0.9 0.9 1"/>
    <geom name="mount" type="cylinder" fromto="0 0 0 0 0 0.76" size="0.1" contype="0" conaffinity="0" rgba="0.4 0.4 0.44 1"/>
    {arm(cup)}
    {free}
  </worldbody>
  {rest}
  <actuator>{motors}</actuator>
</mujoco>"""


def _tendon(ball: str, end: np.ndarray) -> tuple[str, str, str]:
    """Returns what hangs on the cup, what moves freely, and what stands beside the bodies."""
    axes = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    slides = "".join(
        f'<joint name="ball_{name}" type="slide" axis="{axis}"/>'
        for name, axis in axes.items()
    )
    # not at the end of the string where all positions are 0: no direction would be defined there
    string = (
        f'<tendon><spatial name="string" limited="true" range="0 {LENGTH:.9g}" width="{LINK_RADIUS}" rgba="0.3 0.3 0.3 1">'
        '<site site="string_end"/><site site="ball"/></spatial></tendon>'
    )
    return (
        f'<site name="string_end" pos="{numbers(end)}" size="0.002"/>',
        f'<body name="ball">{slides}<site name="ball" size="0.002"/>{ball}</body>',
        string,
    )


def _chain(ball: str, end: np.ndarray) -> tuple[str, str, str]:
    """Returns the same for the chain: x of every link points down, away from the cup."""
    body = f'<body name="ball">{ball}</body>'
    for index in range(NUM_LINKS, 0, -1):
        hinges = "".join(
            f'<joint name="string_{index}_{name}" axis="{axis}" pos="{-PITCH / 2} 0 0" damping="{LINK_DAMPING}"/>'
            for name, axis in (("y", "0 1 0"), ("z", "0 0 1"))
        )
        body = f'<body name="string_{index}" pos="{PITCH} 0 0">{_link(index)}{hinges}{body}</body>'
    first = f'<body name="string_end" pos="{numbers(end)}" xyaxes="0 -1 0 1 0 0">{_link(0)}{body}</body>'
    # the ball contains the end of the last link but two
    apart = '<contact><exclude body1="ball" body2="string_27"/></contact>'
    return first, "", apart


def _link(index: int) -> str:
    return (
        f'<inertial pos="0 0 0" mass="{LINK_MASS}" diaginertia="{numbers(LINK_INERTIA)}"/>'
        f'<geom name="link_{index}" type="capsule" fromto="{-LINK_HALF_LENGTH} 0 0 {LINK_HALF_LENGTH} 0 0" '
        f'size="{LINK_RADIUS}" contype="1" conaffinity="0" rgba="0.3 0.3 0.3 1"/>'
    )
