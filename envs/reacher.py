"""The reacher with obstacles of Klink et al. (2021), Section 6.2: a gripper must get past four obstacles to a goal.

The context is the half-length of two of the obstacles. There are two tasks: in "reacher" a rollout is one movement
primitive, whose parameters are searched for; "reacher-step" is the version for step-based agents, which the paper
trains PPO on in one context, "hard" or "easy". An action displaces the gripper, see `spjax.envs.reacher_scene`.

The published simulation looks for a touch of an obstacle in the last of the five substeps of a control step and goes
on to the end of it; here the first touch in any of them ends the motion there. It starts where the arm is 0.4 s after
it was sent to the start, still trembling at the rim of the table; here it has settled for 2 s more and is at rest.
"""

import abc
import dataclasses
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.episodic.promp import ProMP
from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs import physics
from spjax.envs import reacher_scene as scene
from spjax.envs.base import Env, EnvState, Task
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.envs.vectors import norm
from spjax.episodes import Outcome
from spjax.settings import setting

NUM_STEPS = 150
SUCCESS_DISTANCE = 0.05  # m
INITIAL_MEAN, INITIAL_STD = (0.05, 0.05), (0.04, 0.04)  # m
TARGET_MEAN = {"hard": (0.08, 0.08), "easy": (0.01, 0.01)}  # m
TARGET_STD = (math.sqrt(3e-6), math.sqrt(3e-6))  # m

NUM_BASES = 20
PRIMITIVE = ProMP(NUM_BASES, first_centre=-0.2, last_centre=1.2, variance=0.03)
PARAMETER_BOUND, PARAMETER_STD = 100.0, 2.0  # in units of an action
ACTION_COST = 0.01
STEP_DECAY = 2.5  # 1/m, of the reward of "reacher-step"


@struct.dataclass
class Reaching(Task):
    """What both tasks share: the scene, the contexts, and how the gripper moves."""

    engine: Literal["native", "mjx"] | None = setting(
        None, static=True, help="of the physics; None for the device's own"
    )

    horizon = NUM_STEPS
    control_period = scene.SUBSTEPS * scene.TIMESTEP
    context_space = ContextSpace(
        names=("half-length A", "half-length B"),
        units=("m", "m"),
        lower=(scene.SHORTEST,) * 2,
        upper=(scene.LONGEST,) * 2,
    )
    goal = scene.GOAL[:2]
    scenery_name = "obstacles, rim"
    ends = ("goal missed", "goal reached")
    trail = "grip"

    @property
    @abc.abstractmethod
    def target(self) -> Gaussian:
        """The published target distribution."""

    @property
    def initial(self) -> Gaussian:
        """The published initial distribution, about as wide as the bounds."""
        return Gaussian.from_std(INITIAL_MEAN, INITIAL_STD, outside="redraw")

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Those of the physics engine."""
        return self._physics.compiler_options

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns x and y of the grip in metres."""
        return scene.grip(self.pose(state.physics))[:2]

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the outlines of the obstacles, and the inner edge of the rims."""
        return [*scene.outlines(context), scene.inner_edge()]

    def physics_scene(self) -> physics.Scene:
        """Returns the arm, the table and what stands on it."""
        return scene.SCENE

    def mark(self, context: tuple[float, ...]) -> tuple[float, float, float]:
        """Returns the goal."""
        return scene.GOAL

    def start(self, context: Float[Array, "2"]) -> physics.PhysicsState:
        """Returns the settled arm at rest among the obstacles of a context, inside its bounds."""
        dtype = context.dtype
        unmoved = jnp.zeros((1, 3), dtype), jnp.asarray([scene.DOWN], dtype)
        return self._physics.reset(
            jnp.asarray(scene.start(), dtype),
            fields=(*scene.obstacles(self.context_space.clip(context)), *unmoved),
        )

    def pose(self, state: physics.PhysicsState) -> scene.Pose:
        """Returns position [m] and rotation of the gripper."""
        return self._physics.body_pose(state, scene.GRIPPER)

    def moved(
        self,
        state: physics.PhysicsState,
        pose: scene.Pose,
        action: Float[Array, "2"],
    ) -> physics.PhysicsState:
        """Returns the state one control step later, with closed fingers; what has ended stays as it is.

        Args:
            state: where the step starts.
            pose: of the gripper there.
            action: displacement of the gripper in the plane, clipped to [-1, 1].
        """
        position, quaternion = scene.drawn_along(pose, jnp.clip(action, -1.0, 1.0))
        ended = state.ended
        target = tuple(
            jnp.where(ended, old, new[None])
            for old, new in zip(state.fields[2:], (position, quaternion), strict=True)
        )
        after = self._physics.step(
            dataclasses.replace(state, fields=(*state.fields[:2], *target)),
            jnp.zeros(0, action.dtype),
        )
        return dataclasses.replace(
            after, qpos=after.qpos.at[scene.NUM_HINGES :].set(0.0)
        )

    @property
    def _physics(self) -> physics.Physics:
        return physics.make(scene.SCENE, self.engine)


@part("task", "reacher")
@struct.dataclass
class Reacher(Reaching, EpisodicTask):
    """The episodic task: the parameters weigh the bases of a movement primitive, whose values are the actions."""

    parameter_lower = (-PARAMETER_BOUND,) * (2 * NUM_BASES)
    parameter_upper = (PARAMETER_BOUND,) * (2 * NUM_BASES)
    parameter_std = (PARAMETER_STD,) * (2 * NUM_BASES)

    @property
    def target(self) -> Gaussian:
        """The published target distribution: both obstacles are long."""
        return Gaussian.from_std(TARGET_MEAN["hard"], TARGET_STD, outside="redraw")

    def actions(self, theta: Float[Array, "40"]) -> Float[Array, "150 2"]:
        """Returns the actions of a rollout, unclipped; theta has the weights of x and y, basis by basis."""
        phase = jnp.linspace(0.0, 1.0, NUM_STEPS, dtype=theta.dtype)
        return PRIMITIVE.positions(theta.reshape(NUM_BASES, 2), phase)

    def rollout(
        self, key: Array, theta: Float[Array, "40"], context: Float[Array, "2"]
    ) -> Outcome:
        """Returns 10 (2 exp(-distance) - 0.01 sum |action|^2), of all 150 actions as they are, whenever the movement ends.

        It ends at the first touch of an obstacle and at the goal. Deterministic, the key is not used.
        """
        actions = self.actions(theta)
        movement, _ = self._move(actions, context)
        return _outcome(movement, actions)

    def states(
        self, key: Array, theta: Float[Array, "40"], context: Float[Array, "2"]
    ) -> EnvState:
        """Returns the states after 0, 1, ... 150 control steps; from its end on the arm stays where it is."""
        actions = self.actions(theta)
        movement, later = self._move(actions, context)
        path = jax.tree.map(
            lambda first, rest: jnp.concatenate([first[None], rest]),
            self.start(context),
            later,
        )
        return whole_rollout(path, _outcome(movement, actions), context)

    def _move(
        self, actions: Float[Array, "150 2"], context: Float[Array, "2"]
    ) -> tuple["_Movement", physics.PhysicsState]:
        """Returns the movement at its end, and the physics after 1, 2, ... 150 control steps."""

        def control_step(
            movement: _Movement, action: Float[Array, "2"]
        ) -> tuple[_Movement, physics.PhysicsState]:
            before, reached = movement.physics, movement.reached
            ended = before.ended | reached

            # the engine leaves alone what has ended, and a contact is its sign of that
            paused = dataclasses.replace(before, contacts=before.contacts | reached)
            after = self.moved(paused, movement.pose, action)
            contacts = jnp.where(reached, before.contacts, after.contacts)
            after = dataclasses.replace(after, contacts=contacts)

            pose = self.pose(after)
            arrives = (_distance(scene.grip(pose)) < SUCCESS_DISTANCE) & ~contacts.any()
            movement = _Movement(
                physics=after,
                pose=pose,
                reached=reached | (arrives & ~after.failed),
                steps=movement.steps + (~ended).astype(jnp.int32),
            )
            return movement, after

        start = self.start(context)
        blank = _Movement(
            physics=start,
            pose=self.pose(start),
            reached=jnp.asarray(False),
            steps=jnp.zeros((), jnp.int32),
        )
        return lax.scan(control_step, blank, actions)


@part("task", "reacher-step")
@struct.dataclass
class ReacherStep(Reaching, Env):
    """The step-based task: a touched obstacle sends the arm back to the start, and the goal ends nothing."""

    case: Literal["hard", "easy"] = setting(
        "hard", static=True, help="both obstacles long, or short"
    )
    distance: Literal["space", "plane"] = setting(
        "space", static=True, help="to the goal, in the reward; printed: plane"
    )

    observation_size = 4
    action_lower = (-1.0, -1.0)
    action_upper = (1.0, 1.0)

    @property
    def target(self) -> Gaussian:
        """Around the one context of the case, which "target-mean" teaches, as published."""
        return Gaussian.from_std(TARGET_MEAN[self.case], TARGET_STD)

    def reset(self, key: Array, context: Float[Array, "2"]) -> EnvState:
        """Returns the arm at the start."""
        context = self.context_space.clip(context)
        start = self.start(context)
        return EnvState.start(start, _observation(*self._grip_motion(start)), context)

    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, "2"]
    ) -> EnvState:
        """Returns the state 40 ms later, or the start after a touch; deterministic, the key is not used.

        The step back to the start is paid like the touch before it. A failure of the simulator gives a reward of NaN,
        which ends the episode in the rollout.
        """
        before = state.physics
        touched, pose = before.contacts.any(), self.pose(before)
        after = jax.tree.map(
            lambda first, next: jnp.where(touched, first, next),
            self.start(state.context),
            self.moved(before, pose, action),
        )
        grip, velocity = self._grip_motion(after)
        paid = jnp.where(touched, scene.grip(pose), grip)
        reward = jnp.exp(-STEP_DECAY * self._distance(paid))
        return dataclasses.replace(
            state,
            physics=after,
            observation=_observation(grip, velocity),
            reward=jnp.where(after.failed, jnp.nan, reward),
            success=(_distance(grip) < SUCCESS_DISTANCE) & ~after.contacts.any(),
        )

    def _distance(self, grip: Float[Array, "3"]) -> Float[Array, ""]:
        if self.distance == "space":
            return _distance(grip)
        return norm(grip[:2] - jnp.asarray(self.goal, grip.dtype))

    def _grip_motion(
        self, state: physics.PhysicsState
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Returns position [m] and velocity [m/s] of the grip: all joints are hinges and slides, so qvel is the rate of qpos."""

        def grip(qpos: Float[Array, " nq"]) -> Float[Array, "3"]:
            return scene.grip(self.pose(dataclasses.replace(state, qpos=qpos)))

        return jax.jvp(grip, (state.qpos,), (state.qvel,))


class _Movement(NamedTuple):
    physics: physics.PhysicsState
    pose: scene.Pose  # of the gripper
    reached: Bool[Array, ""]  # the goal
    steps: Int[Array, ""]  # until the end


def _observation(
    grip: Float[Array, "3"], velocity: Float[Array, "3"]
) -> Float[Array, "4"]:
    """Returns x, its change in a control step at this velocity, and the same of y [m]."""
    change = Reaching.control_period * velocity
    return jnp.stack([grip[0], change[0], grip[1], change[1]])


def _distance(grip: Float[Array, "3"]) -> Float[Array, ""]:
    """Returns how far the grip is from the goal [m]."""
    return norm(grip - jnp.asarray(scene.GOAL, grip.dtype))


def _outcome(movement: _Movement, actions: Float[Array, "150 2"]) -> Outcome:
    """Returns what a movement is worth that ends like this."""
    closeness = jnp.exp(-_distance(scene.grip(movement.pose)))
    return Outcome(
        reward=10 * (2 * closeness - ACTION_COST * (actions**2).sum()),
        success=movement.reached,
        length=movement.steps,
    )
