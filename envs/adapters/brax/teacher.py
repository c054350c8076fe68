"""A teacher inside the compiled program of Brax's learners.

Brax's own wrapper starts every episode of a slot in its first state. This one steps the slots as spjax's learners do: a finished
one starts anew in a context that is drawn from the teacher there and then, its episode is recorded, and every so many control
steps the teacher learns from the record, all inside ``step``. ``state.info`` has

    teacher             the teacher's state, and the record since its last update
    final_observation   what the newest control step led to, before any reset
    truncation, steps, episode_done, episode_metrics    as Brax's wrappers have them

On several devices each has a teacher of its own, taught by its own slots; with ``max_devices_per_host=1`` there is one.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from brax.envs.base import Env as BraxEnv
from brax.envs.base import State, Wrapper
from flax import struct
from jaxtyping import Array, Float, Int, PyTree

from spjax import settings
from spjax.agents.step_based.rollout import Slot, flat, init_slots, play_slots
from spjax.envs.adapters.brax.learners import mend
from spjax.envs.adapters.brax.task import BraxTask, typed
from spjax.episodes import Attempt, Episodes
from spjax.teachers.base import Teacher
from spjax.teachers.target import Target
from spjax.training.checks import check_count

Report = Callable[[PyTree], None]


def wrap(
    teacher: Teacher,
    every: int,
    discount: float = 0.99,
    report: Report | None = None,
) -> Callable[..., BraxEnv]:
    """Returns the `wrap_env_fn` of Brax's learners that lets a teacher choose the contexts of a `BraxTask`.

    An environment with `contexts` of its own keeps them, so give the learner an ``eval_env`` with those that count; without one,
    it evaluates in the contexts that the curriculum starts with. Leave the learner's ``num_resets_per_eval`` at 0: its resets
    would make the teacher forget.

    Args:
        teacher: any that does not ask a critic, since Brax keeps its own to itself.
        every: control steps of each slot between two updates of the teacher.
        discount: gamma, of the returns that the teacher learns from; the learner's ``discounting``.
        report: called on the host with the teacher's metrics after every update.

    Raises:
        ValueError: a setting out of its range, a teacher that needs what Brax's learners do not offer, fewer than 1 step between
            updates, or a discount outside of (0, 1].
    """
    if not isinstance(teacher, Teacher):
        raise ValueError(
            f"a teacher must be made, such as SelfPaced(value_source='return'), got {teacher!r}"
        )
    settings.check("teacher", teacher)
    if "slots" not in teacher.collects or teacher.fits_contexts:
        raise ValueError(
            f"Brax's learners act step by step, the teacher {type(teacher).__name__} is for agents that run whole rollouts"
        )
    if teacher.needs_value:
        raise ValueError(
            "the teacher asks the critic, which Brax's learners keep to themselves; give it value_source='return'"
        )
    check_count("every", every)
    if not 0 < discount <= 1:
        raise ValueError(f"discount must lie in (0, 1], got {discount}")

    def wrapped(
        env: BraxEnv,
        episode_length: int,
        action_repeat: int = 1,
        randomization_fn: Callable[..., PyTree] | None = None,
    ) -> BraxEnv:
        mend()
        task_env = _checked(env, episode_length, action_repeat, randomization_fn)
        task, contexts = task_env.task, task_env.contexts
        if contexts is not None:
            kept = Target(target=contexts).bound_to(task)
            return TeacherWrapper(task_env, kept, 1, discount, None)
        bound = teacher.bound_to(task)
        bound.check(task.context_space)
        return TeacherWrapper(task_env, bound, every, discount, report)

    return wrapped


def _checked(
    env: BraxEnv,
    episode_length: int,
    action_repeat: int,
    randomization_fn: Callable[..., PyTree] | None,
) -> BraxTask:
    """Returns the environment if a teacher can choose its contexts; raises ValueError with one clear sentence."""
    if not isinstance(env, BraxTask):
        raise ValueError(
            f"a teacher needs a task with contexts, BraxTask(task), got {type(env).__name__}; "
            "FromBrax makes one of an environment of Brax"
        )
    if randomization_fn is not None:
        raise ValueError(
            "a teacher's contexts take the place of a randomization_fn; leave it out"
        )
    if action_repeat != 1:
        raise ValueError(
            f"action_repeat must be 1, a task has its own control period, got {action_repeat}"
        )
    if episode_length != env.task.horizon:
        raise ValueError(
            f"episode_length must be the horizon of {env.task.name}, {env.task.horizon}, got {episode_length}"
        )
    return env


@struct.dataclass
class Lessons:
    """The teacher, and the running record of what the slots do."""

    teacher_state: PyTree
    bits: Array  # of the key that everything here is drawn from
    slots: PyTree  # `Slot` [slot], less the task's states, which are `pipeline_state`
    episodes: Episodes  # [every, slot] since the last update
    clock: Int[Array, ""]  # control steps since the last update


class TeacherWrapper(Wrapper):
    """Slots whose contexts a teacher chooses; in place of Brax's vectorising, episode and auto-reset wrappers."""

    env: BraxTask

    def __init__(
        self,
        env: BraxTask,
        teacher: Teacher,
        every: int,
        discount: float,
        report: Report | None,
    ) -> None:
        """See `wrap`; the teacher is bound to the task."""
        super().__init__(env)
        self.teacher = teacher
        self.every = every
        self.discount = discount
        self.report = report

    def reset(self, rng: Array) -> State:
        """Returns all slots [slot, ...] at the start of their first episodes, and a teacher that has seen nothing."""
        key_teacher, key_slots, key = jax.random.split(typed(rng[0]), 3)
        task, space, count = self.env.task, self.env.task.context_space, rng.shape[0]
        teacher_state = self.teacher.init(key_teacher, space)
        ticket = self.teacher.ticket(space)
        slots = init_slots(task, key_slots, count, self._assign(teacher_state), ticket)

        zeros = jnp.zeros(count)
        metrics = {"success": zeros, "discounted_return": zeros}
        observation = slots.env_state.observation
        return State(
            pipeline_state=slots.env_state,
            obs=observation,
            reward=zeros,
            done=zeros,
            metrics=metrics,
            info={
                "teacher": Lessons(
                    teacher_state=teacher_state,
                    bits=jax.random.key_data(key),
                    slots=_stateless(slots),
                    episodes=_blank(slots, self.every),
                    clock=jnp.zeros((), jnp.int32),
                ),
                "steps": zeros,
                "truncation": zeros,
                "episode_done": zeros,
                "episode_metrics": {"sum_reward": zeros, "length": zeros, **metrics},
                "final_observation": observation,
            },
        )

    def step(self, state: State, action: Float[Array, "slot action"]) -> State:
        """Steps all slots; those that are done are recorded and start anew, and now and then the teacher learns."""
        lessons: Lessons = state.info["teacher"]
        key_steps, key_update, key = jax.random.split(typed(lessons.bits), 3)
        slots: Slot = lessons.slots.replace(env_state=state.pipeline_state)

        after, (seen, ended, _) = play_slots(
            self.env.task,
            jax.random.split(key_steps, (len(action), 3)),
            slots,
            self.env.scaled(action),
            self._assign(lessons.teacher_state),
            self.discount,
        )
        lessons = dataclasses.replace(
            self._taught(lessons, key_update, ended),
            bits=jax.random.key_data(key),
            slots=_stateless(after),
        )

        reward = seen.reward
        done = ended.mask.astype(reward.dtype)
        metrics = {
            "success": (ended.mask & ended.success).astype(reward.dtype),
            "discounted_return": slots.discount * reward,
        }
        return state.replace(
            pipeline_state=after.env_state,
            obs=after.env_state.observation,
            reward=reward,
            done=done,
            metrics={**state.metrics, **metrics},
            info={
                **state.info,
                "teacher": lessons,
                "steps": ended.length.astype(reward.dtype),
                "truncation": seen.truncated.astype(reward.dtype),
                "episode_done": done,
                "episode_metrics": _totals(state.info, reward, metrics),
                "final_observation": seen.next_observation,
            },
        )

    def _taught(self, lessons: Lessons, key: Array, ended: Episodes) -> Lessons:
        """Returns the record one control step later, and the teacher, which learns from it where an update is due."""
        episodes = jax.tree.map(
            lambda rows, new: rows.at[lessons.clock].set(new), lessons.episodes, ended
        )
        clock = lessons.clock + 1
        due = clock == self.every

        def update() -> PyTree:
            new, metrics = self.teacher.update(
                lessons.teacher_state, key, flat(episodes), _no_critic
            )
            if self.report is not None:
                jax.debug.callback(self.report, metrics)
            return new

        teacher_state = jax.lax.cond(due, update, lambda: lessons.teacher_state)
        return dataclasses.replace(
            lessons,
            teacher_state=teacher_state,
            episodes=dataclasses.replace(episodes, mask=episodes.mask & ~due),
            clock=jnp.where(due, 0, clock),
        )

    def _assign(
        self, teacher_state: PyTree
    ) -> Callable[[Array, Attempt], tuple[Array, PyTree]]:
        space = self.env.task.context_space
        return lambda key, last: self.teacher.assign(teacher_state, key, space, last)


def _stateless(slots: PyTree) -> PyTree:
    return slots.replace(env_state=())


def _blank(slots: Slot, every: int) -> Episodes:
    """Returns the rows [every, slot] of a record in which nothing is yet."""
    of_slots = Episodes(
        mask=slots.env_state.terminated,
        context=slots.env_state.context,
        first_observation=slots.first_observation,
        episode_return=slots.episode_return,
        discounted_return=slots.discounted_return,
        length=slots.env_state.time_step,
        success=slots.env_state.success,
        ticket=slots.ticket,
    )
    return jax.tree.map(
        lambda leaf: jnp.zeros((every, *leaf.shape), leaf.dtype), of_slots
    )


def _totals(
    info: dict[str, PyTree],
    reward: Float[Array, " slot"],
    metrics: dict[str, Float[Array, " slot"]],
) -> dict[str, Float[Array, " slot"]]:
    """Returns Brax's sums over the episodes so far; what ended in the control step before begins again."""
    going = 1 - info["episode_done"]
    steps = {"sum_reward": reward, "length": jnp.ones_like(reward), **metrics}
    return {
        name: going * info["episode_metrics"][name] + value
        for name, value in steps.items()
    }


def _no_critic(observation: Float[Array, "row observation"]) -> Float[Array, " row"]:
    raise ValueError("Brax's learners keep their critic to themselves")
