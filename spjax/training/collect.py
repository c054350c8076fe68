"""The worlds that agents collect in, seen from the experiment: what is kept between iterations, and how it is played.

There are two: `spjax.training.collect_slots` and `spjax.training.collect_rollouts`.
"""

import abc
import dataclasses

import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from spjax.envs.base import EnvState
from spjax.episodes import Episodes
from spjax.teachers.base import Value
from spjax.training.borders import Borders

Path = Float[Array, "time episode 2"]


@struct.dataclass
class Outcome:
    """Of each played episode."""

    episode_return: (
        Float[Array, " episode"] | None
    )  # None where the task knows one return alone
    discounted_return: Float[Array, " episode"]
    success: Bool[Array, " episode"]
    ended: Bool[Array, " episode"]
    length: Int[Array, " episode"]  # control steps


@dataclasses.dataclass(frozen=True)
class Collector(abc.ABC):
    """How one kind of agents collects; made for the parts of an experiment whenever it is needed."""

    @abc.abstractmethod
    def init(
        self,
        key_agent: PRNGKeyArray,
        key_world: PRNGKeyArray,
        teacher_state: PyTree,
        cloned: bool,
    ) -> tuple[PyTree, PyTree]:
        """Returns the agent's first state, and what is kept of the world."""

    @abc.abstractmethod
    def keys(self, key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
        """Returns the keys of agent and teacher in an iteration."""

    @abc.abstractmethod
    def learn(
        self,
        agent_state: PyTree,
        teacher_state: PyTree,
        world: PyTree,
        key: PRNGKeyArray,
    ) -> tuple[PyTree, PyTree, Episodes, PyTree]:
        """Returns the agent's state, what is kept of the world, the episodes, and the agent's metrics."""

    @abc.abstractmethod
    def environment_steps(self, world: PyTree) -> Int[Array, ""] | None:
        """Returns how many there were so far, None where each iteration has the same number."""

    @abc.abstractmethod
    def borders(
        self, before: PyTree, after: PyTree, num_ended: Int[Array, ""]
    ) -> Borders | None:
        """Returns what the borders of an iteration between these worlds cut, None where an iteration has whole episodes."""

    @abc.abstractmethod
    def value(self, agent_state: PyTree) -> Value:
        """Returns the critic."""

    @abc.abstractmethod
    def play(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
        deterministic: bool = False,
    ) -> tuple[Outcome, Path]:
        """Returns one episode of the policy in each context, drawn from it or its deterministic one, and its path."""

    @abc.abstractmethod
    def states(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> EnvState:
        """Returns the states [time, episode] of the episodes that `play` plays with these arguments, drawn from the policy."""

    @property
    @abc.abstractmethod
    def asked(self) -> tuple[str, int]:
        """What the policy is asked about, in a word, and how many entries that has."""

    @abc.abstractmethod
    def check_asked(self, rows: Float[np.ndarray, "row input"]) -> None:
        """Checks finite rows of what the policy is asked about; raises ValueError with one clear sentence."""

    @abc.abstractmethod
    def decide(
        self, agent_state: PyTree, rows: Float[Array, "row input"]
    ) -> Float[Array, "row output"]:
        """Returns what the deterministic policy does, inside the bounds: an action, or the parameters of a rollout."""

    @abc.abstractmethod
    def draw(
        self, agent_state: PyTree, key: PRNGKeyArray, rows: Float[Array, "row input"]
    ) -> Float[Array, "row output"]:
        """Returns draws of the policy, inside the bounds."""
