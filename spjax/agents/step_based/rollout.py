"""Environment slots that run for ever: step, record, and start the next episode in a new context.

Whenever a slot finishes it is reset with a context drawn there and then from the teacher, never with a cached first state.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.envs.base import Env, EnvState, contain
from spjax.episodes import Attempt, Episodes

Assign = Callable[[Array, Attempt], tuple[Float[Array, " dim"], PyTree]]
Act = Callable[
    [Array, Float[Array, " observation"]], tuple[Float[Array, " action"], PyTree]
]


@struct.dataclass
class Slot:
    """One environment slot and the running record of its episode; batched to [B, ...] by the functions below."""

    env_state: EnvState
    ticket: PyTree  # the teacher's own note on the episode
    first_observation: Float[Array, " observation"]
    episode_return: Float[Array, ""]
    discounted_return: Float[Array, ""]
    discount: Float[Array, ""]  # gamma ** steps so far


@struct.dataclass
class Transitions:
    """What a learner sees of a rollout, [T, B, ...]."""

    observation: Float[Array, "time env observation"]
    action: Float[Array, "time env action"]  # unclipped
    reward: Float[Array, "time env"]
    next_observation: Float[Array, "time env observation"]  # before any reset
    terminated: Bool[Array, "time env"]
    truncated: Bool[Array, "time env"]
    extras: PyTree  # what `act` returned beside the action


def init_slots(
    env: Env, key: Array, num_envs: int, assign: Assign, ticket: PyTree
) -> Slot:
    """Returns `num_envs` freshly reset slots, each in a context of its own.

    Args:
        env: the task.
        key: for contexts and resets.
        num_envs: B.
        assign: (key, last attempt) -> (context, ticket), from the teacher.
        ticket: the teacher's blank ticket, of the attempt that never was.
    """
    keys = jax.random.split(key, (num_envs, 2))
    never = Attempt(
        ticket=ticket,
        context=jnp.zeros(env.context_space.size),
        success=jnp.asarray(False),
    )
    return jax.vmap(lambda pair: _start(env, pair[0], pair[1], assign, never))(keys)


def rollout(
    env: Env,
    key: Array,
    slots: Slot,
    act: Act,
    assign: Assign,
    num_steps: int,
    discount: float | Float[Array, ""],
) -> tuple[Slot, Transitions, Episodes, Int[Array, ""]]:
    """Runs every slot for `num_steps` control steps.

    Args:
        env: the task.
        key: for actions, noise, resets and contexts.
        slots: [B] slots to go on from.
        act: (key, observation) -> (action, extras), for one slot.
        assign: (key, last attempt) -> (context, ticket), from the teacher's current distribution.
        num_steps: control steps for each slot.
        discount: gamma, of the recorded discounted returns.

    Returns:
        the slots, transitions [T, B, ...], episodes as T * B masked rows, and the number of non-finite ends.
    """

    def environment_step(slots: Slot, keys: Array) -> tuple[Slot, PyTree]:
        return step_slots(env, keys, slots, act, assign, discount)

    keys = step_keys(key, num_steps, slots)
    slots, (transitions, episodes, failed) = jax.lax.scan(environment_step, slots, keys)
    return slots, transitions, flat(episodes), failed.sum()


def step_keys(key: Array, num_steps: int, slots: Slot) -> Array:
    """Returns the keys [T, B, 4] of a rollout, all at once: small batches of keys cost more."""
    return jax.random.split(key, (num_steps, slots.discount.shape[0], 4))


def flat(tree: PyTree) -> PyTree:
    """Returns the tree with its two leading axes, time and slot, made one."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def step_slots(
    env: Env,
    keys: Array,
    slots: Slot,
    act: Act,
    assign: Assign,
    discount: float | Float[Array, ""],
) -> tuple[Slot, tuple[Transitions, Episodes, Bool[Array, " env"]]]:
    """Steps every slot once; one that finishes is recorded and starts its next episode at once.

    A slot whose physics turn non-finite ends there as terminated, with reward 0 and its last finite observation.

    Args:
        env: the task.
        keys: [B, 4], see `step_keys`.
        slots: [B].
        act: as for `rollout`.
        assign: as for `rollout`.
        discount: as for `rollout`.

    Returns:
        the slots, and of each slot its transition, its episode if one ended, and whether the physics failed.
    """

    def step(
        slot_keys: Array, slot: Slot
    ) -> tuple[Slot, tuple[Transitions, Episodes, Bool[Array, ""]]]:
        key_act, key_env, key_context, key_reset = slot_keys
        before = slot.env_state
        action, extras = act(key_act, before.observation)
        after, failed = contain(before, env.step(key_env, before, action))
        slot = dataclasses.replace(
            slot,
            env_state=after,
            episode_return=slot.episode_return + after.reward,
            discounted_return=slot.discounted_return + slot.discount * after.reward,
            discount=slot.discount * discount,
        )
        ended = after.terminated | after.truncated
        transition = Transitions(
            observation=before.observation,
            action=action,
            reward=after.reward,
            next_observation=after.observation,
            terminated=after.terminated,
            truncated=after.truncated,
            extras=extras,
        )
        last = Attempt(ticket=slot.ticket, context=after.context, success=after.success)
        fresh = _start(env, key_context, key_reset, assign, last)
        next_slot = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), fresh, slot
        )
        return next_slot, (transition, _record(slot, ended), failed)

    return jax.vmap(step)(keys, slots)


def _start(
    env: Env, key_context: Array, key_reset: Array, assign: Assign, last: Attempt
) -> Slot:
    context, ticket = assign(key_context, last)
    env_state = env.reset(key_reset, context)
    zero = jnp.zeros_like(env_state.reward)
    return Slot(
        env_state=env_state,
        ticket=ticket,
        first_observation=env_state.observation,
        episode_return=zero,
        discounted_return=zero,
        discount=jnp.ones_like(zero),
    )


def _record(slot: Slot, ended: Bool[Array, ""]) -> Episodes:
    return Episodes(
        mask=ended,
        context=slot.env_state.context,
        first_observation=slot.first_observation,
        episode_return=slot.episode_return,
        discounted_return=slot.discounted_return,
        length=slot.env_state.time_step,
        success=slot.env_state.success,
        ticket=slot.ticket,
    )
