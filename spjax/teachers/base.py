"""The teacher contract.

A teacher is a pytree of settings with pure functions over a state of its own. It never sees seeds or devices: whoever calls
it vmaps or maps over lanes. ``assign`` is called inside the compiled rollout whenever a slot finishes.
"""

import abc
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from spjax.contexts import ContextSpace
from spjax.episodes import Attempt, Episodes

Value = Callable[[Float[Array, "row observation"]], Float[Array, " row"]]


class Teacher(abc.ABC):
    """What every curriculum offers."""

    @abc.abstractmethod
    def init(self, key: Array, space: ContextSpace, observation_size: int) -> Any:
        """Returns the state before any episode."""

    @abc.abstractmethod
    def sample(self, state: Any, key: Array, space: ContextSpace) -> Float[Array, " dim"]:
        """Returns one context inside the bounds, from the current distribution."""

    def ticket(self, space: ContextSpace) -> Any:
        """Returns the note that an episode carries from its assignment to its record; this one, of a blank slot."""
        return ()

    def assign(self, state: Any, key: Array, space: ContextSpace, last: Attempt) -> tuple[Float[Array, " dim"], Any]:
        """Returns the next context of a slot and the ticket of that episode.

        Args:
            state: the teacher's state at the start of the iteration.
            key: for the draw.
            space: the bounds.
            last: what the slot has just finished; with a blank ticket where it has not run yet.
        """
        return self.sample(state, key, space), ()

    def batch(self, state: Any, key: Array, space: ContextSpace, count: int) -> tuple[Float[Array, "count dim"], Any]:
        """Returns the contexts of one iteration of an episodic learner, which runs them all at once, and their tickets."""
        return jax.vmap(lambda k: self.sample(state, k, space))(jax.random.split(key, count)), ()

    def check_batch(self, count: int) -> None:  # noqa: B027
        """Checks whether `batch` can make so many contexts; raises ValueError with one clear sentence. Most can."""

    @abc.abstractmethod
    def update(self, state: Any, key: Array, episodes: Episodes, value: Value) -> tuple[Any, Any]:
        """Returns the state after one iteration's finished episodes, and a pytree of metrics.

        Args:
            state: the teacher's state.
            key: for whatever the teacher draws.
            episodes: finished in this iteration, masked rows.
            value: the learner's critic after its update, for first observations.
        """

    @abc.abstractmethod
    def check(self, space: ContextSpace) -> None:
        """Checks concrete settings against the context space; raises ValueError with one clear sentence."""
