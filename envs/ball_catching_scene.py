"""The scene of the ball-catching task: WAM arm, net, ball, ground, and joint controllers inside MuJoCo.

Source: Klink et al. (2021), Section 7.2 and the model files behind it. An action is a desired velocity of the five
controlled joints. Every substep of 2 ms first moves the desired positions and then applies

    q_des += 0.002 a,    tau = clip(P (q_des - q) - D qd, -limit, limit),

without gravity compensation; the two other joints hold 0. So that five substeps need nothing from outside, the desired
positions are MuJoCo activations (``servo_*``, integrators of the action). An activation moves at the *end* of a substep:
``lead_*`` adds the torque P 0.002 a that is missing by then. (``actearly`` would do the same, but MJX ignores it.)
The limit is that of the joint, on the sum of both.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from spjax.envs.wam import JOINTS, TORQUE_LIMITS, arm, numbers

TIMESTEP = 0.002  # s
SUBSTEPS = 5  # a control step
HOME = (0.0, 0.4, 0.0, 1.5, 0.0, 0.0, 0.0)  # rad
CONTROLLED = (1, 3, 4, 5, 6)  # joints that actions move
HELD = (0, 2)  # joints that hold 0
ACTION_LIMIT = (3.97, 4.04, 5.8, 3.14, 5.4)  # rad/s
STIFFNESS = (200.0, 300.0, 100.0, 100.0, 20.0, 20.0, 5.0)  # P, N m/rad
DRAG = (7.0, 15.0, 5.0, 2.5, 0.423, 0.423, 0.0705)  # D, N m s/rad
JOINT_DAMPING = (0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5)  # N m s/rad
GRAVITY = 9.81  # m/s^2

POSITION_NOISE = 0.05  # rad, half-width of the uniform noise of a reset
VELOCITY_NOISE = 0.05  # rad/s, standard deviation
START_LOWER, START_UPPER = (-0.75, 0.8), (-0.65, 1.8)  # m, y and z of the ball's start
TARGET_HEIGHT = 0.75  # m, of the center of the arc of targets


def mjcf() -> str:
    """Returns the scene.

    Positions are the 7 joints of the arm and x, y, z of the ball; activations the desired positions of the controlled
    joints; `controls` makes the control vector. Body ``net`` has the frame of the net.
    """
    net = (
        '<body name="net" pos="0 0 0.09" quat="0.7071 0.7071 0 0"><geom name="net" type="cylinder" size="0.06 0.01" '
        'mass="0.11" solimp="0 0 0" rgba="0.2 0.6 0.3 1"/></body>'
    )
    axes = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
    slides = "".join(
        f'<joint name="ball_{name}" type="slide" axis="{axis}"/>'
        for name, axis in axes.items()
    )
    actuators = (
        [_servo(j) for j in CONTROLLED]
        + [_lead(j) for j in CONTROLLED]
        + [_hold(j) for j in HELD]
    )
    return f"""
<mujoco model="ball_catching">
  <compiler angle="radian"/>
  <option timestep="{TIMESTEP}" gravity="0 0 {-GRAVITY}" integrator="Euler" solver="Newton" cone="pyramidal"/>
  <worldbody>
    <light pos="1 -1 4" dir="-0.2 0.2 -1"/>
    <camera name="side" pos="3.2 -4.5 2.5" xyaxes="0.92 0.4 0 -0.1 0.24 0.97" fovy="35"/>
    <geom name="ground" type="plane" size="4 2 1" solref="-16000 -200" rgba="0.9 0.9 0.9 1"/>
    <geom name="mount" type="cylinder" fromto="0 0 0 0 0 0.76" size="0.1" contype="0" conaffinity="0" rgba="0.4 0.4 0.44 1"/>
    {arm(net, JOINT_DAMPING, TORQUE_LIMITS)}
    <body name="ball">{slides}<geom name="ball" type="sphere" size="0.02" mass="0.1" rgba="0.8 0.3 0.2 1"/></body>
  </worldbody>
  <actuator>{"".join(actuators)}</actuator>
</mujoco>"""


def controls(action: Float[Array, "5"]) -> Float[Array, "12"]:
    """Returns the control vector for desired joint velocities [rad/s], to hold during a control step."""
    return jnp.concatenate([action, action, jnp.zeros(len(HELD), action.dtype)])


def reset(
    key: Array, context: Float[Array, "3"]
) -> tuple[Float[Array, "10"], Float[Array, "10"], Float[Array, "5"]]:
    """Returns positions, velocities and activations at the start of an episode.

    The controlled joints are near `HOME` and move a little; the desired positions are the true ones.
    """
    key_position, key_velocity, key_ball = jax.random.split(key, 3)
    moved = jnp.asarray(CONTROLLED)
    noise = jax.random.uniform(
        key_position, moved.shape, context.dtype, -POSITION_NOISE, POSITION_NOISE
    )
    joints = jnp.asarray(HOME, context.dtype).at[moved].add(noise)
    push = VELOCITY_NOISE * jax.random.normal(key_velocity, moved.shape, context.dtype)
    speeds = jnp.zeros_like(joints).at[moved].set(push)
    start = ball_start(key_ball, context)
    velocity = ball_velocity(context, start)
    return (
        jnp.concatenate([joints, start]),
        jnp.concatenate([speeds, velocity]),
        joints[moved],
    )


def ball_start(key: Array, context: Float[Array, "3"]) -> Float[Array, "3"]:
    """Returns where the ball starts [m]: x is given by the context (angle, radius, distance), y and z are uniform."""
    lower, upper = (
        jnp.asarray(START_LOWER, context.dtype),
        jnp.asarray(START_UPPER, context.dtype),
    )
    return jnp.concatenate(
        [context[2:], jax.random.uniform(key, (2,), context.dtype, lower, upper)]
    )


def ball_target(context: Float[Array, "3"]) -> Float[Array, "3"]:
    """Returns the point of the plane x = 0 that a ball of this context (angle, radius, distance) is thrown at [m]."""
    angle, radius = context[0], context[1]
    return jnp.stack(
        [
            jnp.zeros_like(angle),
            -radius * jnp.cos(angle),
            TARGET_HEIGHT + radius * jnp.sin(angle),
        ]
    )


def ball_velocity(
    context: Float[Array, "3"], start: Float[Array, "3"]
) -> Float[Array, "3"]:
    """Returns the velocity [m/s] that takes the ball from its start to the target in 0.5 s + 0.05 s/m times distance."""
    flight_time = 0.5 + 0.05 * context[2]
    fall = jnp.asarray((0.0, 0.0, 0.5 * GRAVITY), context.dtype) * flight_time**2
    return (ball_target(context) - start + fall) / flight_time


def _servo(joint: int) -> str:
    """Returns the actuator whose activation is the desired position of a joint."""
    return f'<general name="servo_{JOINTS[joint]}" dyntype="integrator" {_feedback(joint)}/>'


def _hold(joint: int) -> str:
    """Returns the actuator that keeps a joint at its control, 0."""
    return f'<general name="hold_{JOINTS[joint]}" {_feedback(joint)}/>'


def _lead(joint: int) -> str:
    """Returns the actuator that adds the torque of the desired position's motion in this substep."""
    name = JOINTS[joint]
    return f'<general name="lead_{name}" joint="{name}" gainprm="{numbers([STIFFNESS[joint] * TIMESTEP])}"/>'


def _feedback(joint: int) -> str:
    """Returns the attributes of P (set-point - q) - D qd."""
    stiffness, drag = STIFFNESS[joint], DRAG[joint]
    return f'joint="{JOINTS[joint]}" gainprm="{stiffness}" biastype="affine" biasprm="{numbers((0.0, -stiffness, -drag))}"'
