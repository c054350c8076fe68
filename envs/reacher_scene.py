"""The scene of the reacher with obstacles: a Fetch arm over a table, drawn along by its gripper, and four obstacles.

Source: Klink et al. (2021), Section 6.2, the appendix "Experimental Details" and the model files behind them, which are
those of the FetchReach tasks of Gym. A mocap body is welded to the gripper; a control step puts it onto the gripper,
displaced as the action says, and simulates 40 ms. The collision shapes are primitives: over the table only the two
fingers reach down to the obstacles, so the links of the arm are drawn and touch nothing. Base and torso, which the
published model holds by enormous damping, are fixed here, and the head is left out. C MuJoCo of today adds the change of
the weld's Jacobian to the acceleration that the weld aims at, which MJX does not: at full speed the
engines part by 0.003 rad in a control step. SI units, radians, quaternions (w, x, y, z).
"""

import dataclasses
import functools
import math

import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from spjax.envs.physics import Contact, Field, Scene
from spjax.envs.wam import numbers

TIMESTEP = 0.008  # s
SUBSTEPS = 5  # a control step
GOAL = (1.3, 0.35, 0.5)  # m
HEIGHT = 0.5  # m, that the gripper is drawn to
GRIPPER = "gripper_link"
GRIP = 0.02  # m, of the grip site before the gripper's origin, along its x axis
FINGERS = ("finger_r", "finger_l")
REACH = 0.05  # m, displacement of the mocap body by an action of 1
DOWN = (1.0, 0.0, 1.0, 0.0)  # the gripper's x axis points to the ground; not a unit

START = (-0.5398, 0.4059, -0.286)  # m, commanded from where the stretched arm holds
SETTLING_STEPS = 60  # control steps: the published 10 and 50 more

TABLE = ((1.3, 0.75, 0.2), (0.2, 0.4, 0.2))  # m, centre and half-size
RIMS = {
    "near": ((1.11, 0.75, 0.45), (0.01, 0.4, 0.06)),
    "far": ((1.49, 0.75, 0.45), (0.01, 0.4, 0.06)),
    "behind": ((1.3, 1.14, 0.45), (0.2, 0.01, 0.06)),
}
OBSTACLE_HEIGHT = 0.45  # m, of the centres
HALF_THICKNESS, HALF_HEIGHT = 0.025, 0.05  # m

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Pose = tuple[Float[Array, "3"], Float[Array, "3 3"]]  # m; axes as columns
Target = tuple[Float[Array, "3"], Float[Array, "4"]]  # m; quaternion


@dataclasses.dataclass(frozen=True)
class Link:
    """A body of the arm and the hinge through its origin."""

    name: str
    position: Vector  # m, in the parent
    axis: Vector  # of the hinge
    joint_range: tuple[float, float] | None  # rad; None turns for ever
    mass: float  # kg
    center_of_mass: Vector  # m
    inertia: Vector  # kg m^2, about the principal axes
    principal_axes: Quaternion
    armature: float = 1.0  # kg m^2
    damping: float = 50.0  # N m s/rad
    stiffness: float = 0.0  # N m/rad


_X, _Y, _Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

LINKS = (
    Link(
        "shoulder_pan", (0.1195, 0.0, 0.3486), _Z, (-1.6056, 1.6056),
        2.5587, (0.0927, -0.0056, 0.0564), (0.009, 0.0086, 0.0041),
        (-0.1364, 0.7624, -0.1562, 0.613),
    ),
    Link(
        "shoulder_lift", (0.117, 0.0, 0.06), _Y, (-1.221, 1.518),
        2.6615, (0.1432, 0.0072, -0.0001), (0.0116, 0.0112, 0.0023),
        (0.4382, 0.4382, 0.555, 0.555),
    ),
    Link(
        "upperarm_roll", (0.219, 0.0, 0.0), _X, None,
        2.3311, (0.1165, 0.0014, 0.0), (0.0047, 0.0045, 0.0019),
        (-0.0136, 0.707, 0.0136, 0.707),
    ),
    Link(
        "elbow_flex", (0.133, 0.0, 0.0), _Y, (-2.251, 2.251),
        2.1299, (0.1279, 0.0073, 0.0), (0.0086, 0.0084, 0.002),
        (0.4332, 0.4332, 0.5589, 0.5589),
    ),
    Link(
        "forearm_roll", (0.197, 0.0, 0.0), _X, None,
        1.6563, (0.1097, -0.0266, 0.0), (0.0035, 0.0031, 0.0015),
        (-0.0715, 0.7035, 0.0715, 0.7035),
        armature=2.7538, damping=3.5247, stiffness=10.0,
    ),
    Link(
        "wrist_flex", (0.1245, 0.0, 0.0), _Y, (-2.16, 2.16),
        1.725, (0.0882, 0.0009, -0.0001), (0.0042, 0.0042, 0.0018),
        (0.4895, 0.4895, 0.5103, 0.5103),
    ),
    Link(
        "wrist_roll", (0.1385, 0.0, 0.0), _X, None,
        0.1354, (0.0095, 0.0004, -0.0002), (1e-4, 1e-4, 1e-4),
        (1.0, 0.0, 0.0, 0.0),
    ),
)  # fmt: skip
NUM_HINGES = len(LINKS)
GRIPPER_POSITION = (0.1664, 0.0, 0.0)  # m, in the last link
WRIST_END = (0.06, 0.0, 0.0)  # m, as it is drawn
TORSO_POSITION = (0.6049, 0.7441, 0.3774)  # m: base (0.6918, 0.7441, 0), torso behind


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """A box on the table, along a line from one of its ends."""

    name: str
    end: tuple[float, float]  # m, of its middle line
    yaw: float  # rad, of the line from there to the other end
    half_length: float | None  # m; None where the context says it

    def centre(self, half_length: float) -> tuple[float, float]:
        """Returns x and y of the box's centre in metres."""
        x, y = self.end
        along_x, along_y = math.cos(self.yaw), math.sin(self.yaw)
        return x + half_length * along_x, y + half_length * along_y


def _around(
    name: str, centre: tuple[float, float], yaw: float, half_length: float
) -> Obstacle:
    end = Obstacle(name, centre, yaw, None).centre(-half_length)
    return Obstacle(name, end, yaw, half_length)


VARIABLE = (
    Obstacle("obstacle_a", (1.14, 0.92), -0.5, None),
    Obstacle("obstacle_b", (1.47, 0.65), math.pi - 0.2, None),
)
FIXED = (
    _around("obstacle_c", (1.16, 0.65), 1.7, 0.08),
    _around("obstacle_d", (1.23, 0.52), 0.4, 0.11),
)
SHORTEST, LONGEST = 0.01, 0.09  # m, half-lengths of the variable obstacles
HALF_LENGTH = 0.05  # m, as the MJCF has them


def mjcf() -> str:
    """Returns the scene.

    Positions are the seven hinges of the arm and the two slides of the fingers. Body ``gripper_link`` has the grip
    site on its x axis, body ``target`` is the mocap body.
    """
    inner = _gripper()
    ends = [link.position for link in LINKS[1:]] + [WRIST_END]
    for link, end in reversed(list(zip(LINKS, ends, strict=True))):
        inner = _link(link, end, inner)
    return f"""
<mujoco model="reacher">
  <compiler angle="radian"/>
  <option timestep="{TIMESTEP}" gravity="0 0 -9.81" integrator="Euler" solver="Newton" cone="pyramidal"/>
  <worldbody>
    <light pos="1.3 0.3 3"/>
    <camera name="front" pos="2.7 0.17 2.3" xyaxes="0.39 0.92 0 -0.71 0.3 0.64" fovy="35"/>
    <geom name="floor" type="plane" size="2 2 1" contype="0" conaffinity="0"/>
    {_surroundings()}
    <body name="torso_lift_link" pos="{numbers(TORSO_POSITION)}">{inner}</body>
    <body name="target" mocap="true"/>
  </worldbody>
  <equality>
    <weld body1="target" body2="gripper_link" relpose="0 0 0 1 0 0 0" solimp="0.9 0.95 0.001" solref="0.02 1"/>
  </equality>
</mujoco>"""


def obstacles(
    context: Float[Array, "2"],
) -> tuple[Float[Array, "2 3"], Float[Array, "2 3"]]:
    """Returns positions and sizes [m] of the variable obstacles, whose half-lengths the context is."""
    dtype = context.dtype
    ends = jnp.asarray([(*one.end, OBSTACLE_HEIGHT) for one in VARIABLE], dtype)
    along = jnp.asarray(
        [(math.cos(one.yaw), math.sin(one.yaw), 0.0) for one in VARIABLE], dtype
    )
    lengths = context[:, None]
    sections = jnp.asarray([(HALF_THICKNESS, HALF_HEIGHT)] * len(VARIABLE), dtype)
    return ends + lengths * along, jnp.concatenate([lengths, sections], axis=1)


def drawn_along(pose: Pose, action: Float[Array, "2"]) -> Target:
    """Returns position [m] and quaternion of the mocap body that draws the gripper along.

    Args:
        pose: of the gripper.
        action: displacement in the plane, in [-1, 1]; the height is drawn to that of the goal.
    """
    position, rotation = pose
    height = position[2] + GRIP * rotation[2, 0]
    lift = jnp.clip(2 * (HEIGHT - height), -1.0, 1.0)
    displacement = REACH * jnp.concatenate([action, lift[None]])
    turn = jnp.asarray(DOWN, position.dtype)
    return position + displacement, _quaternion(rotation) + turn


def grip(pose: Pose) -> Float[Array, "3"]:
    """Returns the point between the fingers [m]."""
    position, rotation = pose
    return position + GRIP * rotation[:, 0]


def outlines(context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
    """Returns the edges of all obstacles, seen from above, as closed polylines [m]."""
    found = []
    for number, one in enumerate((*VARIABLE, *FIXED)):
        half = context[number] if one.half_length is None else one.half_length
        (x, y), along = one.centre(half), (math.cos(one.yaw), math.sin(one.yaw))
        corners = [(half, 1), (-half, 1), (-half, -1), (half, -1), (half, 1)]
        found.append(
            [
                (
                    x + length * along[0] - side * HALF_THICKNESS * along[1],
                    y + length * along[1] + side * HALF_THICKNESS * along[0],
                )
                for length, side in corners
            ]
        )
    return found


def inner_edge() -> list[tuple[float, float]]:
    """Returns the edge of the rims around the table, seen from above, as a polyline [m]."""
    (near, *_), (half, *_) = RIMS["near"]
    (far, *_), _ = RIMS["far"]
    (_, behind, _), _ = RIMS["behind"]
    front = TABLE[0][1] - TABLE[1][1]
    left, right, back = near + half, far - half, behind - half
    return [(left, front), (left, back), (right, back), (right, front)]


@functools.cache
def start() -> Float[np.ndarray, "9"]:
    """Returns the positions that rollouts start from: drawn to the commanded start from the stretched arm, at rest.

    The fingers are closed. C MuJoCo finds it, the same for every engine.
    """
    model = mujoco.MjModel.from_xml_string(SCENE.mjcf)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    gripper = data.body(GRIPPER)
    data.mocap_pos[0] = gripper.xpos + GRIP * gripper.xmat[::3] + np.asarray(START)
    data.mocap_quat[0] = DOWN
    mujoco.mj_step(model, data, nstep=SETTLING_STEPS * SUBSTEPS)
    return np.append(data.qpos[:NUM_HINGES], np.zeros(len(FINGERS)))


def _quaternion(rotation: Float[Array, "3 3"]) -> Float[Array, "4"]:
    """Returns the unit quaternion of a rotation whose scalar part is not near 0, as that of `DOWN` is not."""
    double = jnp.sqrt(jnp.maximum(1 + jnp.trace(rotation), 1e-6))
    axis = jnp.stack(
        [
            rotation[2, 1] - rotation[1, 2],
            rotation[0, 2] - rotation[2, 0],
            rotation[1, 0] - rotation[0, 1],
        ]
    )
    return jnp.concatenate([double[None] / 2, axis / (2 * double)])


def _link(link: Link, end: Vector, inner: str) -> str:
    """Returns the ``body`` of a link, drawn up to where the next one begins, around what it carries."""
    turn = link.joint_range
    limit = "" if turn is None else f' limited="true" range="{numbers(turn)}"'
    return (
        f'<body name="{link.name}_link" pos="{numbers(link.position)}">'
        f'<inertial pos="{numbers(link.center_of_mass)}" mass="{link.mass}" '
        f'diaginertia="{numbers(link.inertia)}" quat="{numbers(link.principal_axes)}"/>'
        f'<joint name="{link.name}" type="hinge" axis="{numbers(link.axis)}" armature="{link.armature}" '
        f'damping="{link.damping}" stiffness="{link.stiffness}"{limit}/>'
        f'<geom name="{link.name}" type="capsule" fromto="0 0 0 {numbers(end)}" size="0.035" contype="0" '
        f'conaffinity="0" rgba="0.8 0.83 0.87 1"/>{inner}</body>'
    )


def _gripper() -> str:
    """Returns the ``body`` of the gripper with its fingers, the only ones that touch anything."""
    fingers = "".join(
        f'<body name="{name}_link" pos="0 {0.0159 * sign} 0">'
        '<inertial pos="-0.01 0 0" mass="4" diaginertia="0.1 0.1 0.1"/>'
        f'<joint name="{name}" type="slide" axis="0 {sign} 0" limited="true" range="0 0.05" armature="100" '
        'damping="1000" solimplimit="0.99 0.999 0.01" solreflimit="0.01 1"/>'
        f'<geom name="{name}" type="box" pos="0 {-0.008 * sign} 0" size="0.0385 0.007 0.0135" contype="1" '
        'conaffinity="0" condim="4" friction="1 0.05 0.01" margin="0.001" solimp="0.99 0.99 0.01" '
        'solref="0.01 1" rgba="0.25 0.27 0.3 1"/></body>'
        for name, sign in zip(FINGERS, (1, -1), strict=True)
    )
    return (
        f'<body name="gripper_link" pos="{numbers(GRIPPER_POSITION)}">'
        '<inertial pos="-0.09 -0.0001 -0.0017" mass="1.5175" diaginertia="0.0024 0.0019 0.0013" '
        'quat="0 0.7071 0 0.7071"/>'
        '<geom name="palm" type="box" pos="-0.07 0 0" size="0.03 0.045 0.025" contype="0" conaffinity="0" '
        'rgba="0.25 0.27 0.3 1"/>'
        f'<geom name="grip" type="sphere" pos="{GRIP} 0 0" size="0.008" contype="0" conaffinity="0" '
        f'rgba="0.8 0.3 0.2 1"/>{fingers}</body>'
    )


def _surroundings() -> str:
    """Returns the geoms of the world: what the fingers meet."""
    x, y, _ = TORSO_POSITION
    shoulder = f"{x + LINKS[0].position[0]:.9g} {y:.9g}"
    boxes = [
        f'<geom name="torso" type="cylinder" fromto="{shoulder} 0 {shoulder} 0.69" size="0.09" contype="0" '
        'conaffinity="0" rgba="0.45 0.48 0.52 1"/>'
    ]
    boxes += [_box("table", *TABLE, 0.0, "0.72 0.7 0.66 1")]
    boxes += [
        _box(f"rim_{name}", *rim, 0.0, "0.55 0.53 0.5 1") for name, rim in RIMS.items()
    ]
    for one in (*VARIABLE, *FIXED):
        half = HALF_LENGTH if one.half_length is None else one.half_length
        centre = (*one.centre(half), OBSTACLE_HEIGHT)
        color = "0.2 0.6 0.3 1" if one.half_length is None else "0.35 0.5 0.7 1"
        size = (half, HALF_THICKNESS, HALF_HEIGHT)
        boxes.append(_box(one.name, centre, size, one.yaw, color))
    return "".join(boxes)


def _box(name: str, centre: Vector, size: Vector, yaw: float, color: str) -> str:
    return (
        f'<geom name="{name}" type="box" pos="{numbers(centre)}" euler="0 0 {yaw:.9g}" '
        f'size="{numbers(size)}" contype="0" conaffinity="1" rgba="{color}"/>'
    )


SCENE = Scene(
    mjcf=mjcf(),
    substeps=SUBSTEPS,
    contacts=(Contact(FINGERS, tuple(one.name for one in (*VARIABLE, *FIXED))),),
    fields=(
        Field("geom_pos", tuple(one.name for one in VARIABLE)),
        Field(
            "geom_size",
            tuple(one.name for one in VARIABLE),
            most=((LONGEST, HALF_THICKNESS, HALF_HEIGHT),) * len(VARIABLE),
        ),
        Field("mocap_pos", ("target",)),
        Field("mocap_quat", ("target",)),
    ),
)
