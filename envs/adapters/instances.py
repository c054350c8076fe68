"""Instances of a step-based task whose episodes start when the caller says, with NumPy arrays in and out."""

import functools
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32
from numpy.typing import ArrayLike

from spjax.contexts import ContextDistribution, ContextSpace
from spjax.envs.base import Env, EnvState, contained
from spjax.trees import as_leaves, node_types

# how many -> contexts [count, dim], or a distribution of them
Source: TypeAlias = ContextDistribution | Callable[[int], ArrayLike]

_RESET, _CONTEXT = (
    0,
    2**32 - 1,
)  # folded into an episode's key; control steps are between
Functions = tuple[Callable[..., EnvState], Callable[..., EnvState]]


class Instances:
    """So many instances; what their last step or reset gave is in NumPy arrays of its own, which nothing overwrites."""

    def __init__(self, task: Env, count: int, contexts: Source | None) -> None:
        """Makes them; raises ValueError for no step-based task, or fewer than one."""
        if not isinstance(task, Env):
            raise ValueError(f"task must be a step-based task, got {task!r}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(
                f"num_envs must be a whole number of at least 1, got {count!r}"
            )
        self.space: ContextSpace = task.context_space
        self._task: Env = as_leaves(task)
        self._count = count
        self._source = as_leaves(task.target) if contexts is None else contexts
        options = tuple(sorted(task.compiler_options.items()))
        self._reset, self._step = _compiled(options, node_types(self._task))
        self._numbers = np.zeros(count, np.uint32)
        self._states: EnvState | None = None

    def reset(
        self,
        mask: Bool[np.ndarray, " env"],
        numbers: UInt32[np.ndarray, " env"],
        contexts: Float[np.ndarray, "env dim"] | None,
    ) -> None:
        """Starts an episode where the mask says; the first time it must say so everywhere.

        Args:
            mask: where to.
            numbers: what makes each episode.
            contexts: of the episodes; None for those of the source.

        Raises:
            ValueError: the source gave contexts of another shape, or outside the bounds.
        """
        self._numbers = np.where(mask, numbers, self._numbers)
        if contexts is None:
            contexts = self._drawn(mask)
        with jax.enable_x64(False):
            self._states = self._reset(
                self._task, self._numbers, contexts, mask, self._states
            )
        self._fetch()

    def step(self, actions: Float[np.ndarray, "env action"]) -> None:
        """Steps all of them."""
        with jax.enable_x64(False):
            self._states = self._step(self._task, self._numbers, self._states, actions)
        self._fetch()

    def _fetch(self) -> None:
        states = self._states
        assert states is not None
        self.observations = np.array(states.observation)
        self.rewards = np.array(states.reward, np.float64)
        self.terminated = np.array(states.terminated)
        self.truncated = np.array(states.truncated)
        self.successes = np.array(states.success)
        self.contexts = np.array(states.context)

    def _drawn(self, mask: Bool[np.ndarray, " env"]) -> Float[np.ndarray, "env dim"]:
        if isinstance(self._source, ContextDistribution):
            with jax.enable_x64(False):
                drawn = _draw(
                    self._source, self._numbers, self.space, node_types(self._source)
                )
            return np.asarray(drawn)
        count = int(mask.sum())
        given = np.asarray(self._source(count), np.float32)
        if given.shape != (count, self.space.size):
            raise ValueError(
                f"the source of contexts must give shape ({count}, {self.space.size}), got {given.shape}"
            )
        for index, context in enumerate(given):
            self.space.check(context.tolist(), f"context {index} of the source")
        contexts = np.zeros((self._count, self.space.size), np.float32)
        contexts[mask] = given
        return contexts


@functools.cache
def _compiled(
    options: tuple[tuple[str, bool], ...], types: tuple[type | None, ...]
) -> Functions:
    """Returns the functions that reset and step tasks of these types, compiled with these options."""

    def reset(
        task: Env,
        numbers: UInt32[Array, " env"],
        contexts: Float[Array, "env dim"],
        mask: Bool[Array, " env"],
        before: EnvState | None,
    ) -> EnvState:
        fresh = jax.vmap(lambda n, c: task.reset(_key(n, _RESET), c))(numbers, contexts)
        if before is None:
            return fresh

        def choose(new: Array, old: Array) -> Array:
            rows = mask.reshape(-1, *[1] * (new.ndim - 1))
            return jnp.where(rows, new, old)

        return jax.tree.map(choose, fresh, before)

    def step(
        task: Env,
        numbers: UInt32[Array, " env"],
        states: EnvState,
        actions: Float[Array, "env action"],
    ) -> EnvState:
        def one(number: Array, state: EnvState, action: Array) -> EnvState:
            key = _key(number, state.time_step.astype(jnp.uint32) + 1)
            return contained(state, task.step(key, state, action))[0]

        return jax.vmap(one)(numbers, states, actions)

    compile = functools.partial(jax.jit, compiler_options=dict(options))
    return compile(reset), compile(step)


@functools.partial(jax.jit, static_argnames=("space", "types"))
def _draw(
    source: ContextDistribution,
    numbers: UInt32[Array, " env"],
    space: ContextSpace,
    types: tuple[type | None, ...],
) -> Float[Array, "env dim"]:
    return jax.vmap(lambda n: source.sample(_key(n, _CONTEXT), space))(numbers)


def _key(number: UInt32[Array, ""], purpose: int | UInt32[Array, ""]) -> Array:
    return jax.random.fold_in(jax.random.key(number), jnp.uint32(purpose))
