"""Ball-in-a-cup on the Barrett WAM (Klink et al., 2021, Section 6.2): swing a ball on a string into the cup that the arm holds.

The context is the scale of the cup's width. The parameters are the weights of a movement primitive for shoulder, elbow and wrist
pitch (joints 1, 3 and 5, counted from 0; the paper counts "first, third and fifth"). The first two and the last two basis
functions keep weight 0, so that a movement starts and ends at rest:

    q_des = q_0 + sum_j b_j(t / 3.5 s) w_j,    w = sqrt(0.02) theta,    reward = success (1 - 0.07 |w|^2)

The success test is the published one: the ball's distance from the middle of the plate is below 0.05 m times the scale when the
movement has ended, or, where the ball touched the arm or the stem of the cup, in the control step before. A ball that flies past
below the plate passes this test too, and is then a catch; ``catch="inside"`` asks that the ball be inside the cup. The
string of the published model is a chain of links; see `spjax.envs.ball_in_a_cup_scene` for the two kinds.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.agents.episodic.promp import ProMP
from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs import ball_in_a_cup_scene as scene
from spjax.envs import physics
from spjax.envs.base import EnvState
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.envs.vectors import norm
from spjax.episodes import Outcome
from spjax.settings import setting

MOVED = (1, 3, 5)  # joints
MOVEMENT_STEPS, HOLDING_STEPS = 1750, 350  # control steps
DURATION = 3.5  # s, of the movement
PRIMITIVE = ProMP(9, -0.01, 1.01, 0.0035)
RESTING = 2  # basis functions without weight at either end
WEIGHT_SCALE = math.sqrt(0.02)  # rad
WEIGHT_COST = 0.07  # of |w|^2
SUCCESS_DISTANCE = 0.05  # m, at scale 1
VARIANCES = (2.0, 2.0, 1.2)  # of theta, a joint


@part("task", "ball-in-a-cup")
@struct.dataclass
class BallInACup(EpisodicTask):
    """The arm moves for 3.5 s and holds for 0.7 s; only a caught ball gives a reward."""

    string: scene.String = setting(
        "tendon",
        static=True,
        help="published: chain, of 29 links; tendon is much faster, but passes through the cup's wall",
    )
    catch: Literal["distance", "inside"] = setting(
        "distance",
        static=True,
        help="what counts; distance, as published, is also met just below the plate",
    )
    engine: Literal["native", "mjx"] | None = setting(
        None, static=True, help="of the physics; None for the device's own"
    )

    context_space = ContextSpace(
        names=("cup scale",),
        units=("1",),
        lower=(scene.SMALLEST,),
        upper=(scene.LARGEST,),
    )
    control_period = scene.CONTROL_PERIOD
    horizon = MOVEMENT_STEPS + HOLDING_STEPS
    parameter_lower = (-10.0,) * 15
    parameter_upper = (10.0,) * 15
    parameter_std = tuple(math.sqrt(variance) for variance in VARIANCES) * 5
    plane = ("y", "z")
    scenery_name = "cup at the start"
    ends = ("missed", "caught")
    trail = "ball"

    @property
    def initial(self) -> Gaussian:
        """The published initial context distribution."""
        return Gaussian.from_std((2.0,), (0.5,), outside="redraw")

    @property
    def target(self) -> Gaussian:
        """The published target distribution."""
        return Gaussian.from_std((1.0,), (0.01,), outside="redraw")

    @property
    def compiler_options(self) -> dict[str, bool]:
        """Those of the physics engine."""
        return self._physics.compiler_options

    def rollout(
        self,
        key: Array,
        theta: Float[Array, "15"],
        context: Float[Array, "1"],
    ) -> Outcome:
        """Returns success (1 - 0.07 |w|^2) of one movement; deterministic, the key is not used."""
        return self.outcome(self.move(theta, context), theta, context)

    def states(
        self,
        key: Array,
        theta: Float[Array, "15"],
        context: Float[Array, "1"],
    ) -> EnvState:
        """Returns the states after 0, 1, ... 2100 control steps; where a touch ended the movement the last one stays."""
        moved = self.move(theta, context, path=True)
        path = jax.tree.map(
            lambda first, rest: jnp.concatenate([first[None], rest]),
            self._start(context),
            moved.path,
        )
        return whole_rollout(path, self.outcome(moved, theta, context), context)

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the ball's y and z in metres."""
        position, _ = self._physics.body_pose(state.physics, "ball")
        return position[1:]

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the cup before the movement, cut along its axis."""
        position, rotation = self._physics.body_pose(
            self._start(jnp.asarray(context)), "cup"
        )
        radius, (low, high) = scene.OUTER_RADIUS * context[0], scene.WALL_ENDS
        corners = [(high, -radius), (low, -radius), (low, radius), (high, radius)]
        middle = scene.axis(context[0])
        points = [
            position + rotation @ jnp.asarray([0.0, along, middle + across])
            for along, across in corners
        ]
        return [[(float(point[1]), float(point[2])) for point in points]]

    def physics_scene(self) -> physics.Scene:
        """Returns the arm, its cup and the ball."""
        return scene.scene(self.string)

    def ball_in_cup(
        self, state: physics.PhysicsState, context: Float[Array, "1"]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Returns the ball's distance [m] from the middle of the plate, and whether it is between plate, wall and rim."""
        position, rotation = self._physics.body_pose(state, "cup")
        ball, _ = self._physics.body_pose(state, "ball")
        scale = self.context_space.clip(context)[0]
        across, along, up = rotation.T @ (ball - position)
        off_axis = jnp.stack([across, up - scene.axis(scale)])
        distance = norm(jnp.append(off_axis, along - scene.GOAL_HEIGHT))
        inside = (
            (norm(off_axis) < scene.INNER_RADIUS * scale)
            & (along > scene.PLATE_TOP)
            & (along < scene.WALL_ENDS[1])
        )
        return distance, inside

    def outcome(
        self,
        moved: physics.Tracked,
        theta: Float[Array, "15"],
        context: Float[Array, "1"],
    ) -> Outcome:
        """Returns what a movement with these parameters is worth."""
        distance, inside = self.ball_in_cup(moved.before, context)
        success = distance < SUCCESS_DISTANCE * self.context_space.clip(context)[0]
        success &= inside | (self.catch == "distance")
        cost = WEIGHT_COST * ((WEIGHT_SCALE * theta) ** 2).sum()
        return Outcome(
            reward=jnp.where(success, 1 - cost, 0.0),
            success=success,
            length=moved.num_steps,
        )

    def move(
        self, theta: Float[Array, "15"], context: Float[Array, "1"], path: bool = False
    ) -> physics.Tracked:
        """Returns the movement, and its states where `path` asks for them."""
        points = set_points(theta)
        return self._physics.track(self._start(context), scene.SERVO, points, path)

    def _start(self, context: Float[Array, "1"]) -> physics.PhysicsState:
        """Returns the settled arm and string."""
        scale = self.context_space.clip(context)[0]
        qpos, qvel = scene.start(self.string, scale)
        return self._physics.reset(qpos, qvel, fields=scene.traced_fields(scale))

    @property
    def _physics(self) -> physics.Physics:
        return physics.make(scene.scene(self.string), self.engine)


def set_points(theta: Float[Array, "15"]) -> physics.SetPoints:
    """Returns desired positions and velocities of all joints, [2100, 7]."""
    phase = jnp.linspace(0.0, 1.0, MOVEMENT_STEPS, dtype=theta.dtype)
    weights = WEIGHT_SCALE * theta.reshape(-1, len(MOVED))
    weights = jnp.pad(weights, ((RESTING, RESTING), (0, 0)))
    offsets = PRIMITIVE.positions(weights, phase)
    offsets = jnp.pad(offsets, ((0, HOLDING_STEPS), (0, 0)), mode="edge")
    speeds = PRIMITIVE.velocities(weights, phase, DURATION)
    speeds = jnp.pad(speeds, ((0, HOLDING_STEPS), (0, 0)))
    moved = jnp.asarray(MOVED)
    start = jnp.broadcast_to(
        jnp.asarray(scene.START, theta.dtype), (len(offsets), len(scene.START))
    )
    return physics.SetPoints(
        positions=start.at[:, moved].add(offsets),
        velocities=jnp.zeros_like(start).at[:, moved].set(speeds),
    )
