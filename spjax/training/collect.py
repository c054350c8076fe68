"""The two worlds that agents collect in, seen from the experiment: what is kept between iterations, and how it is played."""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from spjax.agents.base import Episodic, Rollouts, Slots, StepBased
from spjax.agents.step_based.cloning import hold_position
from spjax.agents.step_based.rollout import init_slots
from spjax.envs.base import Env, EnvState, Task
from spjax.envs.episodic import EpisodicTask
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value
from spjax.training.borders import Borders, borders

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


@struct.dataclass
class Totals:
    """What is kept of the world between iterations of whole rollouts."""

    environment_steps: Int[
        Array, ""
    ]  # of training, those that filled the first buffer included


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
    ) -> tuple[Outcome, Path]:
        """Returns one episode of the stochastic policy in each context, and its path."""

    @abc.abstractmethod
    def states(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> EnvState:
        """Returns the states [time, episode] of the episodes that `play` plays with these arguments."""


@dataclasses.dataclass(frozen=True)
class SlotCollector(Collector):
    """Episodes run for ever, side by side."""

    env: Env
    agent: StepBased
    teacher: Teacher

    def init(
        self,
        key_agent: PRNGKeyArray,
        key_world: PRNGKeyArray,
        teacher_state: PyTree,
        cloned: bool,
    ) -> tuple[PyTree, PyTree]:
        """Returns the agent's first state, and freshly reset slots."""
        env, space = self.env, self.env.context_space
        if cloned:
            key_agent, key_cloning = jax.random.split(key_agent)
            agent_state = hold_position(
                self.agent,
                self.agent.init(key_agent, env),
                env,
                key_cloning,
                self.teacher.initial,
            )
        else:
            agent_state = self.agent.init(key_agent, env)
        world = self._world(teacher_state, None)
        return agent_state, init_slots(
            env,
            key_world,
            self.agent.num_envs,
            world.assign,
            self.teacher.ticket(space),
        )

    def keys(self, key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
        """Returns two children."""
        key_agent, key_teacher = jax.random.split(key)
        return key_agent, key_teacher

    def learn(
        self,
        agent_state: PyTree,
        teacher_state: PyTree,
        world: PyTree,
        key: PRNGKeyArray,
    ) -> tuple[PyTree, PyTree, Episodes, PyTree]:
        """Steps the slots and updates the agent."""
        state, after, episodes, metrics = self.agent.iterate(
            agent_state, self._world(teacher_state, world), key
        )
        return state, after.slots, episodes, metrics

    def environment_steps(self, world: PyTree) -> None:
        """Each iteration has `steps_per_iteration`."""

    def borders(
        self, before: PyTree, after: PyTree, num_ended: Int[Array, ""]
    ) -> Borders:
        """Returns those of the slots' episodes."""
        num_steps = self.agent.steps_per_iteration // self.agent.num_envs
        return borders(before, after, num_steps, num_ended)

    def value(self, agent_state: PyTree) -> Value:
        """Returns the critic's discounted return of observations."""
        return lambda observation: self.agent.value(agent_state, observation)

    def play(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> tuple[Outcome, Path]:
        """Plays until all episodes have ended.

        The path has the env's `trace` after 0, 1, ... horizon control steps; rows past the episode's length mean nothing.
        """
        env = self.env
        key_reset, key_steps = jax.random.split(key)
        count = contexts.shape[0]
        env_states = jax.vmap(env.reset)(jax.random.split(key_reset, count), contexts)
        zeros = jnp.zeros(count)
        blank = Outcome(
            zeros,
            zeros,
            zeros.astype(bool),
            zeros.astype(bool),
            zeros.astype(jnp.int32),
        )
        trace = jax.vmap(env.trace)
        path = jnp.zeros((env.horizon + 1, count, 2)).at[0].set(trace(env_states))
        # As plain bits, since the reuse check takes a key that is indexed inside a loop for one that is used again.
        bits = jax.random.key_data(jax.random.split(key_steps, env.horizon))

        def running(carry: tuple[Array, PyTree, Outcome, Array]) -> Bool[Array, ""]:
            time, _, outcome, _ = carry
            return (time < env.horizon) & ~outcome.ended.all()

        def environment_step(
            carry: tuple[Array, PyTree, Outcome, Array],
        ) -> tuple[Array, PyTree, Outcome, Array]:
            time, env_states, outcome, path = carry
            after = self.control_step(
                agent_state, jax.random.wrap_key_data(bits[time]), env_states
            )
            going, total = ~outcome.ended, outcome.episode_return
            assert total is not None  # of step-based tasks
            reward = jnp.where(going & jnp.isfinite(after.reward), after.reward, 0.0)
            discount = self.agent.discount ** env_states.time_step.astype(reward.dtype)
            outcome = Outcome(
                episode_return=total + reward,
                discounted_return=outcome.discounted_return + discount * reward,
                success=jnp.where(going, after.success, outcome.success),
                ended=outcome.ended | after.terminated | after.truncated,
                length=outcome.length + going.astype(jnp.int32),
            )
            return time + 1, after, outcome, path.at[time + 1].set(trace(after))

        start = (jnp.zeros((), jnp.int32), env_states, blank, path)
        _, _, outcome, path = jax.lax.while_loop(running, environment_step, start)
        return outcome, path

    def states(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> EnvState:
        """Plays all control steps up to the horizon; what follows an episode's end means nothing."""
        key_reset, key_steps = jax.random.split(key)
        start = jax.vmap(self.env.reset)(
            jax.random.split(key_reset, contexts.shape[0]), contexts
        )

        def environment_step(
            env_states: EnvState, key: Array
        ) -> tuple[EnvState, EnvState]:
            after = self.control_step(agent_state, key, env_states)
            return after, after

        _, later = jax.lax.scan(
            environment_step, start, jax.random.split(key_steps, self.env.horizon)
        )
        states: EnvState = jax.tree.map(
            lambda first, rest: jnp.concatenate([first[None], rest]), start, later
        )
        return states

    def control_step(
        self, agent_state: PyTree, key: PRNGKeyArray, env_states: EnvState
    ) -> EnvState:
        """Returns the environments one control step of the stochastic policy later."""
        key_act, key_env = jax.random.split(key)
        actions = self.agent.act(agent_state, self.env, key_act, env_states.observation)
        return jax.vmap(self.env.step)(
            jax.random.split(key_env, len(actions)), env_states, actions
        )

    def _world(self, teacher_state: PyTree, slots: PyTree) -> Slots:
        space = self.env.context_space
        return Slots(
            self.env,
            slots,
            lambda key, last: self.teacher.assign(teacher_state, key, space, last),
        )


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
    ) -> tuple[Outcome, Path]:
        """Returns one rollout in each context, of parameters drawn from the policy, and its path."""
        keys, thetas = self._drawn(agent_state, key, contexts)

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
        keys, thetas = self._drawn(agent_state, key, contexts)
        states: EnvState = jax.vmap(self.task.states, out_axes=1)(
            keys, thetas, contexts
        )
        return states

    def _drawn(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        contexts: Float[Array, "episode dim"],
    ) -> tuple[Key[Array, " episode"], Float[Array, "episode parameter"]]:
        key_parameters, key_rollouts = jax.random.split(key)
        thetas = self.agent.sample_parameters(
            agent_state, self.task, key_parameters, contexts
        )
        return jax.random.split(key_rollouts, len(contexts)), thetas


def collector(task: Task, agent: PyTree, teacher: Teacher) -> Collector:
    """Returns how this agent collects in this task."""
    kinds: dict[str, Any] = {"slots": SlotCollector, "rollouts": RolloutCollector}
    made: Collector = kinds[agent.collects](task, agent, teacher)
    return made
