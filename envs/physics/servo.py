"""Feedback at the joints: torques that are computed once a control step and held during its substeps."""

import dataclasses

import jax.numpy as jnp
import mujoco
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from spjax.envs.physics.scene import CompiledScene

_ONE_DEGREE = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


@dataclasses.dataclass(frozen=True)
class Servo:
    """P (q_des - q) + D (v_des - v) for joints of one degree of freedom, each moved by one motor of the scene."""

    joints: tuple[str, ...]  # in the order of the motors
    stiffness: tuple[float, ...]  # P, N m/rad
    damping: tuple[float, ...]  # D, N m s/rad


@struct.dataclass
class SetPoints:
    """Where a servo wants the joints to be, one row a control step."""

    positions: Float[Array, "step joint"]  # rad
    velocities: Float[Array, "step joint"]  # rad/s


@dataclasses.dataclass(frozen=True, eq=False)
class Feedback:
    """A servo in a scene."""

    stiffness: Float[np.ndarray, " joint"]
    damping: Float[np.ndarray, " joint"]
    positions: Int[np.ndarray, " joint"]  # where in qpos
    velocities: Int[np.ndarray, " joint"]  # where in qvel


def feedback(compiled: CompiledScene, servo: Servo) -> Feedback:
    """Returns the servo with its joints found in the scene.

    Raises:
        ValueError: an unknown joint, one with more than one degree of freedom, or not one gain and one motor for each.
    """
    model, count = compiled.model, len(servo.joints)
    for name in ("stiffness", "damping"):
        if len(getattr(servo, name)) != count:
            raise ValueError(
                f"a servo of {count} joints needs as many values of {name}, got {len(getattr(servo, name))}"
            )
    if model.nu != count:
        raise ValueError(
            f"a servo of {count} joints needs one motor for each, the scene has {model.nu} actuators"
        )
    joints = [
        mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
        for name in servo.joints
    ]
    for name, joint in zip(servo.joints, joints, strict=True):
        if joint < 0:
            known = ", ".join(model.joint(i).name for i in range(model.njnt))
            raise ValueError(f"the MJCF has no joint {name!r}; it has {known}")
        if mujoco.mjtJoint(model.jnt_type[joint]) not in _ONE_DEGREE:
            raise ValueError(f"the joint {name!r} has more than one degree of freedom")
    return Feedback(
        np.asarray(servo.stiffness),
        np.asarray(servo.damping),
        model.jnt_qposadr[joints],
        model.jnt_dofadr[joints],
    )


def torques(
    feedback: Feedback,
    qpos: Float[Array, " nq"],
    qvel: Float[Array, " nv"],
    set_point: SetPoints,
) -> Float[Array, " joint"]:
    """Returns the torques [N m] for the set-points of one control step."""
    stiffness = jnp.asarray(feedback.stiffness, qpos.dtype)
    damping = jnp.asarray(feedback.damping, qpos.dtype)
    off = set_point.positions - qpos[feedback.positions]
    slow = set_point.velocities - qvel[feedback.velocities]
    return stiffness * off + damping * slow
