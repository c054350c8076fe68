"""The compiled functions of a teacher that is driven from outside.

One call of each compiles for all that follow: settings are traced, contexts are drawn `BLOCK` at a time, and episodes are filled
up (`spjax.padding`). Each draw and each update has a number, which makes its key, so contexts do not depend on how many are asked
for at once. All is in single precision, whatever ``JAX_ENABLE_X64`` says.
"""

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, UInt32

from spjax.contexts import ContextSpace
from spjax.episodes import Attempt, Episodes
from spjax.teachers import Teacher
from spjax.trees import all_finite, with_keys, without_keys

BLOCK = 64  # contexts drawn at once; one costs about as much

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


@dataclasses.dataclass(frozen=True)
class Fixed:
    """What is compiled into the functions, beside the teacher's own static settings."""

    space: ContextSpace
    types: tuple[type | None, ...]  # of the teacher, see `spjax.trees.node_types`


class Stream(enum.IntEnum):
    """What keys are for."""

    INIT = 0
    DRAWS = 1
    UPDATES = 2


def in_single_precision(
    function: Callable[Given, Returned],
) -> Callable[Given, Returned]:
    """Returns the function with 64-bit types switched off."""

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        with jax.enable_x64(False):
            return function(*args, **kwargs)

    return call


@in_single_precision
@functools.partial(jax.jit, static_argnames="fixed")
def start(teacher: Teacher, seed: UInt32[Array, ""], fixed: Fixed) -> PyTree:
    """Returns the teacher's first state, keys in it as plain numbers."""
    return without_keys(teacher.init(_key(seed, Stream.INIT), fixed.space))


@in_single_precision
@functools.partial(jax.jit, static_argnames="fixed")
def draw(
    teacher: Teacher,
    state: PyTree,
    seed: UInt32[Array, ""],
    first: UInt32[Array, ""],
    last: Attempt,
    fixed: Fixed,
) -> tuple[Float[Array, "block dim"], PyTree]:
    """Returns the contexts and tickets of draws number `first` and following, one for each attempt [block] of ``last``."""
    state = _with_keys(teacher, state, fixed.space)
    key = _key(seed, Stream.DRAWS)

    def one(offset: Array, last: Attempt) -> tuple[Array, PyTree]:
        key_draw = jax.random.fold_in(key, first + offset)
        return teacher.assign(state, key_draw, fixed.space, last)

    return jax.vmap(one)(jnp.arange(BLOCK, dtype=jnp.uint32), last)


@in_single_precision
@functools.partial(jax.jit, static_argnames=("fixed", "count"))
def draw_batch(
    teacher: Teacher,
    state: PyTree,
    seed: UInt32[Array, ""],
    first: UInt32[Array, ""],
    fixed: Fixed,
    count: int,
) -> tuple[Float[Array, "count dim"], PyTree]:
    """Returns the contexts and tickets of a whole batch, of teachers that compose one; compiles for each count."""
    state = _with_keys(teacher, state, fixed.space)
    key_batch = jax.random.fold_in(_key(seed, Stream.DRAWS), first)
    return teacher.batch(state, key_batch, fixed.space, count)


@in_single_precision
@functools.partial(jax.jit, static_argnames="fixed")
def learn(
    teacher: Teacher,
    state: PyTree,
    seed: UInt32[Array, ""],
    number: UInt32[Array, ""],
    episodes: Episodes,
    fixed: Fixed,
) -> tuple[PyTree, PyTree, Bool[Array, ""]]:
    """Returns the state after update `number`, its metrics, and whether all numbers of the state are finite."""
    key = jax.random.fold_in(_key(seed, Stream.UPDATES), number)
    state = _with_keys(teacher, state, fixed.space)
    state, metrics = teacher.update(state, key, episodes, _no_critic)
    return without_keys(state), metrics, all_finite(state)


def _key(seed: UInt32[Array, ""], stream: Stream) -> Array:
    return jax.random.fold_in(jax.random.key(seed), stream)


def _with_keys(teacher: Teacher, state: PyTree, space: ContextSpace) -> PyTree:
    like = jax.eval_shape(lambda: teacher.init(jax.random.key(0), space))
    return with_keys(state, like)


def _no_critic(observation: Array) -> Array:
    raise ValueError("there is no critic outside of spjax")
