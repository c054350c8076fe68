"""Ball catching on the Barrett WAM (Klink et al., 2021, Section 7.2): the arm must hold a net into the path of a ball.

The context is where the ball is thrown at and from: the angle and radius of a target point around (0, 0, 0.75) m in the plane
x = 0, and the distance of the throw. The published results differ from the printed text in two points of the reward: the
ball's velocity is normalised (``unit_velocity=False`` takes it as it is), and the surface normal is the third row of the net's
rotation matrix, where the cylinder's axis is the third column; ``normal="axis"`` takes the latter.
"""

import dataclasses
import math
from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs import ball_catching_scene as scene
from spjax.envs import physics
from spjax.envs.base import Env, EnvState
from spjax.envs.vectors import norm
from spjax.settings import setting

OBSERVATION_LIMIT = 10.0
ALIVE_REWARD = 0.275  # a control step
ACTION_COST = 0.005
CATCH_REWARD = 50.0
INITIAL_MEAN, INITIAL_STD = (
    (0.68, 0.9, 0.85),
    (math.sqrt(1e-3), math.sqrt(1e-3), math.sqrt(0.1)),
)
TARGET_MEAN, TARGET_STD = (
    (0.3375 * math.pi, 0.85, 2.375),
    (math.sqrt(0.2 * math.pi), math.sqrt(0.15), 1.0),
)
ALIGNMENT_REWARD = (
    25.0  # times the fifth power of the cosine between normal and velocity
)


@part("task", "ball-catching")
@struct.dataclass
class BallCatching(Env):
    """A ball flies towards the arm for half a second or more; touching it with the net is a catch, anything else the end."""

    normal: Literal["third-row", "axis"] = setting(
        "third-row", static=True, help="of the net, in the reward"
    )
    unit_velocity: bool = setting(
        True, static=True, help="normalise the ball's velocity in the reward"
    )
    engine: Literal["native", "mjx", "warp"] | None = setting(
        None, static=True, help="of the physics; None for the device's own"
    )

    observation_size = 21
    action_lower = tuple(
        -limit for limit in scene.ACTION_LIMIT
    )  # rad/s, joints 1, 3, 4, 5, 6
    action_upper = scene.ACTION_LIMIT
    horizon = 200
    resting_steps = 56  # a flight of half a second and a little
    control_period = scene.SUBSTEPS * scene.TIMESTEP
    context_space = ContextSpace(
        names=("angle", "radius", "distance"),
        units=("rad", "m", "m"),
        lower=(0.125 * math.pi, 0.6, 0.75),
        upper=(0.5 * math.pi, 1.1, 4.0),
    )
    plane = ("x", "z")
    scenery_name = "ground, plane of catching"
    ends = ("missed", "caught")
    trail = "ball"

    @property
    def initial(self) -> Gaussian:
        """The published initial distribution: balls that fly into the resting net."""
        return Gaussian.from_std(INITIAL_MEAN, INITIAL_STD)

    @property
    def target(self) -> Gaussian:
        """The published target distribution."""
        return Gaussian.from_std(TARGET_MEAN, TARGET_STD)

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Those of the physics engine."""
        return self._physics.compiler_options

    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        """Returns the arm near its home posture and the ball at the start of its flight."""
        context = self.context_space.clip(context)
        state = self._physics.reset(*scene.reset(key, context))
        return EnvState.start(state, _observe(state), context)

    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, "5"]
    ) -> EnvState:
        """Returns the state 10 ms later; deterministic, the key is not used.

        A failure of the simulator gives a reward of NaN, which ends the episode in the rollout.
        """
        after = self._physics.step(state.physics, scene.controls(action))
        caught, missed = after.contacts
        reward = (
            ALIVE_REWARD
            - ACTION_COST * (action**2).sum()
            + jnp.where(caught, self._catch_reward(after), 0.0)
        )
        return dataclasses.replace(
            state,
            physics=after,
            observation=_observe(after),
            reward=jnp.where(after.failed, jnp.nan, reward),
            terminated=caught | missed,
            success=caught,
        )

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the ball's x and z in metres: the throw from the side."""
        return state.physics.qpos[7:10:2]

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the ground and the plane in which balls are caught."""
        return [[(-0.5, 0.0), (4.0, 0.0)], [(0.0, 0.75), (0.0, 1.85)]]

    def physics_scene(self) -> physics.Scene:
        """Returns the arm, its net and the ball."""
        return _SCENE

    def mark(self, context: tuple[float, ...]) -> tuple[float, float, float]:
        """Returns the point that the ball is thrown at."""
        x, y, z = scene.ball_target(jnp.asarray(context)).tolist()
        return x, y, z

    def _catch_reward(self, state: physics.PhysicsState) -> Float[Array, ""]:
        _, rotation = self._physics.body_pose(state, "net")
        normal = rotation[2] if self.normal == "third-row" else rotation[:, 2]
        velocity = state.qvel[7:]
        if self.unit_velocity:
            velocity = velocity / jnp.maximum(norm(velocity), 1e-6)
        return CATCH_REWARD + ALIGNMENT_REWARD * (normal @ velocity) ** 5

    @property
    def _physics(self) -> physics.Physics:
        return physics.make(_SCENE, self.engine)


def _observe(state: physics.PhysicsState) -> Float[Array, "21"]:
    """Returns desired positions, positions [rad] of the moved joints, ball [m], and the velocities of both, clipped."""
    moved = jnp.asarray(scene.CONTROLLED)
    parts = [
        state.act,
        state.qpos[moved],
        state.qpos[7:],
        state.qvel[moved],
        state.qvel[7:],
    ]
    return jnp.clip(jnp.concatenate(parts), -OBSERVATION_LIMIT, OBSERVATION_LIMIT)


_SCENE = physics.Scene(
    mjcf=scene.mjcf(),
    substeps=scene.SUBSTEPS,
    contacts=(physics.Contact(("ball",), ("net",)), physics.Contact(("ball",))),
)
