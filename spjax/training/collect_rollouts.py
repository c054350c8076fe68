"""How agents that try parameters collect: an iteration is a batch of whole rollouts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from spjax.agents.base import Episodic, Rollouts
from spjax.envs.base import EnvState
from spjax.envs.episodic import EpisodicTask
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value
from spjax.training.collect import Collector, Outcome, Path


@struct.dataclass
class Totals:
    """What is kept of the world between iterations of whole rollouts."""

    environment_steps: Int[
        Array, ""
    ]  # of training, those that filled the first buffer included


@dataclasses.dataclass(frozen=True)
class RolloutCollector(Collector):
    """An iteration is a batch of whole rollouts."""

    task: EpisodicTask
    agent: Episodic
    teacher: Teacher

    def init(
        self,
        key_agent: PRNGKeyArray,
        key_world: PRNGKeyArray,
        teacher_state: PyTree,
        cloned: bool,
    ) -> tuple[PyTree, PyTree]:
        """Returns the agent's first state, and the steps that it took to get it."""
        state = self.agent.init(
            key_agent, self.task, self.teacher.starts_at, self.teacher.aims_at
        )
        return state, Totals(self.agent.environment_steps_before(state))

    def keys(self, key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
        """Returns the key itself, which the agent splits as the published learners' order of draws asks, and a child."""
        return key, jax.random.fold_in(key, 2)

    def learn(
        self,
        agent_state: PyTree,
        teacher_state: PyTree,
        world: PyTree,
        key: PRNGKeyArray,
    ) -> tuple[PyTree, PyTree, Episodes, PyTree]:
        """Runs the rollouts of an iteration and updates the agent."""
        space = self.task.context_space

        def batch(key: Array, count: int) -> tuple[Float[Array, "M dim"], PyTree]:
            return self.teacher.batch(teacher_state, key, space, count)

        asked = Rollouts(self.task, batch, self.teacher.problem(teacher_state))
        state, _, episodes, metrics = self.agent.iterate(agent_state, asked, key)
        steps = jnp.where(episodes.mask, episodes.length, 0).sum(dtype=jnp.int32)
        return state, Totals(world.environment_steps + steps), episodes, metrics

    def environment_steps(self, world: Totals) -> Int[Array, ""]:
        """Those of all rollouts."""
        return world.environment_steps

    def borders(self, before: PyTree, after: PyTree, num_ended: Int[Array, ""]) -> None:
        """A rollout is a whole episode."""

    def value(self, agent_state: PyTree) -> Value:
        """Returns what refuses to be called: there is no critic."""

        def none(observation: Array) -> Array:
            raise ValueError("an agent that runs whole rollouts has no critic")

        return none

    def play(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
        deterministic: bool = False,
    ) -> tuple[Outcome, Path]:
        """Returns one rollout in each context, of the parameters that the policy says, and its path."""
        keys, thetas = self._parameters(agent_state, key, contexts, deterministic)

        def rollout(bits: Array, theta: Array, context: Array) -> tuple[PyTree, Array]:
            # Twice the same randomness, on purpose: as plain bits, since the reuse check would object.
            outcome = self.task.rollout(jax.random.wrap_key_data(bits), theta, context)
            states = self.task.states(jax.random.wrap_key_data(bits), theta, context)
            return outcome, jax.vmap(self.task.trace)(states)

        found, path = jax.vmap(rollout, out_axes=(0, 1))(
            jax.random.key_data(keys), thetas, contexts
        )
        outcome = Outcome(
            episode_return=None,
            discounted_return=found.reward,
            success=found.success,
            ended=jnp.ones_like(found.success),
            length=found.length,
        )
        return outcome, path

    def states(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> EnvState:
        """Returns the states of the rollouts."""
        keys, thetas = self._parameters(agent_state, key, contexts, False)
        states: EnvState = jax.vmap(self.task.states, out_axes=1)(
            keys, thetas, contexts
        )
        return states

    @property
    def asked(self) -> tuple[str, int]:
        """Contexts."""
        return "context", self.task.context_space.size

    def check_asked(self, rows: Float[np.ndarray, "row input"]) -> None:
        """Contexts must lie inside their bounds."""
        for row in rows:
            self.task.context_space.check(row.tolist())

    def decide(
        self, agent_state: PyTree, rows: Float[Array, "row input"]
    ) -> Float[Array, "row output"]:
        """Returns the mean parameters."""
        return self.agent.mean_parameters(agent_state, self.task, rows)

    def draw(
        self, agent_state: PyTree, key: PRNGKeyArray, rows: Float[Array, "row input"]
    ) -> Float[Array, "row output"]:
        """Returns parameters drawn from the policy."""
        return self.agent.sample_parameters(agent_state, self.task, key, rows)

    def _parameters(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
        deterministic: bool,
    ) -> tuple[Key[Array, " episode"], Float[Array, "episode parameter"]]:
        key_parameters, key_rollouts = jax.random.split(key)
        thetas = (
            self.decide(agent_state, contexts)
            if deterministic
            else self.draw(agent_state, key_parameters, contexts)
        )
        return jax.random.split(key_rollouts, len(contexts)), thetas
