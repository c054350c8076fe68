"""The Barrett WAM arm as MJCF text: seven hinges, published inertias, collision shapes of primitives.

Source: the model files behind Klink et al. (2021), appendix "Experimental Details". The published arm collides with
convex meshes; here capsules, cylinders and spheres fill their extents, and the base below the first joint, which
nothing reaches, has no shape. No boxes: MJX knows no contact between a box and a cylinder, and end effectors may be
cylinders. SI units, radians, quaternions (w, x, y, z); joint 0 carries all others.
"""

import dataclasses
from collections.abc import Iterable, Sequence

JOINTS = (
    "base_yaw",
    "shoulder_pitch",
    "shoulder_yaw",
    "elbow_pitch",
    "wrist_yaw",
    "wrist_pitch",
    "palm_yaw",
)
TORQUE_LIMITS = (150.0, 125.0, 40.0, 60.0, 5.0, 5.0, 2.0)  # N m
FRICTION_LOSS = 0.001  # N m
BASE_HEIGHT = 0.6  # m, of the mount above the ground

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

_BACK = (0.7071, -0.7071, 0.0, 0.0)  # -90 degrees about x
_FORTH = (0.7071, 0.7071, 0.0, 0.0)  # 90 degrees about x


@dataclasses.dataclass(frozen=True)
class Solid:
    """A collision shape along a line of the body frame."""

    name: str
    kind: str  # capsule or cylinder
    start: Vector  # m
    end: Vector  # m
    radius: float  # m


@dataclasses.dataclass(frozen=True)
class Link:
    """A body of the arm and the hinge about its z axis."""

    name: str
    position: Vector  # m, in the parent
    orientation: Quaternion  # in the parent
    joint_range: tuple[float, float]  # rad
    mass: float  # kg
    center_of_mass: Vector  # m
    inertia: Vector  # kg m^2, about the principal axes
    principal_axes: Quaternion
    solids: tuple[Solid, ...]


LINKS = (
    Link(
        "shoulder_yaw", (0.0, 0.0, 0.16), (0.7071, 0.0, 0.0, -0.7071), (-2.6, 2.6),
        10.7677, (-0.00443422, -0.00066489, -0.12189), (0.507411, 0.462983, 0.113271),
        (0.999995, 0.000984795, 0.00270132, 0.00136071),
        (
            Solid("turret", "cylinder", (0.0, 0.0, 0.0), (0.0, 0.0, 0.184), 0.14),
            Solid("lobes", "cylinder", (0.0, -0.174, 0.184), (0.0, 0.174, 0.184), 0.091),
        ),
    ),
    Link(
        "shoulder_pitch", (0.0, 0.0, 0.184), _BACK, (-1.985, 1.985),
        3.87494, (-0.00236983, -0.0154211, 0.0310561), (0.0214207, 0.0167101, 0.0126465),
        (0.961781, -0.272983, 0.0167269, 0.0133385),
        (
            Solid("shoulder_hub", "cylinder", (0.0, 0.0, -0.06), (0.0, 0.0, 0.06), 0.063),
            Solid("shoulder_neck", "cylinder", (0.0, 0.0, 0.0), (0.0, -0.109, 0.0), 0.06),
        ),
    ),
    Link(
        "upper_arm", (0.0, -0.505, 0.0), _FORTH, (-2.8, 2.8),
        1.80228, (-0.0382586, 3.309e-5, -0.207508), (0.0665697, 0.0634285, 0.00622701),
        (0.705455, 0.0381914, 0.0383402, 0.706686),
        (
            Solid("upper_arm_tube", "cylinder", (0.0, 0.0, -0.505), (0.0, 0.0, -0.018), 0.045),
            Solid("elbow_fork", "cylinder", (0.045, -0.045, 0.045), (0.045, 0.045, 0.045), 0.04),
        ),
    ),
    Link(
        "forearm", (0.045, 0.0, 0.045), _BACK, (-0.9, 3.14159),
        2.40017, (0.00498512, -0.132717, -0.00022942), (0.0196896, 0.0152225, 0.00749914),
        (0.546303, 0.447151, -0.548676, 0.447842),
        (
            Solid("elbow_hub", "cylinder", (0.0, 0.0, -0.044), (0.0, 0.0, 0.044), 0.053),
            Solid("forearm_tube", "cylinder", (-0.045, -0.279, 0.0), (-0.045, 0.0, 0.0), 0.0445),
        ),
    ),
    Link(
        "wrist_yaw", (-0.045, 0.0, 0.0), _FORTH, (-4.55, 1.25),
        0.12376, (8.921e-5, 0.00435824, -0.00511217), (0.0112011, 0.0111887, 7.58188e-5),
        (0.708528, -0.000120667, 0.000107481, 0.705683),
        (
            Solid("wrist_disc", "cylinder", (0.0, 0.0, 0.273), (0.0, 0.0, 0.284), 0.042),
            Solid("wrist_tab", "capsule", (-0.022, 0.0, 0.304), (0.022, 0.0, 0.304), 0.02),
        ),
    ),
    Link(
        "wrist_pitch", (0.0, 0.0, 0.3), _BACK, (-1.5707, 1.5707),
        0.417974, (-0.00012262, -0.0246834, -0.0170319), (0.000555166, 0.000463174, 0.00023407),
        (0.994687, -0.102891, 0.000824211, -0.00336105),
        (
            Solid("wrist_axle", "cylinder", (0.0, 0.0, -0.059), (0.0, 0.0, 0.044), 0.025),
            Solid("wrist_hub", "cylinder", (0.0, 0.0, 0.0), (0.0, -0.06, 0.0), 0.044),
        ),
    ),
    Link(
        "wrist_palm", (0.0, -0.06, 0.0), _FORTH, (-2.7, 2.7),
        0.0686475, (-7.974e-5, -0.00323552, -0.00016313), (7.408e-5, 3.81466e-5, 3.76434e-5),
        (0.594752, 0.382453, 0.382453, 0.594752),
        (Solid("palm", "cylinder", (0.0, 0.0, -0.012), (0.0, 0.0, 0.005), 0.0445),),
    ),
)  # fmt: skip


def arm(
    end_effector: str,
    damping: Sequence[float] = (0.0,) * 7,
    torque_limits: Sequence[float] | None = None,
) -> str:
    """Returns the arm as one MJCF ``body`` element, to be put into a ``worldbody``.

    Args:
        end_effector: MJCF elements that are fixed to the last body, ``wrist_palm``.
        damping: of each joint [N m s/rad].
        torque_limits: largest total torque of the actuators of each joint [N m]; without it they are unlimited.

    Raises:
        ValueError: not one damping or limit a joint.
    """
    for name, values in (("damping", damping), ("torque_limits", torque_limits)):
        if values is not None and len(values) != len(JOINTS):
            raise ValueError(
                f"{name} must have one entry for each of the {len(JOINTS)} joints, got {len(values)}"
            )
    ranges = (
        [None] * len(JOINTS)
        if torque_limits is None
        else [(-limit, limit) for limit in torque_limits]
    )
    inner = end_effector
    for link, name, viscosity, torque_range in reversed(
        list(zip(LINKS, JOINTS, damping, ranges, strict=True))
    ):
        inner = _body(link, _joint(link, name, viscosity, torque_range), inner)
    return f'<body name="base_link" pos="0 0 {BASE_HEIGHT}">{inner}</body>'


def numbers(values: Iterable[float]) -> str:
    """Returns the values as an MJCF attribute holds them."""
    return " ".join(f"{value:.9g}" for value in values)


def _body(link: Link, joint: str, inner: str) -> str:
    """Returns the ``body`` of a link around what it carries."""
    return (
        f'<body name="{link.name}" pos="{numbers(link.position)}" quat="{numbers(link.orientation)}">'
        f'<inertial pos="{numbers(link.center_of_mass)}" mass="{link.mass}" diaginertia="{numbers(link.inertia)}" '
        f'quat="{numbers(link.principal_axes)}"/>{joint}{"".join(_geom(solid) for solid in link.solids)}{inner}</body>'
    )


def _joint(
    link: Link, name: str, damping: float, torque_range: tuple[float, float] | None
) -> str:
    """Returns the hinge about the z axis through the body's origin."""
    limit = (
        "" if torque_range is None else f' actuatorfrcrange="{numbers(torque_range)}"'
    )
    return (
        f'<joint name="{name}" type="hinge" axis="0 0 1" limited="true" range="{numbers(link.joint_range)}" '
        f'damping="{damping}" frictionloss="{FRICTION_LOSS}"{limit}/>'
    )


def _geom(solid: Solid) -> str:
    """Returns the shape; type 0 and affinity 1, so it meets what has type 1 and never another part of the arm."""
    return (
        f'<geom name="{solid.name}" type="{solid.kind}" fromto="{numbers(solid.start + solid.end)}" '
        f'size="{solid.radius}" contype="0" conaffinity="1" rgba="0.75 0.75 0.78 1"/>'
    )
