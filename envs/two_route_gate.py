"""Two routes: a mass falls through two walls, whose gates are wide and near on either side, narrow and far at the targets.

Not of the paper: a small task for curricula whose target has two modes. The context is (gate position, gate half-width). In the
middle stands a pillar, so gates there are shut, and what is easy falls into two regions, left and right; behind each of them
lies one of the two targets. The mass starts at (0, 5) m and falls at 1 m/s; the parameters are where it aims at in the two walls,

    theta = (x at y = 3 m, x at y = 1 m),

and it gets there but for a gust. The gate of the second wall is half as far to the side as that of the first.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Mixture
from spjax.envs.base import EnvState
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.episodes import Outcome
from spjax.settings import setting

START = (0.0, 5.0)
WALLS = (3.0, 1.0)  # m, heights
FALL = 1.0  # m/s
PERIOD = 0.1  # s
NUM_STEPS = 50
SECOND_GATE = 0.5  # its position, as a share of the first one's
TARGETS = (-4.0, 4.0)  # m, of the gate in the first wall


@part("task", "two-route-gate")
@struct.dataclass
class TwoRouteGate(EpisodicTask):
    """Fall through both walls, left or right of the pillar."""

    pillar: float = setting(
        1.0, least=0, most=2, unit="m", help="its half-width; gates behind it are shut"
    )
    gust: float = setting(
        0.03, least=0, unit="m", help="standard deviation of where the mass is blown to"
    )

    context_space = ContextSpace(
        names=("gate position", "gate half-width"),
        units=("m", "m"),
        lower=(-5.0, 0.1),
        upper=(5.0, 1.5),
    )
    parameter_lower = (-6.0, -6.0)  # m
    parameter_upper = (6.0, 6.0)  # m
    parameter_std = (3.0, 2.0)  # m
    control_period = PERIOD
    horizon = NUM_STEPS

    @property
    def initial(self) -> Mixture:
        """Wide gates anywhere, for each of the two components."""
        return Mixture.made(means=((0.0, 1.0),) * 2, stds=((2.0, 0.2),) * 2)

    @property
    def target(self) -> Mixture:
        """Narrow gates, far to the left or to the right."""
        means = tuple((position, 0.2) for position in TARGETS)
        return Mixture.made(means=means, stds=((0.3, 0.05),) * 2)

    def rollout(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> Outcome:
        """Returns 1 where the mass gets through both walls, 0 where it does not."""
        return self._fall(key, theta, context)[0]

    def states(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> EnvState:
        """Returns the states after 0, 1, ... 50 steps; a crashed mass stays in the wall."""
        outcome, places = self._fall(key, theta, context)
        time = jnp.minimum(jnp.arange(NUM_STEPS + 1), outcome.length)
        y = START[1] - FALL * PERIOD * time.astype(theta.dtype)
        heights = jnp.array([0.0, *WALLS[::-1], START[1]])
        x = jnp.interp(y, heights, jnp.stack([places[1], places[1], places[0], 0.0]))
        return whole_rollout(jnp.stack([x, y], axis=1), outcome, context)

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the position (x, y) in metres."""
        return state.physics

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the walls to the left and to the right of their gates; in one piece where they are shut."""
        lines = []
        for height, share in zip(WALLS, (1.0, SECOND_GATE), strict=True):
            half_width = context[1] if abs(context[0]) >= self.pillar else 0.0
            left, right = (
                share * context[0] - half_width,
                share * context[0] + half_width,
            )
            lines += [
                [(-6.0, height), (left, height)],
                [(right, height), (6.0, height)],
            ]
        return lines

    def _fall(
        self, key: Array, theta: Float[Array, "2"], context: Float[Array, "2"]
    ) -> tuple[Outcome, Float[Array, "2"]]:
        """Returns how it ends, and where the mass is in the two walls, m."""
        position, half_width = context
        places = theta + self.gust * jax.random.normal(key, (2,), theta.dtype)
        gates = position * jnp.array([1.0, SECOND_GATE], theta.dtype)
        within = jnp.abs(places - gates) <= half_width
        first = within[0] & (jnp.abs(position) >= self.pillar)
        both = first & within[1]
        steps = [round((START[1] - wall) / FALL / PERIOD) for wall in WALLS]
        length = jnp.where(first, jnp.where(both, NUM_STEPS, steps[1]), steps[0])
        outcome = Outcome(
            reward=both.astype(theta.dtype),
            success=both,
            length=length.astype(jnp.int32),
        )
        return outcome, places
