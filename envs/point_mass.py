"""The step-based point mass of Klink et al. (2021), Section 6: steer a mass through a gate in a wall.

The context is (gate position, gate width[, friction]); the 2-D task fixes the friction to zero. The published results used
dynamics that the paper does not print: the force is multiplied by 1.5 and every substep adds noise to the acceleration.
``force_gain=1`` and ``noise_std=0`` give the printed ones.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from spjax.checks import check_at_least
from spjax.contexts import ContextSpace
from spjax.envs.base import Env, EnvState, register
from spjax.envs.vectors import norm

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


@dataclasses.dataclass(frozen=True)
class PointMass(Env):
    """A point mass at (0, 3) m that must reach (0, -3) m through a gate in the wall y = 0; crashing ends the episode."""

    dimensions: int = 3  # of the context: 3, or 2 without friction
    force_gain: float = 1.5
    noise_std: float = 0.05  # m/s^2 per substep

    action_lower = (-10.0, -10.0)  # force
    action_upper = (10.0, 10.0)
    horizon = 100
    control_period = SUBSTEPS * SUBSTEP_PERIOD
    goal = GOAL

    def __post_init__(self) -> None:
        if self.dimensions not in (2, 3):
            raise ValueError(f"the point mass has 2 or 3 context dimensions, got {self.dimensions}")
        check_at_least("env", self, 0, "force_gain", "noise_std")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The registered name."""
        return f"point-mass-{self.dimensions}d"

    @property
    def observation_size(self) -> int:  # type: ignore[override]
        """State (x, vx, y, vy) and context, raw."""
        return 4 + self.dimensions

    @property
    def context_space(self) -> ContextSpace:  # type: ignore[override]
        """Gate position [m], gate width [m] and, in 3-D, friction [1/s]."""
        names, units, lower, upper = dataclasses.astuple(_CONTEXTS)
        kept = self.dimensions
        return ContextSpace(names[:kept], units[:kept], lower[:kept], upper[:kept])

    @property
    def initial_mean(self) -> tuple[float, ...]:  # type: ignore[override]
        """Mean of the published initial distribution."""
        return (0.0, 4.25, 2.0)[: self.dimensions]

    @property
    def initial_std(self) -> tuple[float, ...]:  # type: ignore[override]
        """Standard deviation of the published initial distribution."""
        return (2.0, 1.875, 1.0)[: self.dimensions]

    @property
    def target_mean(self) -> tuple[float, ...]:  # type: ignore[override]
        """Mean of the published target distribution."""
        return (2.5, 0.5, 0.0)[: self.dimensions]

    @property
    def target_std(self) -> tuple[float, ...]:  # type: ignore[override]
        """Standard deviation of the published target distribution."""
        return (0.004, 0.00375, 0.002)[: self.dimensions]

    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        """Returns the mass at rest at (0, 3) m; deterministic, the key is not used."""
        context = self.context_space.clip(context)
        start = jnp.asarray(START, context.dtype)
        no = jnp.asarray(False)
        return EnvState(
            physics=start,
            observation=jnp.concatenate([start, context]),
            reward=jnp.zeros((), context.dtype),
            terminated=no,
            truncated=no,
            success=no,
            context=context,
            time_step=jnp.zeros((), jnp.int32),
        )

    def step(self, key: Array, state: EnvState, action: Float[Array, "2"]) -> EnvState:
        """Returns the state 0.1 s later: ten explicit Euler steps, stopped at the wall."""
        force = jnp.clip(action, jnp.asarray(self.action_lower), jnp.asarray(self.action_upper))
        acceleration = self.force_gain * force + self.noise_std * jax.random.normal(key, (SUBSTEPS, 2))
        friction = state.context[2] if self.dimensions == 3 else jnp.zeros(())
        physics, crashed = _integrate(state.physics, acceleration, friction, state.context)

        time_step = state.time_step + 1
        distance = norm(physics[::2] - jnp.asarray(GOAL, physics.dtype))
        truncated = ~crashed & (time_step >= self.horizon)
        return dataclasses.replace(
            state,
            physics=physics,
            observation=jnp.concatenate([physics, state.context]),
            reward=jnp.exp(-REWARD_SCALE * distance),
            terminated=crashed,
            truncated=truncated,
            success=truncated & (distance < SUCCESS_DISTANCE),
            time_step=time_step,
        )

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the position (x, y) in metres."""
        return state.physics[::2]

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the two halves of the wall."""
        left, right = context[0] - context[1] / 2, context[0] + context[1] / 2
        return [[(-POSITION_LIMIT, 0.0), (left, 0.0)], [(right, 0.0), (POSITION_LIMIT, 0.0)]]


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
        position.append(jnp.clip(position[-1] + SUBSTEP_PERIOD * velocity[-1], -POSITION_LIMIT, POSITION_LIMIT))
        velocity.append(velocity[-1] * (1 - SUBSTEP_PERIOD * friction) + SUBSTEP_PERIOD * push)
    x, y = jnp.stack(position).T

    crosses = ((y[:-1] >= 0) & (y[1:] < 0)) | ((y[:-1] <= 0) & (y[1:] > 0))
    fraction = jnp.where(crosses, y[:-1] / jnp.where(crosses, y[:-1] - y[1:], 1.0), 0.0)
    crossing = x[:-1] + fraction * (x[1:] - x[:-1])
    hits = crosses & (jnp.abs(crossing - context[0]) > context[1] / 2)

    crashed = hits.any()
    first = hits & (jnp.cumsum(hits) == 1)
    wall_x = jnp.where(first, crossing, 0.0).sum()
    free = jnp.stack([x[-1], velocity[-1][0], y[-1], velocity[-1][1]])
    return jnp.where(crashed, jnp.stack([wall_x, *[jnp.zeros_like(wall_x)] * 3]), free), crashed


for _dimensions in (3, 2):
    register(f"point-mass-{_dimensions}d", functools.partial(PointMass, dimensions=_dimensions))
