"""The 3-D point mass of Klink et al. (2021), Section 7.2, as a gymnasium environment in plain Python and NumPy.

Dynamics, reward and horizon are those of ``spjax.envs.point_mass``. The time limit is reported as ``terminated``, since
the published results do not bootstrap from it. The substeps are written in Python floats, which is several times faster
than arithmetic on arrays of four numbers.
"""

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

SUBSTEPS = 10
SUBSTEP_PERIOD = 0.01  # s
HORIZON = 100  # control steps of 0.1 s
POSITION_LIMIT = 4.0  # m
FORCE_LIMIT = 10.0
FORCE_GAIN = 1.5
NOISE_STD = 0.05  # m/s^2 per substep
START = (0.0, 0.0, 3.0, 0.0)  # x, vx, y, vy
GOAL = (0.0, -3.0)
REWARD_SCALE = 0.6  # 1/m

CONTEXT_LOWER = np.array(
    [-4.0, 0.5, 0.0]
)  # gate position [m], gate width [m], friction [1/s]
CONTEXT_UPPER = np.array([4.0, 8.0, 4.0])


class PointMass(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A mass at (0, 3) m that must reach (0, -3) m through a gate in the wall y = 0; observes its state and context."""

    def __init__(self) -> None:
        unbounded = np.array([np.inf])
        position = np.array([POSITION_LIMIT])
        state = np.concatenate([position, unbounded, position, unbounded])
        self.observation_space = gymnasium.spaces.Box(
            np.concatenate([-state, CONTEXT_LOWER]).astype(np.float32),
            np.concatenate([state, CONTEXT_UPPER]).astype(np.float32),
        )
        self.action_space = gymnasium.spaces.Box(
            -FORCE_LIMIT, FORCE_LIMIT, (2,), np.float32
        )
        self._state = START
        self._context: tuple[float, ...] = ()
        self._time_step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Returns the first observation (7,) of an episode in ``options["context"]``, clipped to its bounds."""
        super().reset(seed=seed)
        if options is None:
            raise ValueError(
                'reset needs a context: options={"context": (gate position, gate width, friction)}'
            )
        self._context = tuple(
            np.clip(options["context"], CONTEXT_LOWER, CONTEXT_UPPER).tolist()
        )
        self._state = START
        self._time_step = 0
        return self._observation(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Returns observation (7,), reward, terminated, truncated (never) and no further facts, 0.1 s later."""
        force_x, force_y = (
            FORCE_GAIN * min(max(float(force), -FORCE_LIMIT), FORCE_LIMIT)
            for force in action
        )
        crashed = False
        for noise_x, noise_y in self.np_random.normal(
            0.0, NOISE_STD, (SUBSTEPS, 2)
        ).tolist():
            self._state, crashed = _substep(
                self._state, force_x + noise_x, force_y + noise_y, self._context
            )
            if crashed:
                break
        self._time_step += 1
        x, _, y, _ = self._state
        reward = math.exp(-REWARD_SCALE * math.hypot(x - GOAL[0], y - GOAL[1]))
        return (
            self._observation(),
            reward,
            crashed or self._time_step >= HORIZON,
            False,
            {},
        )

    def _observation(self) -> NDArray[np.float32]:
        return np.array(self._state + self._context, np.float32)


def _substep(
    state: tuple[float, float, float, float],
    force_x: float,
    force_y: float,
    context: tuple[float, ...],
) -> tuple[tuple[float, float, float, float], bool]:
    """Returns the state 0.01 s later and whether the mass hit the wall, in which case it stays at rest where it hit."""
    x, vx, y, vy = state
    gate_position, gate_width, friction = context
    next_x = min(max(x + SUBSTEP_PERIOD * vx, -POSITION_LIMIT), POSITION_LIMIT)
    next_y = min(max(y + SUBSTEP_PERIOD * vy, -POSITION_LIMIT), POSITION_LIMIT)
    if y >= 0 > next_y or y <= 0 < next_y:
        crossing = x + y / (y - next_y) * (next_x - x)
        if abs(crossing - gate_position) > gate_width / 2:
            return (crossing, 0.0, 0.0, 0.0), True
    next_vx = vx + SUBSTEP_PERIOD * (force_x - friction * vx)
    next_vy = vy + SUBSTEP_PERIOD * (force_y - friction * vy)
    return (next_x, next_vx, next_y, next_vy), False
