"""Learners that cost nothing: what a curriculum is tried on before anything is trained.

A learner says how well it does in a context, and what practice makes of it. Its functions are pure and differentiable, so a
curriculum that was played on it is, too. One of your own says `value`, and `init` and `practise` where it learns:

    @struct.dataclass
    class Bandit(Learner):
        rate: float = 0.1

        def init(self):
            return jnp.zeros(3)

        def value(self, state, context, progress):
            return jnp.exp(-((features(context) @ state - best_action(context)) ** 2))

        def practise(self, state, contexts, values):
            return state + self.rate * jax.grad(mean_value)(state, contexts)
"""

import abc
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PyTree

ValueFunction = Callable[[Float[Array, " dim"], Float[Array, ""]], Float[Array, ""]]


class Learner(abc.ABC):
    """The contract: a pytree of settings with pure functions over a state of its own."""

    def check(self, dim: int) -> None:  # noqa: B027, nothing by default
        """Checks the settings before anything compiles; there is nothing to check by default.

        Args:
            dim: of the contexts.

        Raises:
            ValueError: one sentence that names the setting.
        """

    def init(self) -> PyTree:
        """Returns the state before any practice; nothing by default."""
        return ()

    @abc.abstractmethod
    def value(
        self, state: PyTree, context: Float[Array, " dim"], progress: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Returns the expected discounted return in one context.

        Args:
            state: what practice made of the learner.
            context: context units.
            progress: share of the iterations that lie behind, in [0, 1].
        """

    def practise(
        self,
        state: PyTree,
        contexts: Float[Array, "M dim"],
        values: Float[Array, " M"],
    ) -> PyTree:
        """Returns the state after one iteration's episodes; by default, practice changes nothing.

        Args:
            state: before them.
            contexts: that they were in, context units.
            values: their returns.
        """
        return state


@struct.dataclass
class Timed(Learner):
    """A learner that gets better with time alone, whatever it practises: the value is a function of context and progress."""

    function: ValueFunction = struct.field(pytree_node=False)

    def value(
        self, state: PyTree, context: Float[Array, " dim"], progress: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Returns what the function says."""
        return self.function(context, progress)


@struct.dataclass
class Follower(Learner):
    """A learner that is good near what it practised: V(c) = best exp(-|(c - m) / reach|^2 / 2).

    An iteration moves m by rate * mean_i[V(c_i) / best (c_i - m)]. Contexts that it masters teach nothing new, contexts out of
    its reach nothing at all. So a curriculum that runs ahead loses it, and one that waits wastes its time. It
    is a sketch of no particular agent; m is one point, so it forgets what it has left.
    """

    start: Float[ArrayLike, " dim"]  # m before any practice, context units
    reach: Float[ArrayLike, " dim"]  # distance at which 61 % of the best is left, > 0
    rate: Float[ArrayLike, ""]  # of an iteration, > 0
    best: Float[ArrayLike, ""] = 1.0  # return at m, > 0

    def check(self, dim: int) -> None:
        """Checks shapes and signs; numbers that are traced are not looked at."""
        shapes = {"start": (dim,), "reach": (dim,), "rate": (), "best": ()}
        for name, shape in shapes.items():
            value = getattr(self, name)
            if np.shape(value) != shape:
                raise ValueError(
                    f"learner.{name} must have shape {shape}, got {np.shape(value)}"
                )
            if isinstance(value, jax.core.Tracer):
                continue
            numbers = np.asarray(value, float)
            above = numbers > (-math.inf if name == "start" else 0.0)
            if not (above & np.isfinite(numbers)).all():
                wanted = "finite" if name == "start" else "positive and finite"
                raise ValueError(
                    f"learner.{name} must be {wanted}, got {numbers.tolist()}"
                )

    def init(self) -> Float[Array, " dim"]:
        """Returns m."""
        return jnp.asarray(self.start, float)

    def value(
        self,
        state: Float[Array, " dim"],
        context: Float[Array, " dim"],
        progress: Float[Array, ""],
    ) -> Float[Array, ""]:
        """Returns V(c), whatever the progress."""
        away = (context - state) / jnp.asarray(self.reach, float)
        return jnp.asarray(self.best) * jnp.exp(-0.5 * (away**2).sum())

    def practise(
        self,
        state: Float[Array, " dim"],
        contexts: Float[Array, "M dim"],
        values: Float[Array, " M"],
    ) -> Float[Array, " dim"]:
        """Returns m after the episodes."""
        mastered = values / self.best
        pull = (mastered[:, None] * (contexts - state[None])).mean(axis=0)
        return state + self.rate * pull
