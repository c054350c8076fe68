"""The gate of Klink et al. (2021), Section 6.2: steer a point mass through a gate in a wall with two linear controllers.

The context is (gate position, gate half-width); the paper calls the second "width". The mass is velocity-controlled, drifts by
(5, -1) m/s and starts at (0, 5) m; the goal is the origin, the wall at y = 2.5 m. The parameters are

    theta = (K_1 row by row, k_1, x of g_1, K_2 row by row, k_2, x of g_2),    u = K (g - s) + k,

with g_1 at the height of the wall and g_2 at that of the goal; the second controller takes over, for good, where the mass comes
within 0.01 m of the wall's height. The published results sampled and fitted two more parameters that nothing uses
(``num_parameters=16``); the paper has 14.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.base import EnvState
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.episodes import Outcome
from spjax.settings import setting

START = (0.0, 5.0)
WALL = 2.5  # m, height
SWITCH_MARGIN = 0.01  # m
DRIFT = (5.0, -1.0)  # m/s
NOISE_STD = 0.05  # m/s, of the velocity in each step
PERIOD = 0.05  # s
NUM_STEPS = 100
SUCCESS_DISTANCE = 0.05  # m
ACTION_COST = 1e-4
FLOOR = -100.0  # of the value that the reward is made of
HOPELESS = (
    (10.0 - FLOOR) / ACTION_COST
)  # sum of |u|^2 from which the value is below the floor wherever the mass ends

Case = Literal["global", "precision"]


class _Mass(NamedTuple):
    x: Float[Array, ""]
    y: Float[Array, ""]
    cost: Float[Array, ""]  # sum of |u|^2
    passed: Bool[Array, ""]  # the second controller is on
    crashed: Bool[Array, ""]
    steps: Int[Array, ""]  # so far


@part("task", "gate-precision", case="precision")
@part("task", "gate-global", case="global")
@struct.dataclass
class Gate(EpisodicTask):
    """The task in one of its two published settings, which differ in the target distribution."""

    case: Case = setting(
        "precision", static=True, help="which of the two published target distributions"
    )
    num_parameters: Literal[14, 16] = setting(
        16, static=True, help="16 as published, or the 14 that are used"
    )

    context_space = ContextSpace(
        names=("gate position", "gate half-width"),
        units=("m", "m"),
        lower=(-5.0, 0.1),
        upper=(5.0, 0.5),
    )
    goal = (0.0, 0.0)
    control_period = PERIOD
    horizon = NUM_STEPS

    @property
    def parameter_lower(self) -> tuple[float, ...]:
        """Controller gains, offsets and set-points, in 1/s, m/s and m."""
        return (-10.0,) * self.num_parameters

    @property
    def parameter_upper(self) -> tuple[float, ...]:
        """As `parameter_lower`."""
        return (10.0,) * self.num_parameters

    @property
    def parameter_std(self) -> tuple[float, ...]:
        """Half the range of the bounds."""
        return (10.0,) * self.num_parameters

    @property
    def initial(self) -> Gaussian:
        """The published initial context distribution."""
        return _gaussian((0.0, 0.25), (7.0, 0.003))

    @property
    def target(self) -> Gaussian:
        """The published target distribution."""
        return (
            self.initial
            if self.case == "global"
            else _gaussian((-4.0, 0.2), (0.1, 0.001))
        )

    def rollout(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> Outcome:
        """Returns 100 + max(-100, 10 exp(-distance) - 1e-4 sum |u|^2), in [0, 110], of up to 100 steps of 0.05 s."""
        mass, _ = _steer(key, theta, context)
        return _outcome(mass)

    def states(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> EnvState:
        """Returns the states after 0, 1, ... 100 steps; a crashed mass stays where it hit."""
        mass, path = _steer(key, theta, context)
        physics = jnp.concatenate([jnp.asarray([START], path.dtype), path])
        return whole_rollout(physics, _outcome(mass), context)

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the position (x, y) in metres."""
        return state.physics

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the two halves of the wall."""
        left, right = context[0] - context[1], context[0] + context[1]
        return [[(-10.0, WALL), (left, WALL)], [(right, WALL), (10.0, WALL)]]


def _gaussian(mean: tuple[float, ...], variances: tuple[float, ...]) -> Gaussian:
    return Gaussian.from_covariance(
        np.asarray(mean), np.diag(variances), outside="redraw"
    )


def _outcome(mass: _Mass) -> Outcome:
    """Returns what a rollout is worth that ends like this."""
    distance = jnp.hypot(mass.x, mass.y)
    value = 10 * jnp.exp(-jnp.minimum(300.0, distance)) - ACTION_COST * mass.cost
    reward = 100 + jnp.where(
        value > FLOOR, value, FLOOR
    )  # an unstable controller may overflow
    return Outcome(
        reward=reward, success=distance < SUCCESS_DISTANCE, length=mass.steps
    )


def _steer(
    key: Array, theta: Float[Array, " parameter"], context: Float[Array, " dim"]
) -> tuple[_Mass, Float[Array, "100 2"]]:
    """Returns the mass at the end and its positions after each step."""
    velocities = jnp.asarray(DRIFT, theta.dtype)[None] + NOISE_STD * jax.random.normal(
        key, (NUM_STEPS, 2), theta.dtype
    )

    def control_step(
        mass: _Mass, velocity: Float[Array, "2"]
    ) -> tuple[_Mass, Float[Array, "2"]]:
        hopeless = ~(mass.cost < HOPELESS)  # True for NaN
        passed = mass.passed | (mass.y - WALL < SWITCH_MARGIN)
        controller = _frozen(hopeless, jnp.where(passed, theta[7:14], theta[:7]))
        gain_xx, gain_xy, gain_yx, gain_yy, push_x, push_y, goal_x = controller
        off_x, off_y = goal_x - mass.x, jnp.where(passed, 0.0, WALL) - mass.y
        action_x = gain_xx * off_x + gain_xy * off_y + push_x
        action_y = gain_yx * off_x + gain_yy * off_y + push_y
        x, y = (
            mass.x + PERIOD * (action_x + velocity[0]),
            mass.y + PERIOD * (action_y + velocity[1]),
        )

        crosses = (mass.y >= WALL) & (y < WALL)
        share = jnp.where(
            crosses, (WALL - mass.y) / jnp.where(crosses, y - mass.y, 1.0), 0.0
        )
        wall_x = share * x + (1 - share) * mass.x
        crashes = crosses & (jnp.abs(wall_x - context[0]) > context[1])
        after = _Mass(
            x=jnp.where(crashes, wall_x, x),
            y=jnp.where(crashes, WALL, y),
            cost=mass.cost + action_x**2 + action_y**2,
            passed=passed,
            crashed=crashes,
            steps=mass.steps + 1,
        )
        mass = jax.tree.map(
            lambda new, old: jnp.where(mass.crashed, old, new), after, mass
        )
        hopeless = ~(mass.cost < HOPELESS)
        return jax.tree.map(lambda leaf: _frozen(hopeless, leaf), mass), jnp.stack(
            [mass.x, mass.y]
        )

    x, y = jnp.asarray(START, theta.dtype)
    no = jnp.asarray(False)
    return lax.scan(
        control_step,
        _Mass(x, y, jnp.zeros_like(x), no, no, jnp.zeros((), jnp.int32)),
        velocities,
    )


def _frozen(hopeless: Bool[Array, ""], value: Array) -> Array:
    """Returns the value, without a derivative once nothing can raise the reward from its floor.

    Where a controller is unstable, derivatives overflow, and zero times infinity is no gradient.
    """
    return jnp.where(hopeless, lax.stop_gradient(value), value)
