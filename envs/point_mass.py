"""The step-based point mass of Klink et al. (2021), Section 7.2: steer a mass through a gate in a wall.

The context is (gate position, gate width[, friction]); the 2-D task fixes the friction to zero. The published results used
dynamics that the paper does not print: the force is multiplied by 1.5 and every substep adds noise to the acceleration.
``force_gain=1`` and ``noise_std=0`` give the printed ones.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.base import Env, EnvState
from spjax.envs.vectors import norm
from spjax.settings import setting

SUBSTEPS = 10
SUBSTEP_PERIOD = 0.01  # s
POSITION_LIMIT = 4.0  # m, the walls of the room
START = (0.0, 0.0, 3.0, 0.0)  # x, vx, y, vy
GOAL = (0.0, -3.0)
SUCCESS_DISTANCE = 0.25  # m
REWARD_SCALE = 0.6  # 1/m

_CONTEXTS = ContextSpace(
    names=("gate position", "gate width", "friction"),
    units=("m", "m", "1/s"),
    lower=(-4.0, 0.5, 0.0),
    upper=(4.0, 8.0, 4.0),
)


@part("task", "point-mass-3d", dimensions=3)
@part("task", "point-mass-2d", dimensions=2)
@struct.dataclass
class PointMass(Env):
    """A point mass at (0, 3) m that must reach (0, -3) m through a gate in the wall y = 0; crashing ends the episode."""

    dimensions: int = setting(
        3, static=True, least=2, most=3, help="of the context: 3, or 2 without friction"
    )
    force_gain: float = setting(
        1.5, least=0, unit="1", help="factor of the force; printed: 1"
    )
    noise_std: float = setting(
        0.05,
        least=0,
        unit="m/s^2",
        help="of the acceleration in each substep; printed: 0",
    )

    action_lower = (-10.0, -10.0)  # force
    action_upper = (10.0, 10.0)
    horizon = 100
    control_period = SUBSTEPS * SUBSTEP_PERIOD
    goal = GOAL

    @property
    def observation_size(self) -> int:
        """State (x, vx, y, vy) and context, raw."""
        return 4 + self.dimensions

    @property
    def context_space(self) -> ContextSpace:
        """Gate position [m], gate width [m] and, in 3-D, friction [1/s]."""
        names, units, lower, upper = dataclasses.astuple(_CONTEXTS)
        kept = self.dimensions
        return ContextSpace(names[:kept], units[:kept], lower[:kept], upper[:kept])

    @property
    def initial(self) -> Gaussian:
        """The published initial distribution."""
        return self._gaussian((0.0, 4.25, 2.0), (2.0, 1.875, 1.0))

    @property
    def target(self) -> Gaussian:
        """The published target distribution."""
        return self._gaussian((2.5, 0.5, 0.0), (0.004, 0.00375, 0.002))

    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        """Returns the mass at rest at (0, 3) m; deterministic, the key is not used."""
        context = self.context_space.clip(context)
        start = jnp.asarray(START, context.dtype)
        return EnvState.start(start, jnp.concatenate([start, context]), context)

    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, "2"]
    ) -> EnvState:
        """Returns the state 0.1 s later: ten explicit Euler steps, stopped at the wall."""
        push = self.force_gain * action
        acceleration = push[None] + self.noise_std * jax.random.normal(
            key, (SUBSTEPS, 2)
        )
        friction = state.context[2] if self.dimensions == 3 else jnp.zeros(())
        physics, crashed = _integrate(
            state.physics, acceleration, friction, state.context
        )
        distance = norm(physics[::2] - jnp.asarray(GOAL, physics.dtype))
        return dataclasses.replace(
            state,
            physics=physics,
            observation=jnp.concatenate([physics, state.context]),
            reward=jnp.exp(-REWARD_SCALE * distance),
            terminated=crashed,
            success=~crashed & (distance < SUCCESS_DISTANCE),
        )

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the position (x, y) in metres."""
        return state.physics[::2]

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the two halves of the wall."""
        left, right = context[0] - context[1] / 2, context[0] + context[1] / 2
        return [
            [(-POSITION_LIMIT, 0.0), (left, 0.0)],
            [(right, 0.0), (POSITION_LIMIT, 0.0)],
        ]

    def _gaussian(self, mean: tuple[float, ...], std: tuple[float, ...]) -> Gaussian:
        return Gaussian.from_std(mean[: self.dimensions], std[: self.dimensions])


def _integrate(
    physics: Float[Array, "4"],
    acceleration: Float[Array, "n 2"],
    friction: Float[Array, ""],
    context: Float[Array, " dim"],
) -> tuple[Float[Array, "4"], Bool[Array, ""]]:
    """Returns the state after n explicit Euler substeps, and whether the mass hit the wall; it stays where it hit.

    The substeps are laid out side by side instead of in a loop: the velocity does not depend on the position, and what
    happens after a hit does not matter. One control step is then a handful of vector operations.
    """
    velocity, position = [physics[1::2]], [physics[::2]]
    for push in acceleration:
        position.append(
            jnp.clip(
                position[-1] + SUBSTEP_PERIOD * velocity[-1],
                -POSITION_LIMIT,
                POSITION_LIMIT,
            )
        )
        velocity.append(
            velocity[-1] * (1 - SUBSTEP_PERIOD * friction) + SUBSTEP_PERIOD * push
        )
    x, y = jnp.stack(position).T

    crosses = ((y[:-1] >= 0) & (y[1:] < 0)) | ((y[:-1] <= 0) & (y[1:] > 0))
    fraction = jnp.where(crosses, y[:-1] / jnp.where(crosses, y[:-1] - y[1:], 1.0), 0.0)
    crossing = x[:-1] + fraction * (x[1:] - x[:-1])
    hits = crosses & (jnp.abs(crossing - context[0]) > context[1] / 2)

    crashed = hits.any()
    first = hits & (jnp.cumsum(hits) == 1)
    wall_x = jnp.where(first, crossing, 0.0).sum()
    free = jnp.stack([x[-1], velocity[-1][0], y[-1], velocity[-1][1]])
    return jnp.where(
        crashed, jnp.stack([wall_x, *[jnp.zeros_like(wall_x)] * 3]), free
    ), crashed
