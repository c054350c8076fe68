"""Brax and spjax: tasks for Brax's learners, with a teacher inside their compiled programs.

    from brax.training.agents.ppo import train as ppo
    from spjax.envs.adapters import brax

    task = PointMass(dimensions=2)
    ppo.train(
        environment=brax.BraxTask(task),
        eval_env=brax.BraxTask(task, contexts=task.target),
        wrap_env_fn=brax.wrap(SelfPaced(value_source="return"), every=128),
        episode_length=task.horizon,
        ...
    )

Brax's own wrapper starts every episode of a slot in its first state. This one draws a new context from the teacher at every
reset, records the episodes, and updates the teacher every so many control steps, all inside ``step``: the teacher's state is
in ``state.info["teacher"]``. What an episode ended in stays in ``state.info["final_observation"]``.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from brax.envs.base import Env as BraxEnv
from brax.envs.base import State, Wrapper
from brax.envs.wrappers import training
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.contexts import ContextDistribution
from spjax.envs.base import Env, EnvState
from spjax.episodes import Attempt, Episodes
from spjax.teachers.base import Teacher


class BraxTask(BraxEnv):
    """A step-based task as a Brax environment, one instance; actions in [-1, 1] span the bounds of the task's.

    Contexts come from a fixed distribution, that of `contexts`, unless a teacher takes over, see `wrap`.
    """

    def __init__(self, task: Env, contexts: ContextDistribution | None = None) -> None:
        """Makes the environment.

        Args:
            task: of spjax, step-based.
            contexts: to draw from, for evaluation also under `wrap`; None for the target, which a teacher replaces.

        Raises:
            ValueError: the task is not step-based.
        """
        if not isinstance(task, Env):
            raise ValueError(
                f"BraxTask needs a step-based task, {task.name} is played in whole rollouts"
            )
        self.task = task
        self.contexts = contexts

    def reset(self, rng: Array) -> State:
        """Returns the first state of an episode in a context that is drawn."""
        key_context, key = jax.random.split(rng)
        distribution = self.contexts or self.task.target
        return self.reset_in(
            key, distribution.sample(key_context, self.task.context_space)
        )

    def reset_in(self, rng: Array, context: Float[Array, " dim"]) -> State:
        """Returns the first state of an episode in this context."""
        key_reset, key = jax.random.split(rng)
        first = self.task.reset(key_reset, context)
        zero = jnp.zeros_like(first.reward)
        return State(
            pipeline_state=first,
            obs=first.observation,
            reward=zero,
            done=zero,
            metrics={"success": zero},
            info={"key": key},
        )

    def step(self, state: State, action: Float[Array, " action"]) -> State:
        """Returns the state one control step later; done where the task ended, not at its horizon, which Brax counts.

        What is not finite is done, with reward 0 and the last finite observation.
        """
        key_step, key = jax.random.split(state.info["key"])
        lower, upper = (
            jnp.asarray(bound)
            for bound in (self.task.action_lower, self.task.action_upper)
        )
        scaled = lower + (jnp.clip(action, -1.0, 1.0) + 1) / 2 * (upper - lower)
        after = self.task.step(key_step, state.pipeline_state, scaled)
        sound = jnp.isfinite(after.observation).all() & jnp.isfinite(after.reward)
        after = jax.tree.map(
            lambda new, old: jnp.where(sound, new, old), after, state.pipeline_state
        )
        done = after.terminated | ~sound
        success = after.success & (done | after.truncated) & sound
        dtype = after.reward.dtype
        return state.replace(
            pipeline_state=after,
            obs=after.observation,
            reward=jnp.where(sound, after.reward, 0.0),
            done=done.astype(dtype),
            metrics={**state.metrics, "success": success.astype(dtype)},
            info={**state.info, "key": key},
        )

    @property
    def observation_size(self) -> int:
        """That of the task."""
        return self.task.observation_size

    @property
    def action_size(self) -> int:
        """The number of entries of an action."""
        return len(self.task.action_lower)

    @property
    def backend(self) -> str:
        """The name of what computes the dynamics."""
        return "spjax"

    @property
    def dt(self) -> float:
        """Seconds of a control step."""
        return self.task.control_period


Report = Callable[[PyTree], None]


def wrap(
    teacher: Teacher,
    every: int,
    discount: float = 0.99,
    report: Report | None = None,
) -> Callable[..., BraxEnv]:
    """Returns the `wrap_env_fn` of Brax's learners that lets a teacher choose the contexts.

    Args:
        teacher: any that does not ask a critic, since Brax's is out of reach: ``value_source="return"``.
        every: control steps of each slot between two updates of the teacher.
        discount: gamma, of the returns that the teacher learns from.
        report: called on the host with the teacher's metrics after every update.

    Raises:
        ValueError: the teacher asks a critic, or fewer than 1 step between updates.
    """
    if teacher.needs_value:
        raise ValueError(
            "the teacher asks the critic, which Brax keeps to itself; give it value_source='return'"
        )
    if every < 1:
        raise ValueError(f"every must be at least 1 control step, got {every}")

    def wrapped(
        env: BraxTask,
        episode_length: int,
        action_repeat: int = 1,
        randomization_fn: Callable[..., Any] | None = None,
    ) -> BraxEnv:
        if randomization_fn is not None:
            raise ValueError(
                "contexts take the place of a randomization_fn; leave it out"
            )
        if env.contexts is not None:
            return training.wrap(env, episode_length, action_repeat)
        bound = teacher.bound_to(env.task)
        bound.check(env.task.context_space)
        return TeacherWrapper(
            env, bound, episode_length, action_repeat, every, discount, report
        )

    return wrapped


@struct.dataclass
class Lessons:
    """The teacher, and the running record of what the slots do, in ``state.info["teacher"]``."""

    teacher_state: PyTree
    key: Array
    ticket: PyTree  # [slot] the teacher's note on each episode
    first_observation: Float[Array, "slot observation"]
    episode_return: Float[Array, " slot"]
    discounted_return: Float[Array, " slot"]
    discount: Float[Array, " slot"]  # gamma ** steps so far
    episodes: Episodes  # [every, slot] since the last update
    clock: Int[Array, ""]  # control steps since the last update


class TeacherWrapper(Wrapper):
    """A batch of slots whose contexts a teacher chooses; in place of Brax's vectorising, episode and auto-reset wrappers."""

    def __init__(
        self,
        env: BraxTask,
        teacher: Teacher,
        episode_length: int,
        action_repeat: int,
        every: int,
        discount: float,
        report: Report | None,
    ) -> None:
        super().__init__(env)
        self.teacher = teacher
        self.episode_length = episode_length
        self.action_repeat = action_repeat
        self.every = every
        self.discount = discount
        self.report = report

    def reset(self, rng: Array) -> State:
        """Returns all slots at the start of their first episodes, and a teacher that has seen nothing."""
        key_teacher, key_start, key = jax.random.split(rng[0], 3)
        space = self.env.task.context_space
        teacher_state = self.teacher.init(key_teacher, space)
        count = rng.shape[0]
        never = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))),
            Attempt(
                ticket=self.teacher.ticket(space),
                context=jnp.zeros(space.size),
                success=jnp.asarray(False),
            ),
        )
        state, ticket = self._start(teacher_state, key_start, never)
        zeros = jnp.zeros(count)
        state.info["steps"] = zeros
        state.info["truncation"] = zeros
        state.info["episode_done"] = zeros
        state.info["final_observation"] = state.obs
        state.info["episode_metrics"] = {
            name: zeros for name in ("sum_reward", "length", "success")
        }
        no = jnp.zeros((self.every, count), bool)
        blank = Episodes(
            mask=no,
            context=jnp.zeros((*no.shape, space.size)),
            first_observation=jnp.zeros((*no.shape, state.obs.shape[1])),
            episode_return=jnp.zeros(no.shape),
            discounted_return=jnp.zeros(no.shape),
            length=jnp.zeros(no.shape, jnp.int32),
            success=no,
            ticket=jax.tree.map(
                lambda leaf: jnp.zeros((self.every, *leaf.shape), leaf.dtype), ticket
            ),
        )
        state.info["teacher"] = Lessons(
            teacher_state=teacher_state,
            key=key,
            ticket=ticket,
            first_observation=state.obs,
            episode_return=zeros,
            discounted_return=zeros,
            discount=jnp.ones(count),
            episodes=blank,
            clock=jnp.zeros((), jnp.int32),
        )
        return state

    def step(self, state: State, action: Float[Array, "slot action"]) -> State:
        """Steps all slots; those that are done are recorded and start anew, and now and then the teacher learns."""
        info = dict(state.info)
        lessons: Lessons = info.pop("teacher")
        before = state.replace(
            done=jnp.zeros_like(state.done), info={"key": info["key"]}
        )

        def repeat(current: State, _: None) -> tuple[State, Array]:
            after = jax.vmap(self.env.step)(current, action)
            return after, after.reward

        after, rewards = jax.lax.scan(repeat, before, length=self.action_repeat)
        reward = rewards.sum(axis=0)
        steps = jnp.where(state.done > 0, 0.0, info["steps"]) + self.action_repeat
        over = steps >= self.episode_length
        done = (after.done > 0) | over
        truncation = over & (after.done == 0)

        going = 1 - info["episode_done"]
        sums = {
            "sum_reward": reward,
            "length": self.action_repeat,
            "success": after.metrics["success"],
        }
        totals = {
            name: going * info["episode_metrics"][name] + value
            for name, value in sums.items()
        }
        lessons, started = self._learned(lessons, after, reward, steps, done)
        info |= {
            "key": jnp.where(done[:, None], started.info["key"], after.info["key"]),
            "steps": steps,
            "truncation": truncation.astype(reward.dtype),
            "episode_done": done.astype(reward.dtype),
            "episode_metrics": totals,
            "final_observation": after.obs,
            "teacher": lessons,
        }
        renewed = _where(done, started, after.replace(info={"key": info["key"]}))
        return renewed.replace(
            reward=reward,
            done=done.astype(reward.dtype),
            metrics=after.metrics,
            info=info,
        )

    def _learned(
        self,
        lessons: Lessons,
        after: State,
        reward: Float[Array, " slot"],
        steps: Float[Array, " slot"],
        done: Bool[Array, " slot"],
    ) -> tuple[Lessons, State]:
        """Returns the record one step later, and for every slot the start of a next episode."""
        key, key_start, key_update = jax.random.split(lessons.key, 3)
        episode_return = lessons.episode_return + reward
        discounted = lessons.discounted_return + lessons.discount * reward
        task_state: EnvState = after.pipeline_state
        success = after.metrics["success"] > 0
        row = Episodes(
            mask=done,
            context=task_state.context,
            first_observation=lessons.first_observation,
            episode_return=episode_return,
            discounted_return=discounted,
            length=steps.astype(jnp.int32),
            success=success,
            ticket=lessons.ticket,
        )
        episodes = jax.tree.map(
            lambda rows, new: rows.at[lessons.clock].set(new), lessons.episodes, row
        )
        clock = lessons.clock + 1
        due = clock == self.every
        teacher_state = jax.lax.cond(
            due,
            lambda: self._update(lessons.teacher_state, key_update, episodes),
            lambda: lessons.teacher_state,
        )
        attempts = Attempt(lessons.ticket, task_state.context, success)
        started, ticket = self._start(teacher_state, key_start, attempts)
        fresh = Lessons(
            teacher_state=teacher_state,
            key=key,
            ticket=_where(done, ticket, lessons.ticket),
            first_observation=_where(done, started.obs, lessons.first_observation),
            episode_return=jnp.where(done, 0.0, episode_return),
            discounted_return=jnp.where(done, 0.0, discounted),
            discount=jnp.where(done, 1.0, lessons.discount * self.discount),
            episodes=dataclasses.replace(episodes, mask=episodes.mask & ~due),
            clock=jnp.where(due, 0, clock),
        )
        return fresh, started

    def _update(self, teacher_state: PyTree, key: Array, episodes: Episodes) -> PyTree:
        flat = jax.tree.map(lambda rows: rows.reshape(-1, *rows.shape[2:]), episodes)
        new, metrics = self.teacher.update(teacher_state, key, flat, _no_critic)
        if self.report is not None:
            jax.debug.callback(self.report, metrics)
        return new

    def _start(
        self, teacher_state: PyTree, key: Array, last: Attempt
    ) -> tuple[State, PyTree]:
        """Returns the starts of next episodes [slot], and their tickets."""
        space = self.env.task.context_space

        def one(slot_key: Array, attempt: Attempt) -> tuple[State, PyTree]:
            key_context, key_reset = jax.random.split(slot_key)
            context, ticket = self.teacher.assign(
                teacher_state, key_context, space, attempt
            )
            return self.env.reset_in(key_reset, context), ticket

        return jax.vmap(one)(jax.random.split(key, last.success.shape[0]), last)


def _where(done: Bool[Array, " slot"], new: PyTree, old: PyTree) -> PyTree:
    def choose(a: Array, b: Array) -> Array:
        return jnp.where(done.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def _no_critic(observation: Float[Array, "row observation"]) -> Float[Array, " row"]:
    raise ValueError("Brax's critic is out of the teacher's reach")
