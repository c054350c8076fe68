"""Poses of bodies from positions: MuJoCo's forward kinematics along the path to one body.

Elementwise JAX, unrolled over the ancestors, so it is cheap, differentiable and the same for every engine. MuJoCo's own poses
lag one substep behind the positions; these do not.
"""

import jax
import jax.numpy as jnp
import mujoco
from jaxtyping import Array, Float

Vector = Float[Array, "3"]
Quaternion = Float[Array, "4"]  # w, x, y, z
Frame = tuple[Vector, Quaternion]


def body_frame(
    model: mujoco.MjModel,
    body: int,
    qpos: Float[Array, " nq"],
    body_pos: Float[Array, "body 3"],
    mocap_pos: Float[Array, "mocap 3"],
    mocap_quat: Float[Array, "mocap 4"],
) -> Frame:
    """Returns position [m] and unit quaternion of a body in the world."""
    if body == 0:
        return jnp.zeros(3, qpos.dtype), jnp.asarray([1.0, 0.0, 0.0, 0.0], qpos.dtype)
    parent = body_frame(
        model, int(model.body_parentid[body]), qpos, body_pos, mocap_pos, mocap_quat
    )
    mocap = model.body_mocapid[body]
    if mocap >= 0:
        return mocap_pos[mocap], _unit(mocap_quat[mocap])
    frame = _placed(
        parent,
        body_pos[body],
        jnp.asarray(model.body_quat[body], qpos.dtype),
    )
    first = model.body_jntadr[body]
    for joint in range(first, first + model.body_jntnum[body]):
        frame = _moved(model, joint, frame, qpos)
    return frame[0], _unit(frame[1])


def compiler_options() -> dict[str, bool]:
    """Returns options for ``jax.jit`` of programs with long chains of bodies.

    On CPU, XLA's older way of fusing: the newer one computes a chain again for each of its entries (reported as jax-ml/jax,
    number 33761).
    """
    on_cpu = jax.default_backend() == "cpu"
    return {"xla_cpu_use_fusion_emitters": False} if on_cpu else {}


def rotation_matrix(quaternion: Quaternion) -> Float[Array, "3 3"]:
    """Returns the matrix whose columns are the axes of the rotated frame."""
    return jnp.stack(
        [rotated(quaternion, axis) for axis in jnp.eye(3, dtype=quaternion.dtype)],
        axis=1,
    )


def rotated(quaternion: Quaternion, vector: Vector) -> Vector:
    """Returns the vector rotated by a unit quaternion."""
    w, axis = quaternion[0], quaternion[1:]
    return vector + 2 * (
        w * jnp.cross(axis, vector) + jnp.cross(axis, jnp.cross(axis, vector))
    )


def _moved(
    model: mujoco.MjModel, joint: int, frame: Frame, qpos: Float[Array, " nq"]
) -> Frame:
    """Returns the body's frame after one of its joints has moved."""
    kind, address = model.jnt_type[joint], model.jnt_qposadr[joint]
    if kind == mujoco.mjtJoint.mjJNT_FREE:
        return qpos[address : address + 3], _unit(qpos[address + 3 : address + 7])
    position, quaternion = frame
    axis = jnp.asarray(model.jnt_axis[joint], qpos.dtype)
    if kind == mujoco.mjtJoint.mjJNT_SLIDE:
        return position + rotated(quaternion, axis) * (
            qpos[address] - model.qpos0[address]
        ), quaternion
    if kind == mujoco.mjtJoint.mjJNT_BALL:
        turn = _unit(qpos[address : address + 4])
    else:
        angle = (qpos[address] - model.qpos0[address]) / 2
        turn = jnp.concatenate([jnp.cos(angle)[None], jnp.sin(angle) * axis])
    anchor = jnp.asarray(model.jnt_pos[joint], qpos.dtype)
    turned = _product(quaternion, turn)
    return position + rotated(quaternion, anchor) - rotated(turned, anchor), turned


def _placed(parent: Frame, position: Vector, quaternion: Quaternion) -> Frame:
    return parent[0] + rotated(parent[1], position), _product(parent[1], quaternion)


def _product(p: Quaternion, q: Quaternion) -> Quaternion:
    scalar = p[0] * q[0] - (p[1:] * q[1:]).sum()
    return jnp.concatenate(
        [scalar[None], p[0] * q[1:] + q[0] * p[1:] + jnp.cross(p[1:], q[1:])]
    )


def _unit(quaternion: Quaternion) -> Quaternion:
    return quaternion / jnp.sqrt((quaternion**2).sum())
