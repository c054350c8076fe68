"""One training run as two pure functions, ``init`` and ``step``; everything else is built on them.

The experiment itself is a pytree whose leaves are the traced settings, so a sweep over them maps over experiments.
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from spjax.agents.base import Agent
from spjax.contexts import ContextSpace
from spjax.envs.base import EnvState, Task
from spjax.episodes import Episodes, Maybe
from spjax.teachers.base import Teacher
from spjax.training.borders import Borders
from spjax.training.collect import Collector, Outcome, Path
from spjax.training.collect_rollouts import RolloutCollector
from spjax.training.collect_slots import SlotCollector
from spjax.trees import all_finite

_COLLECTORS: Mapping[str, Callable[..., Collector]] = {
    "slots": SlotCollector,
    "rollouts": RolloutCollector,
}


@struct.dataclass
class Experiment:
    """A task, an agent, and a curriculum, whose target is what the result is measured on."""

    task: Task
    agent: Agent
    teacher: Teacher  # bound to the task
    evaluation_episodes: int = struct.field(pytree_node=False, default=50)
    hold_position: bool = struct.field(
        pytree_node=False, default=False
    )  # start from a policy cloned to zero actions

    @property
    def collector(self) -> Collector:
        """How the agent collects."""
        make = _COLLECTORS[self.agent.collects]
        return make(self.task, self.agent, self.teacher)

    @property
    def discount(self) -> PyTree:
        """Gamma, of the returns; 1 for rollouts, which have one reward, whatever is discounted in it."""
        return self.agent.discount

    def init(self, key: PRNGKeyArray) -> "RunState":
        """Returns the state before the first iteration."""
        key_run, key_agent, key_teacher, key_world = jax.random.split(key, 4)
        teacher_state = self.teacher.init(key_teacher, self.task.context_space)
        agent_state, world = self.collector.init(
            key_agent, key_world, teacher_state, self.hold_position
        )
        return RunState(
            key=key_run,
            iteration=jnp.zeros((), jnp.int32),
            agent_state=agent_state,
            teacher_state=teacher_state,
            world=world,
            frozen_at=jnp.full((), -1, jnp.int32),
        )

    def step(self, state: "RunState") -> tuple["RunState", "Metrics"]:
        """Returns the state one iteration later: what the agent collects and learns, then what the teacher learns.

        A run whose parameters turn non-finite keeps its last finite state from then on.
        """
        learned = (state.agent_state, state.teacher_state, state.world)
        agent_state, world, episodes, agent_metrics = self.learn(state)
        borders = self.collector.borders(state.world, world, episodes.mask.sum())
        teacher_state, teacher_metrics = self.teach(state, agent_state, episodes)
        new = (agent_state, teacher_state, world)
        healthy = (state.frozen_at < 0) & all_finite(new)
        agent_state, teacher_state, world = jax.tree.map(
            lambda a, b: jnp.where(healthy, a, b), new, learned
        )
        frozen_at = jnp.where(
            healthy | (state.frozen_at >= 0), state.frozen_at, state.iteration
        )
        state = dataclasses.replace(
            state,
            iteration=state.iteration + 1,
            agent_state=agent_state,
            teacher_state=teacher_state,
            world=world,
            frozen_at=frozen_at,
        )
        steps = self.collector.environment_steps(world)
        metrics = _metrics(
            episodes, self.task.context_space, agent_metrics, teacher_metrics, steps
        )
        metrics = dataclasses.replace(metrics, frozen=frozen_at >= 0, borders=borders)
        return state, metrics

    def learn(self, state: "RunState") -> tuple[PyTree, PyTree, Episodes, PyTree]:
        """Returns the agent's half of an iteration: its new state, the world, the finished episodes and its metrics."""
        key, _ = self._keys(state)
        return self.collector.learn(
            state.agent_state, state.teacher_state, state.world, key
        )

    def teach(
        self, state: "RunState", agent_state: PyTree, episodes: Episodes
    ) -> tuple[PyTree, PyTree]:
        """Returns the teacher's half, from what the agent has become and finished: the teacher's new state and its metrics."""
        _, key = self._keys(state)
        taught: tuple[PyTree, PyTree] = self.teacher.update(
            state.teacher_state, key, episodes, self.collector.value(agent_state)
        )
        return taught

    def evaluate(self, state: "RunState", key: PRNGKeyArray) -> "Evaluation":
        """Returns the performance of the stochastic policy on fresh episodes of the target distribution."""
        key_contexts, key_episodes = jax.random.split(key)
        contexts = self.target_contexts(key_contexts, self.evaluation_episodes)
        outcome, _ = self.play(state, key_episodes, contexts)
        returns = outcome.episode_return
        return Evaluation(
            discounted_return=outcome.discounted_return.mean(),
            episode_return=None if returns is None else returns.mean(),
            success_rate=outcome.success.mean(dtype=float),
        )

    def play(
        self,
        state: "RunState",
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
        deterministic: bool = False,
    ) -> tuple[Outcome, Path]:
        """Returns one episode of the policy in each context, and its path; nothing of the state changes.

        Actions, or parameters of a rollout, are drawn from the policy, or those of its deterministic one.
        """
        return self.collector.play(state.agent_state, key, contexts, deterministic)

    def states(
        self,
        state: "RunState",
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> EnvState:
        """Returns the states [time, episode] of the episodes that `play` plays with these arguments."""
        return self.collector.states(state.agent_state, key, contexts)

    def target_contexts(
        self, key: PRNGKeyArray, count: int
    ) -> Float[Array, "count dim"]:
        """Returns contexts that the result is measured in."""
        return self.teacher.test_contexts(key, self.task.context_space, count)

    def sample_contexts(
        self, state: "RunState", key: PRNGKeyArray, count: int
    ) -> Float[Array, "count dim"]:
        """Returns contexts of the teacher's current distribution."""
        space = self.task.context_space
        return self.teacher.sample_many(state.teacher_state, key, space, count)

    def _keys(self, state: "RunState") -> tuple[PRNGKeyArray, PRNGKeyArray]:
        """Returns the keys of agent and teacher in the iteration after this state."""
        return self.collector.keys(jax.random.fold_in(state.key, state.iteration))


@struct.dataclass
class RunState:
    """Everything that a run is; a checkpoint holds exactly this."""

    key: PRNGKeyArray
    iteration: Int[Array, ""]  # iterations completed
    agent_state: PyTree
    teacher_state: PyTree
    world: PyTree  # the environment slots, or the totals of whole rollouts
    frozen_at: Int[
        Array, ""
    ]  # iteration that gave non-finite parameters, -1 while all is well


@struct.dataclass
class Metrics:
    """Of one iteration; means are over the episodes that finished in it, if any did."""

    episodes: Int[Array, ""]
    episode_return: Maybe | None  # None where the task knows one return alone
    discounted_return: Maybe
    success_rate: Maybe
    clipped_fraction: Maybe  # of the episodes, whose context lies on a bound
    frozen: Bool[Array, ""]
    agent: PyTree
    teacher: PyTree
    environment_steps: Int[Array, ""] | None = (
        None  # so far; None where every iteration has steps_per_iteration of them
    )
    borders: Borders | None = None  # of agents that act step by step


@struct.dataclass
class Evaluation:
    """Means over the evaluation episodes on the target distribution."""

    discounted_return: Float[Array, ""]  # of an episodic task, its reward
    episode_return: (
        Float[Array, ""] | None
    )  # None where the task knows one return alone
    success_rate: Float[Array, ""]


def _metrics(
    episodes: Episodes,
    space: ContextSpace,
    agent_metrics: PyTree,
    teacher_metrics: PyTree,
    environment_steps: Int[Array, ""] | None,
) -> Metrics:
    has_return = environment_steps is None
    lower, upper = jnp.asarray(space.lower)[None], jnp.asarray(space.upper)[None]
    on_bound = (episodes.context <= lower) | (episodes.context >= upper)
    return Metrics(
        episodes=episodes.mask.sum(),
        episode_return=Maybe.mean(episodes.episode_return, episodes.mask)
        if has_return
        else None,
        discounted_return=Maybe.mean(episodes.discounted_return, episodes.mask),
        success_rate=Maybe.mean(episodes.success.astype(float), episodes.mask),
        clipped_fraction=Maybe.mean(on_bound.any(axis=-1).astype(float), episodes.mask),
        frozen=jnp.asarray(False),
        agent=agent_metrics,
        teacher=teacher_metrics,
        environment_steps=environment_steps,
    )
