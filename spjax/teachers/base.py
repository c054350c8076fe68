"""The teacher contract.

A teacher is a pytree of settings with pure functions over a state of its own. It never sees seeds or devices: whoever calls
it vmaps or maps over lanes. ``assign`` is called inside the compiled rollout whenever a slot finishes.

A teacher of one's own inherits `Teacher` and says where contexts come from, ``sample``, and what it learns, ``update``.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar, Self

import jax
from flax import struct
from jaxtyping import Array, Float, PyTree

from spjax.contexts import ContextDistribution, ContextSpace
from spjax.envs.base import Task
from spjax.episodes import Attempt, Episodes
from spjax.self_paced.joint import JointProblem
from spjax.settings import Part, setting

Value = Callable[[Float[Array, "row observation"]], Float[Array, " row"]]


@struct.dataclass
class Teacher(Part, abc.ABC):
    """What every curriculum offers."""

    kind: ClassVar[str] = "teacher"
    collects: ClassVar[tuple[str, ...]] = (
        "slots",
        "rollouts",
    )  # of agents that it can teach
    fits_contexts: ClassVar[bool] = (
        False  # whether the agent must fit the contexts together with its policy
    )

    initial: ContextDistribution | None = setting(
        None, help="contexts to start from, for teachers that move; None for the task's"
    )
    target: ContextDistribution | None = setting(
        None,
        help="contexts that count: the result is measured there; None for the task's",
    )

    @property
    def needs_value(self) -> bool:
        """Whether it asks the agent's critic."""
        return False

    @property
    def follows_on(self) -> bool:
        """Whether the next context of a slot depends on what the slot has just finished."""
        return type(self).assign is not Teacher.assign

    @abc.abstractmethod
    def init(self, key: Array, space: ContextSpace) -> PyTree:
        """Returns the state before any episode."""

    @abc.abstractmethod
    def sample(
        self, state: PyTree, key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns one context inside the bounds, from the current distribution."""

    @abc.abstractmethod
    def update(
        self, state: PyTree, key: Array, episodes: Episodes, value: Value
    ) -> tuple[PyTree, PyTree]:
        """Returns the state after one iteration's finished episodes, and a pytree of metrics, None for none.

        Args:
            state: the teacher's state.
            key: for whatever the teacher draws.
            episodes: finished in this iteration, masked rows.
            value: the agent's critic after its update, for first observations; not to be called where the agent has none.
        """

    def bound_to(self, task: Task) -> Self:
        """Returns the teacher with what it takes from the task, above all the distributions that were left open."""
        return dataclasses.replace(
            self,
            initial=task.initial if self.initial is None else self.initial,
            target=task.target if self.target is None else self.target,
        )

    def ticket(self, space: ContextSpace) -> PyTree:
        """Returns the note that an episode carries from its assignment to its record; this one, of a blank slot."""
        return ()

    def assign(
        self, state: PyTree, key: Array, space: ContextSpace, last: Attempt
    ) -> tuple[Float[Array, " dim"], PyTree]:
        """Returns the next context of a slot and the ticket of that episode.

        Args:
            state: the teacher's state at the start of the iteration.
            key: for the draw.
            space: the bounds.
            last: what the slot has just finished; with a blank ticket where it has not run yet.
        """
        return self.sample(state, key, space), self.ticket(space)

    def batch(
        self, state: PyTree, key: Array, space: ContextSpace, count: int
    ) -> tuple[Float[Array, "count dim"], PyTree]:
        """Returns the contexts of one iteration of an episodic agent, which runs them all at once, and their tickets."""
        return self.sample_many(state, key, space, count), ()

    def sample_many(
        self, state: PyTree, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns that many contexts of the current distribution."""
        return jax.vmap(lambda k: self.sample(state, k, space))(
            jax.random.split(key, count)
        )

    def still(self, iteration: int, mean_return: float) -> str | None:
        """Returns one sentence where the curriculum stands still for a reason that the user may not know of, None elsewhere.

        Args:
            iteration: that the curriculum was updated after, on the host; the first is 1.
            mean_return: discounted, of the iteration's episodes.
        """
        return None

    def problem(self, state: PyTree) -> JointProblem | None:
        """Returns what the joint fit of policy and contexts is about, for agents that fit both; None for none."""
        return None

    def test_contexts(
        self, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns the contexts that the result is measured in: draws of the target distribution."""
        return self.aims_at.sample_many(key, space, count)

    @property
    def starts_at(self) -> ContextDistribution:
        """The initial distribution of a teacher that is bound to a task."""
        return _bound(self.initial)

    @property
    def aims_at(self) -> ContextDistribution:
        """The target distribution of a teacher that is bound to a task."""
        return _bound(self.target)

    def check(self, space: ContextSpace) -> None:
        """Checks what ranges of single settings cannot say; raises ValueError with one clear sentence."""
        for what in ("initial", "target"):
            distribution = getattr(self, what)
            if distribution is not None:
                distribution.check(space, f"teacher.{what}")

    def check_batch(self, count: int) -> None:
        """Checks whether `batch` can make so many contexts; raises ValueError with one clear sentence. Most can."""


def _bound(distribution: ContextDistribution | None) -> ContextDistribution:
    if distribution is None:
        raise ValueError(
            "the teacher has no distributions yet; give them, or bind it to a task: teacher.bound_to(task)"
        )
    return distribution
