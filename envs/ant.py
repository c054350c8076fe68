"""The ant and its gate (Klink et al., 2021, Section 7.2): a four-legged robot must walk through a gate in a wall.

The context is position and width of the gate, in a wall 3 m away. The reward of a control step is

    1 + 5 exp(-0.5 min(0, x - 4.5)^2) - 0.3 |a|^2,

with the torso at x and torques of 20 N m times a in [-1, 1]^8. The observation has the 29 numbers of the state (position,
orientation as a quaternion, joints, and their velocities) and the gate.

The environment behind the paper was never released. What is not printed is ours: 25 control steps a second, no end but the
horizon, gentle noise at the start, entries of the observation on one scale, and a success where the torso is wholly behind the
wall at the end. The paper prints that the joints have no armature; with so little inertia, the noise of an untrained policy
turns the ant on its back, and now and then the simulation explodes. An ant that moves as none can ends its episode.
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs import ant_scene as scene
from spjax.envs import physics
from spjax.envs.base import Env, EnvState
from spjax.settings import setting

GOAL_X = 4.5  # m, from where the reward is full
ACTION_COST = 0.3
BEHIND = scene.WALL_X + scene.WALL_THICKNESS / 2 + scene.TORSO_RADIUS  # m
INITIAL_MEAN, INITIAL_STD = (0.0, 8.0), (3.2, 1.6)  # m
TARGET_MEAN, TARGET_STD = (-8.0, 3.0), (0.01, 0.005)  # m
# of an observation: x and y, height and orientation, joints, linear, angular and joint velocities, the gate
SCALE = (
    (0.2,) * 2
    + (1.0,) * 5
    + (1.0,) * 8
    + (0.5,) * 3
    + (0.2,) * 3
    + (0.1,) * 8
    + (0.2,) * 2
)
# no ant moves faster or gets further: m/s and rad/s; m, where the wall still stands whatever the gate
FASTEST, FURTHEST = 100.0, 90.0


@part("task", "ant")
@struct.dataclass
class Ant(Env):
    """An ant that starts in front of a wall; it has succeeded where its torso is behind the wall at the end."""

    armature: float = setting(
        0.03,
        static=True,
        least=0,
        unit="kg m^2",
        help="of the joints; printed: 0, with which the ant falls on its back",
    )
    timestep: float = setting(
        0.01, static=True, above=0, unit="s", help="of the physics"
    )
    substeps: int = setting(
        4, static=True, least=1, unit="time steps", help="of a control step"
    )
    scaled_observation: bool = setting(
        True, static=True, help="bring all entries to the order of 1"
    )
    success_rule: Literal["behind", "goal"] = setting(
        "behind",
        static=True,
        help="where the torso is at the end: wholly behind the wall, or where the reward is full",
    )
    engine: Literal["native", "mjx", "warp"] | None = setting(
        None, static=True, help="of the physics; None for the device's own"
    )

    observation_size = len(SCALE)
    action_lower = (-1.0,) * 8
    action_upper = (1.0,) * 8
    horizon = 750
    context_space = ContextSpace(
        names=("gate position", "gate width"),
        units=("m", "m"),
        lower=(-10.0, 3.0),
        upper=(10.0, 13.0),
    )
    ends = ("in front of the wall", "behind the wall")
    trail = "torso"

    @property
    def control_period(self) -> float:
        """Seconds of a control step."""
        return self.timestep * self.substeps

    @property
    def initial(self) -> Gaussian:
        """The published initial distribution: wide gates straight ahead."""
        return Gaussian.from_std(INITIAL_MEAN, INITIAL_STD)

    @property
    def target(self) -> Gaussian:
        """The published target distribution: a narrow gate far to the right."""
        return Gaussian.from_std(TARGET_MEAN, TARGET_STD)

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Those of the physics engine."""
        return self._physics.compiler_options

    def reset(self, key: Array, context: Float[Array, "2"]) -> EnvState:
        """Returns an ant near rest at the origin."""
        context = self.context_space.clip(context)
        qpos, qvel = scene.start(key, context.dtype)
        state = self._physics.reset(qpos, qvel, fields=(scene.walls(context),))
        return EnvState.start(state, self._observe(state, context), context)

    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, "8"]
    ) -> EnvState:
        """Returns the state one control step later; deterministic, the key is not used.

        A failure of the simulator, or an ant that moves as none can, ends the episode with a reward of NaN, which is counted
        in the rollout, and without success.
        """
        after = self._physics.step(state.physics, action)
        x = after.qpos[0]
        short = jnp.minimum(0.0, x - GOAL_X)
        reward = 1 + 5 * jnp.exp(-0.5 * short**2) - ACTION_COST * (action**2).sum()
        wrong = after.failed | _exploded(after)
        return dataclasses.replace(
            state,
            physics=after,
            observation=self._observe(after, state.context),
            reward=jnp.where(wrong, jnp.nan, reward),
            terminated=wrong,
            success=(x > self._success_x) & ~wrong,
        )

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns x and y of the torso in metres."""
        return state.physics.qpos[:2]

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the two halves of the wall."""
        position, width = context
        right, left = position - width / 2, position + width / 2
        x = scene.WALL_X
        ends = min(-12.0, right - 2.0), max(12.0, left + 2.0)
        return [[(x, ends[0]), (x, right)], [(x, left), (x, ends[1])]]

    def physics_scene(self) -> physics.Scene:
        """Returns the ant, the floor and the wall."""
        return scene.scene(self.timestep, self.substeps, self.armature)

    def _observe(
        self, state: physics.PhysicsState, context: Float[Array, "2"]
    ) -> Float[Array, "31"]:
        """Returns positions, velocities and the gate."""
        parts = [scene.upright(state.qpos), state.qvel, context]
        observation = jnp.concatenate(parts)
        if not self.scaled_observation:
            return observation
        return observation * jnp.asarray(SCALE, observation.dtype)

    @property
    def _success_x(self) -> float:
        return {"behind": BEHIND, "goal": GOAL_X}[self.success_rule]

    @property
    def _physics(self) -> physics.Physics:
        return physics.make(self.physics_scene(), self.engine)


def _exploded(state: physics.PhysicsState) -> Bool[Array, ""]:
    """Returns whether the ant moves or is where none can."""
    possible = (jnp.abs(state.qvel) <= FASTEST).all()
    return ~(possible & (jnp.abs(state.qpos[:3]) <= FURTHEST).all())
