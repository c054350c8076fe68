"""A training run of an episodic learner as the same two pure functions, ``init`` and ``step``.

One iteration rolls out a batch of parameters and updates the learner. The contexts come from the learner itself (`teacher` is
one of `OWN_CONTEXTS`: SPRL moves a distribution, C-REPS stays at the target) or, with C-REPS, from a teacher.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, PRNGKeyArray

from spjax.agents.episodic.buffer import Batch
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.episodic import EpisodicTask
from spjax.episodes import Episodes
from spjax.teachers.target import check_gaussian
from spjax.training.experiment import Experiment, Metrics, Outcome, RunState


@struct.dataclass
class SelfPacedContexts:
    """The contexts of SPRL, which the learner moves from the initial distribution to the target."""

    initial_mean: tuple[float, ...] = ()  # context units
    initial_std: tuple[float, ...] = ()  # context units

    def check(self, space: ContextSpace) -> None:
        """Checks the initial distribution against the context space; raises ValueError with one clear sentence."""
        check_gaussian(space, "initial", self.initial_mean, self.initial_std)


@struct.dataclass
class TargetContexts:
    """The contexts of C-REPS, of the target distribution, and of CMA-ES, the target's mean."""

    def check(self, space: ContextSpace) -> None:
        """There is nothing to check."""


OWN_CONTEXTS = (SelfPacedContexts, TargetContexts)


@struct.dataclass
class Totals:
    """What an episodic run counts."""

    environment_steps: Int[Array, ""]  # of training, those that filled the first buffer included


@struct.dataclass
class EpisodicExperiment(Experiment):
    """An episodic task, a black-box learner, a curriculum, and the tasks that the result is measured on."""

    @property
    def task(self) -> EpisodicTask:
        """The task, which the parent class calls env."""
        task: Any = self.env
        return task

    @property
    def discount(self) -> float:
        """A rollout has one reward, whatever is discounted in it."""
        return 1.0

    def init(self, key: PRNGKeyArray) -> RunState:
        """Returns the state before the first iteration."""
        key_run, key_agent, key_teacher = jax.random.split(key, 3)
        initial = None
        if isinstance(self.teacher, SelfPacedContexts):
            initial = Gaussian.from_std(self.teacher.initial_mean, self.teacher.initial_std)
        agent_state = self.agent.init(key_agent, self.task, initial, self.target)
        own = isinstance(self.teacher, OWN_CONTEXTS)
        return RunState(
            key=key_run,
            iteration=jnp.zeros((), jnp.int32),
            agent_state=agent_state,
            teacher_state=() if own else self.teacher.init(key_teacher, self.task.context_space, 0),
            slots=Totals(self.agent.environment_steps_before(agent_state)),
            frozen_at=jnp.full((), -1, jnp.int32),
        )

    def play(
        self, state: RunState, key: PRNGKeyArray, contexts: Float[Array, "episode dim"]
    ) -> tuple[Outcome, Float[Array, "time episode 2"]]:
        """Returns one rollout in each context, of parameters drawn from the policy, and its path."""
        key_parameters, key_rollouts = jax.random.split(key)
        thetas = self.agent.sample_parameters(state.agent_state, self.task, key_parameters, contexts)
        keys = jax.random.split(key_rollouts, len(contexts))

        def rollout(key: Array, theta: Array, context: Array) -> tuple[Any, Array]:
            # Twice the same randomness, on purpose: as plain bits, since the reuse check would object.
            bits = jax.random.key_data(key)
            outcome = self.task.rollout(jax.random.wrap_key_data(bits), theta, context)
            return outcome, self.task.trace(jax.random.wrap_key_data(bits), theta, context)

        found, path = jax.vmap(rollout, out_axes=(0, 1))(keys, thetas, contexts)
        outcome = Outcome(
            episode_return=None,
            discounted_return=found.reward,
            success=found.success,
            ended=jnp.ones_like(found.success),
            length=found.length,
        )
        return outcome, path

    def target_contexts(self, key: PRNGKeyArray, count: int) -> Float[Array, "count dim"]:
        """Returns the contexts that the learner is measured on: of the target distribution, for CMA-ES its mean."""
        contexts: Array = self.agent.test_contexts(self.target, self.task, key, count)
        return contexts

    def sample_contexts(self, state: RunState, key: PRNGKeyArray, count: int) -> Float[Array, "count dim"]:
        """Returns contexts of the current distribution."""
        if isinstance(self.teacher, OWN_CONTEXTS):
            contexts: Array = self.agent.sample_contexts(state.agent_state, self.task, key, count)
            return contexts
        return super().sample_contexts(state, key, count)

    def _advance(self, state: RunState) -> tuple[tuple[Any, Any, Any], Metrics]:
        key = jax.random.fold_in(state.key, state.iteration)
        if isinstance(self.teacher, OWN_CONTEXTS):
            agent_state, metrics = self.agent.iterate(state.agent_state, self.task, key)
            teacher_state, teacher_metrics = state.teacher_state, metrics.curriculum
        else:
            agent_state, metrics, teacher_state, teacher_metrics = self._with_teacher(state, key)
        totals = Totals(state.slots.environment_steps + metrics.environment_steps)
        row = Metrics(
            episodes=jnp.asarray(self.agent.num_rollouts(self.task), jnp.int32),
            episode_return=None,
            discounted_return=metrics.reward,
            success_rate=metrics.success_rate,
            frozen=jnp.asarray(False),
            agent=metrics.replace(reward=None, success_rate=None, environment_steps=None, curriculum=None),
            teacher=teacher_metrics,
            environment_steps=totals.environment_steps,
        )
        return (agent_state, teacher_state, totals), row

    def _with_teacher(self, state: RunState, key: Array) -> tuple[Any, Any, Any, Any]:
        """Returns learner and teacher one iteration later, each with its metrics."""
        key_contexts, key_rollouts, key_teacher = jax.random.split(key, 3)
        space, count = self.task.context_space, self.agent.num_rollouts(self.task)
        contexts, tickets = self.teacher.batch(state.teacher_state, key_contexts, space, count)
        batch = self.agent.collect(state.agent_state, self.task, key_rollouts, contexts)
        agent_state, metrics = self.agent.learn(state.agent_state, self.task, batch)
        episodes = _episodes(batch, tickets)
        teacher_state, teacher_metrics = self.teacher.update(state.teacher_state, key_teacher, episodes, _no_value)
        return agent_state, metrics, teacher_state, teacher_metrics


def _episodes(batch: Batch, tickets: Any) -> Episodes:
    count = len(batch.rewards)
    return Episodes(
        mask=jnp.ones(count, bool),
        context=batch.contexts,
        first_observation=jnp.zeros((count, 0)),
        episode_return=batch.rewards,
        discounted_return=batch.rewards,
        length=batch.lengths,
        success=batch.successes,
        ticket=tickets,
    )


def _no_value(observation: Array) -> Array:
    raise TypeError("an episodic learner has no critic")
