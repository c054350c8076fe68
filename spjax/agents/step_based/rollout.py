"""Environment slots that run for ever: step, record, and start the next episode in a new context.

Whenever a slot finishes it is reset with a context drawn there and then from the teacher, never with a cached first state.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.envs.base import Env, EnvState, contained
from spjax.envs.resets import renewed
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


Seen = tuple[Transitions, Episodes, Bool[Array, "..."]]  # and whether physics failed


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
) -> tuple[Slot, Seen]:
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

    def step(slot_keys: Array, slot: Slot) -> tuple[Slot, Seen, tuple[Array, Array]]:
        key_act, key_env, key_context, key_reset = slot_keys
        action, extras = act(key_act, slot.env_state.observation)
        slot, seen = _advance(env, key_env, slot, action, extras, discount)
        return slot, seen, (key_context, key_reset)

    slots, seen, keys_start = jax.vmap(step)(keys, slots)
    return _restart(env, keys_start, slots, seen, assign), seen


def play_slots(
    env: Env,
    keys: Array,
    slots: Slot,
    actions: Float[Array, "env action"],
    assign: Assign,
    discount: float | Float[Array, ""],
) -> tuple[Slot, Seen]:
    """Steps every slot once as `step_slots` does, with actions that were chosen elsewhere; keys are [B, 3]."""

    def step(
        slot_keys: Array, slot: Slot, action: Array
    ) -> tuple[Slot, Seen, tuple[Array, Array]]:
        key_env, key_context, key_reset = slot_keys
        slot, seen = _advance(env, key_env, slot, action, (), discount)
        return slot, seen, (key_context, key_reset)

    slots, seen, keys_start = jax.vmap(step)(keys, slots, actions)
    return _restart(env, keys_start, slots, seen, assign), seen


def _advance(
    env: Env,
    key: Array,
    slot: Slot,
    action: Float[Array, " action"],
    extras: PyTree,
    discount: float | Float[Array, ""],
) -> tuple[Slot, Seen]:
    """Returns one slot a control step later, not restarted, and what was seen of it."""
    before = slot.env_state
    after, failed = contained(before, env.step(key, before, action))
    slot = dataclasses.replace(
        slot,
        env_state=after,
        episode_return=slot.episode_return + after.reward,
        discounted_return=slot.discounted_return + slot.discount * after.reward,
        discount=slot.discount * discount,
    )
    transition = Transitions(
        observation=before.observation,
        action=action,
        reward=after.reward,
        next_observation=after.observation,
        terminated=after.terminated,
        truncated=after.truncated,
        extras=extras,
    )
    return slot, (transition, _record(slot), failed)


def _restart(
    env: Env, keys: tuple[Array, Array], slots: Slot, seen: Seen, assign: Assign
) -> Slot:
    """Returns the slots, of which those that ended are at the start of their next episode."""

    def start(given: tuple[Array, Array, Attempt]) -> Slot:
        key_context, key_reset, last = given
        return _start(env, key_context, key_reset, assign, last)

    after = slots.env_state
    last = Attempt(ticket=slots.ticket, context=after.context, success=after.success)
    _, episodes, _ = seen
    return renewed(start, (*keys, last), episodes.mask, slots, env.costly_reset)


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


def _record(slot: Slot) -> Episodes:
    state = slot.env_state
    return Episodes(
        mask=state.terminated | state.truncated,
        context=state.context,
        first_observation=slot.first_observation,
        episode_return=slot.episode_return,
        discounted_return=slot.discounted_return,
        length=state.time_step,
        success=state.success,
        ticket=slot.ticket,
    )
