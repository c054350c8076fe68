"""One training run as two pure functions, ``init`` and ``step``; everything else is built on them.

The experiment itself is a pytree whose leaves are the traced settings, so a sweep over them maps over experiments.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from spjax.agents.step_based.cloning import hold_position
from spjax.agents.step_based.rollout import Assign, init_slots
from spjax.contexts import Gaussian
from spjax.envs.base import Env, EnvState
from spjax.episodes import Episodes
from spjax.teachers.base import Teacher
from spjax.teachers.buffer import masked_mean


@struct.dataclass
class Experiment:
    """A task, a learner, a curriculum, and the tasks that the result is measured on."""

    agent: Any  # see spjax.agents
    teacher: Teacher
    target: Gaussian  # contexts of the evaluation
    env: Env = struct.field(pytree_node=False)
    evaluation_episodes: int = struct.field(pytree_node=False, default=50)
    hold_position: bool = struct.field(pytree_node=False, default=False)  # start from a policy cloned to zero actions

    @property
    def discount(self) -> Any:
        """Gamma, of the returns."""
        return self.agent.discount

    def init(self, key: PRNGKeyArray) -> "RunState":
        """Returns the state before the first iteration."""
        key_run, key_agent, key_teacher, key_slots = jax.random.split(key, 4)
        space = self.env.context_space
        teacher_state = self.teacher.init(key_teacher, space, self.env.observation_size)
        if self.hold_position:
            key_agent, key_cloning = jax.random.split(key_agent)
            agent_state = hold_position(self.agent, self.agent.init(key_agent, self.env), self.env, key_cloning)
        else:
            agent_state = self.agent.init(key_agent, self.env)
        slots = init_slots(
            self.env, key_slots, self.agent.num_envs, self._assign(teacher_state), self.teacher.ticket(space)
        )
        return RunState(
            key=key_run,
            iteration=jnp.zeros((), jnp.int32),
            agent_state=agent_state,
            teacher_state=teacher_state,
            slots=slots,
            frozen_at=jnp.full((), -1, jnp.int32),
        )

    def step(self, state: "RunState") -> tuple["RunState", "Metrics"]:
        """Returns the state one iteration later: num_steps environment steps, the learner's update, the teacher's.

        A run whose parameters turn non-finite keeps its last finite state from then on.
        """
        learned = (state.agent_state, state.teacher_state, state.slots)
        new, metrics = self._advance(state)
        healthy = (state.frozen_at < 0) & _all_finite(new)
        agent_state, teacher_state, slots = jax.tree.map(lambda a, b: jnp.where(healthy, a, b), new, learned)
        frozen_at = jnp.where(healthy | (state.frozen_at >= 0), state.frozen_at, state.iteration)
        state = dataclasses.replace(
            state,
            iteration=state.iteration + 1,
            agent_state=agent_state,
            teacher_state=teacher_state,
            slots=slots,
            frozen_at=frozen_at,
        )
        return state, dataclasses.replace(metrics, frozen=frozen_at >= 0)

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
        self, state: "RunState", key: PRNGKeyArray, contexts: Float[Array, "episode dim"]
    ) -> tuple["Outcome", Float[Array, "time episode 2"]]:
        """Returns one episode of the stochastic policy in each context, and its path; nothing of the state changes.

        The path has the env's `trace` after 0, 1, ... horizon control steps; rows past the episode's length mean nothing.
        """
        key_reset, key_steps = jax.random.split(key)
        count = contexts.shape[0]
        env_states = jax.vmap(self.env.reset)(jax.random.split(key_reset, count), contexts)
        zeros = jnp.zeros(count)
        blank = Outcome(zeros, zeros, zeros.astype(bool), zeros.astype(bool), zeros.astype(jnp.int32))
        trace = jax.vmap(self.env.trace)
        path = jnp.zeros((self.env.horizon + 1, count, 2)).at[0].set(trace(env_states))
        # As plain bits, since the reuse check takes a key that is indexed inside a loop for one that is used again.
        bits = jax.random.key_data(jax.random.split(key_steps, self.env.horizon))

        def running(carry: tuple[Array, Any, Outcome, Array]) -> Bool[Array, ""]:
            time, _, outcome, _ = carry
            return (time < self.env.horizon) & ~outcome.ended.all()

        def environment_step(carry: tuple[Array, Any, Outcome, Array]) -> tuple[Array, Any, Outcome, Array]:
            time, env_states, outcome, path = carry
            after = self.control_step(state, jax.random.wrap_key_data(bits[time]), env_states)
            going = ~outcome.ended
            reward = jnp.where(going & jnp.isfinite(after.reward), after.reward, 0.0)
            outcome = Outcome(
                episode_return=outcome.episode_return + reward,
                discounted_return=outcome.discounted_return + self.agent.discount**env_states.time_step * reward,
                success=jnp.where(going, after.success, outcome.success),
                ended=outcome.ended | after.terminated | after.truncated,
                length=outcome.length + going,
            )
            return time + 1, after, outcome, path.at[time + 1].set(trace(after))

        start = (jnp.zeros((), jnp.int32), env_states, blank, path)
        _, _, outcome, path = jax.lax.while_loop(running, environment_step, start)
        return outcome, path

    def control_step(self, state: "RunState", key: PRNGKeyArray, env_states: EnvState) -> EnvState:
        """Returns the environments one control step of the stochastic policy later."""
        key_act, key_env = jax.random.split(key)
        actions = self.agent.act(state.agent_state, self.env, key_act, env_states.observation)
        return jax.vmap(self.env.step)(jax.random.split(key_env, len(actions)), env_states, actions)

    def target_contexts(self, key: PRNGKeyArray, count: int) -> Float[Array, "count dim"]:
        """Returns contexts of the target distribution, clipped to the bounds."""
        return self.env.context_space.clip(jax.vmap(self.target.sample)(jax.random.split(key, count)))

    def sample_contexts(self, state: "RunState", key: PRNGKeyArray, count: int) -> Float[Array, "count dim"]:
        """Returns contexts of the teacher's current distribution."""
        space = self.env.context_space
        return jax.vmap(lambda k: self.teacher.sample(state.teacher_state, k, space))(jax.random.split(key, count))

    def learn(self, state: "RunState") -> tuple[Any, Any, Episodes, Any]:
        """Returns the learner's half of an iteration: its new state, the slots, the finished episodes and its metrics."""
        key, _ = self._keys(state)
        learned: tuple[Any, Any, Episodes, Any] = self.agent.iterate(
            state.agent_state, self.env, key, state.slots, self._assign(state.teacher_state)
        )
        return learned

    def teach(self, state: "RunState", agent_state: Any, episodes: Episodes) -> tuple[Any, Any]:
        """Returns the teacher's half, from what the learner has become and finished: the teacher's new state and its metrics."""
        _, key = self._keys(state)
        return self.teacher.update(
            state.teacher_state, key, episodes, lambda observation: self.agent.value(agent_state, observation)
        )

    def _advance(self, state: "RunState") -> tuple[tuple[Any, Any, Any], "Metrics"]:
        """Returns the agent, teacher and slots one iteration later."""
        agent_state, slots, episodes, agent_metrics = self.learn(state)
        teacher_state, teacher_metrics = self.teach(state, agent_state, episodes)
        return (agent_state, teacher_state, slots), _metrics(episodes, agent_metrics, teacher_metrics)

    def _keys(self, state: "RunState") -> tuple[PRNGKeyArray, PRNGKeyArray]:
        """Returns the keys of learner and teacher in the iteration after this state."""
        key_agent, key_teacher = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        return key_agent, key_teacher

    def _assign(self, teacher_state: Any) -> Assign:
        return lambda key, last: self.teacher.assign(teacher_state, key, self.env.context_space, last)


@struct.dataclass
class RunState:
    """Everything that a run is; a checkpoint holds exactly this."""

    key: PRNGKeyArray
    iteration: Int[Array, ""]  # iterations completed
    agent_state: Any
    teacher_state: Any
    slots: Any  # the environment slots; of an episodic run, what it has counted
    frozen_at: Int[Array, ""]  # iteration that gave non-finite parameters, -1 while all is well


@struct.dataclass
class Metrics:
    """Of one iteration; means are over the episodes that finished in it, NaN where none did."""

    episodes: Int[Array, ""]
    episode_return: Float[Array, ""] | None  # None where the task knows one return alone
    discounted_return: Float[Array, ""]
    success_rate: Float[Array, ""]
    frozen: Bool[Array, ""]
    agent: Any
    teacher: Any
    environment_steps: Int[Array, ""] | None = (
        None  # so far; None where every iteration has steps_per_iteration of them
    )


@struct.dataclass
class Evaluation:
    """Means over the evaluation episodes on the target distribution."""

    discounted_return: Float[Array, ""]  # of an episodic task, its reward
    episode_return: Float[Array, ""] | None  # None where the task knows one return alone
    success_rate: Float[Array, ""]


@struct.dataclass
class Outcome:
    """Of each played episode."""

    episode_return: Any  # [episode]; None where the task knows one return alone
    discounted_return: Float[Array, " episode"]
    success: Bool[Array, " episode"]
    ended: Bool[Array, " episode"]
    length: Int[Array, " episode"]  # control steps


def _metrics(episodes: Episodes, agent_metrics: Any, teacher_metrics: Any) -> Metrics:
    return Metrics(
        episodes=episodes.mask.sum(),
        episode_return=masked_mean(episodes.episode_return, episodes.mask),
        discounted_return=masked_mean(episodes.discounted_return, episodes.mask),
        success_rate=masked_mean(episodes.success.astype(float), episodes.mask),
        frozen=jnp.asarray(False),
        agent=agent_metrics,
        teacher=teacher_metrics,
    )


def _all_finite(tree: Any) -> Bool[Array, ""]:
    floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in floats]).all()
