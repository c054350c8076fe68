"""How agents that act step by step collect: episodes run for ever, side by side."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from spjax.agents.base import Slots, StepBased
from spjax.agents.step_based.cloning import hold_position
from spjax.agents.step_based.rollout import init_slots
from spjax.envs.base import Env, EnvState
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher, Value
from spjax.training.borders import Borders, borders
from spjax.training.collect import Collector, Outcome, Path


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
        deterministic: bool = False,
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
                agent_state,
                jax.random.wrap_key_data(bits[time]),
                env_states,
                deterministic,
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

    @property
    def asked(self) -> tuple[str, int]:
        """Observations."""
        return "observation", self.env.observation_size

    def check_asked(self, rows: Float[np.ndarray, "row input"]) -> None:
        """Any observation may come."""

    def decide(
        self, agent_state: PyTree, rows: Float[Array, "row input"]
    ) -> Float[Array, "row output"]:
        """Returns the deterministic actions, clipped as the environment would."""
        return self.env.clip(
            self.agent.deterministic_action(agent_state, self.env, rows)
        )

    def draw(
        self, agent_state: PyTree, key: PRNGKeyArray, rows: Float[Array, "row input"]
    ) -> Float[Array, "row output"]:
        """Returns actions drawn from the policy, clipped as the environment would."""
        return self.env.clip(self.agent.act(agent_state, self.env, key, rows))

    def control_step(
        self,
        agent_state: PyTree,
        key: PRNGKeyArray,
        env_states: EnvState,
        deterministic: bool = False,
    ) -> EnvState:
        """Returns the environments one control step of the policy later, drawn from it or its deterministic one."""
        key_act, key_env = jax.random.split(key)
        observations = env_states.observation
        actions = (
            self.agent.deterministic_action(agent_state, self.env, observations)
            if deterministic
            else self.agent.act(agent_state, self.env, key_act, observations)
        )
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
