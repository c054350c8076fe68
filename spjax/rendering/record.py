"""Episodes with everything that happened in them: the states of the environment, not only the outcome."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Float

from spjax.envs.base import EnvState


@dataclasses.dataclass(frozen=True)
class Episode:
    """One episode on the host, from the reset to its end."""

    states: EnvState  # NumPy arrays [time, ...], after 0, 1, ... length control steps
    path: Float[np.ndarray, "time 2"]  # the env's trace
    returns: Float[np.ndarray, " time"]  # discounted return so far

    @property
    def length(self) -> int:
        """Control steps."""
        return len(self.returns) - 1

    @property
    def context(self) -> tuple[float, ...]:
        """The task."""
        return tuple(float(value) for value in self.states.context[0])

    @property
    def success(self) -> bool:
        """Whether it ended well."""
        return bool(self.states.success[-1])


def episodes(
    states: EnvState, paths: Float[np.ndarray, "time episode 2"], discount: float
) -> tuple[Episode, ...]:
    """Returns the recorded episodes one by one, each up to its end; non-finite rewards count 0."""
    return tuple(
        _episode(states, paths, discount, index) for index in range(paths.shape[1])
    )


def _episode(
    states: EnvState, paths: np.ndarray, discount: float, index: int
) -> Episode:
    ended = states.terminated[1:, index] | states.truncated[1:, index]
    size = 2 + int(ended.argmax()) if ended.any() else len(paths)
    own = jax.tree.map(lambda leaf: leaf[:size, index], states)
    rewards = np.where(np.isfinite(own.reward[1:]), own.reward[1:], 0.0)
    returns = np.cumsum(discount ** np.arange(size - 1) * rewards)
    return Episode(own, paths[:size, index], np.concatenate([[0.0], returns]))
