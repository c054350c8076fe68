"""The agent contract: how one collects experience, and what it offers to whoever trains it.

An agent is a pytree of settings with pure functions over a state of its own. An iteration runs in a *world*: `Slots`, where
episodes run for ever side by side and a finished slot gets its next context from the teacher, or `Rollouts`, where the agent
asks for the contexts of a batch of whole episodes.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Array, Float, Int, PyTree

from spjax.agents.formula import Formula
from spjax.contexts import ContextDistribution, ContextSpace
from spjax.envs.base import Env
from spjax.envs.episodic import EpisodicTask
from spjax.episodes import Episodes
from spjax.self_paced.joint import JointProblem
from spjax.settings import Part

if TYPE_CHECKING:  # whose package imports this module
    from spjax.agents.step_based.rollout import Assign, Slot

Batch = Callable[[Array, int], tuple[Float[Array, "M dim"], PyTree]]


@dataclasses.dataclass(frozen=True)
class Slots:
    """The world of agents that act step by step."""

    env: Env
    slots: "Slot"  # [B]
    assign: "Assign"  # the next context of a slot, from the teacher


@dataclasses.dataclass(frozen=True)
class Rollouts:
    """The world of agents that try parameters in whole rollouts."""

    task: EpisodicTask
    batch: Batch  # (key, count) -> contexts and tickets, from the teacher
    joint: JointProblem | None = (
        None  # of a teacher whose contexts are fitted together with the policy
    )


class Agent(Part, abc.ABC):
    """What every agent offers."""

    kind: ClassVar[str] = "agent"
    collects: ClassVar[Literal["slots", "rollouts"]]  # the world that it needs
    fits_contexts: ClassVar[bool] = (
        False  # whether it fits the contexts together with its policy
    )
    discount: PyTree  # gamma of the returns: a number, or what is traced in its place

    @property
    def has_value(self) -> bool:
        """Whether it has a critic that a teacher may ask."""
        return False

    @abc.abstractmethod
    def iterate(
        self, state: PyTree, world: PyTree, key: Array
    ) -> tuple[PyTree, PyTree, Episodes, PyTree]:
        """Runs one iteration.

        Returns:
            the agent's state, the world to go on from, the episodes that ended, and a pytree of metrics.
        """

    def formula(self, state: PyTree, task: PyTree) -> Formula:
        """Returns the deterministic policy in plain arrays, for programs without JAX.

        Raises:
            ValueError: the agent does not say it so.
        """
        raise ValueError(
            f"the policy of {type(self).__name__} cannot be exported: the agent has no `formula`"
        )

    def check(self) -> None:
        """Checks what ranges of single settings cannot say; raises ValueError with one clear sentence."""

    def check_contexts(self, space: ContextSpace) -> None:
        """Checks whether it can learn in contexts of this space; raises ValueError with one clear sentence."""


class StepBased(Agent):
    """An agent that acts step by step in a fixed number of environment slots."""

    collects = "slots"

    num_envs: int

    @property
    @abc.abstractmethod
    def steps_per_iteration(self) -> int:
        """Environment steps."""

    @abc.abstractmethod
    def init(self, key: Array, env: Env) -> PyTree:
        """Returns the state before the first iteration."""

    @abc.abstractmethod
    def act(
        self,
        state: PyTree,
        env: Env,
        key: Array,
        observation: Float[Array, "*batch observation"],
    ) -> Float[Array, "*batch action"]:
        """Returns actions drawn from the policy."""

    @abc.abstractmethod
    def deterministic_action(
        self,
        state: PyTree,
        env: Env,
        observation: Float[Array, "*batch observation"],
    ) -> Float[Array, "*batch action"]:
        """Returns the actions that the policy would take if it were not to explore."""

    def value(
        self, state: PyTree, observation: Float[Array, "*batch observation"]
    ) -> Float[Array, "*batch"]:
        """Returns the critic's discounted return from these observations, in the task's rewards, where there is a critic."""
        raise ValueError(f"{type(self).__name__} has no critic")

    def acquainted(
        self, state: PyTree, observation: Float[Array, "row observation"]
    ) -> PyTree:
        """Returns the state that knows these observations beforehand; one that keeps no statistics of them stays."""
        return state


class Episodic(Agent):
    """An agent that searches in the parameters of whole rollouts."""

    collects = "rollouts"
    discount = 1.0  # a rollout has one reward, whatever is discounted in it

    @abc.abstractmethod
    def num_rollouts(self, task: EpisodicTask) -> int:
        """Returns the rollouts of an iteration."""

    @abc.abstractmethod
    def init(
        self,
        key: Array,
        task: EpisodicTask,
        initial: ContextDistribution,
        target: ContextDistribution,
    ) -> PyTree:
        """Returns the state before the first iteration.

        Args:
            key: for rollouts that fill a buffer.
            task: what to learn.
            initial: where the teacher starts.
            target: what counts in the end.
        """

    @abc.abstractmethod
    def sample_parameters(
        self,
        state: PyTree,
        task: EpisodicTask,
        key: Array,
        contexts: Float[Array, "M dim"],
    ) -> Float[Array, "M parameter"]:
        """Returns a draw of the policy in each context, inside the bounds."""

    @abc.abstractmethod
    def mean_parameters(
        self,
        state: PyTree,
        task: EpisodicTask,
        contexts: Float[Array, "M dim"],
    ) -> Float[Array, "M parameter"]:
        """Returns what the policy would try in each context if it were not to explore, inside the bounds."""

    @abc.abstractmethod
    def environment_steps_before(self, state: PyTree) -> Int[Array, ""]:
        """Returns how many control steps were spent before the first iteration."""
