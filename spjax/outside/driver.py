"""The compiled functions of one teacher, with rows on the host in and out."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from spjax.contexts import ContextSpace
from spjax.episodes import Attempt, Episodes
from spjax.outside import programs
from spjax.outside.rows import Row, stacked, unstacked
from spjax.padding import padded, padded_length
from spjax.teachers import Teacher
from spjax.trees import node_types

_ANY = np.uint32(0)  # a seed or a number, where only shapes are asked for


@dataclasses.dataclass(frozen=True)
class Ahead:
    """Rows that were drawn before anybody asked; good for as long as the teacher's state is this very one."""

    state: PyTree
    seed: np.uint32
    first: int  # number of the first draw
    rows: list[Row]

    def among(self, state: PyTree, seed: np.uint32, number: int) -> Row | None:
        """Returns the row of a draw, None where it is not among them."""
        index = number - self.first
        if state is not self.state or seed != self.seed:
            return None
        return self.rows[index] if 0 <= index < len(self.rows) else None


class Driver:
    """Calls them; what the teacher has become is the caller's, a pytree without typed keys."""

    def __init__(self, teacher: Teacher, space: ContextSpace) -> None:
        """Traces init and a draw, so that what is wrong with the teacher shows at once; raises ValueError then."""
        self._teacher = teacher
        self._space = space
        self._fixed = programs.Fixed(space, node_types(teacher))
        leaves, self._ticket = jax.tree.flatten(self._blank_ticket())
        self.blank = Row(
            np.zeros(space.size, np.float32),
            np.zeros((), np.float32),
            np.zeros((), bool),
            tuple(map(np.asarray, leaves)),
        )
        self._unasked = Ahead(None, _ANY, 0, [])

    @property
    def composes(self) -> bool:
        """Whether the teacher makes whole batches only."""
        return "slots" not in self._teacher.collects

    def start(self, seed: np.uint32) -> PyTree:
        """Returns the first state."""
        return programs.start(self._teacher, seed, fixed=self._fixed)

    def draw(
        self,
        state: PyTree,
        seed: np.uint32,
        first: int,
        count: int,
        waiting: list[Row],
    ) -> list[Row]:
        """Returns draws number `first` and following; while episodes wait, each follows on one, which is taken from the left."""
        if not self._teacher.follows_on:
            del waiting[:count]
            return [self._one(state, seed, first + index) for index in range(count)]
        rows: list[Row] = []
        while len(rows) < count:
            wanted = min(programs.BLOCK, count - len(rows))
            follows = waiting[:wanted]
            del waiting[:wanted]
            rows += self._block(state, seed, first + len(rows), follows)[:wanted]
        return rows

    def batch(
        self, state: PyTree, seed: np.uint32, first: int, count: int
    ) -> list[Row]:
        """Returns a batch that the teacher composes; raises ValueError where it cannot make one of this size."""
        self._teacher.check_batch(count)
        number = _wrapped(first)
        return _rows(
            *programs.draw_batch(
                self._teacher, state, seed, number, fixed=self._fixed, count=count
            )
        )

    def learn(
        self, state: PyTree, seed: np.uint32, number: int, rows: Sequence[Row]
    ) -> tuple[PyTree, PyTree, bool]:
        """Returns the state after update `number` from these episodes, its metrics, and whether the state is finite."""
        state, metrics, finite = programs.learn(
            self._teacher,
            state,
            seed,
            _wrapped(number),
            self._episodes(rows),
            fixed=self._fixed,
        )
        return state, metrics, bool(finite)

    def _one(self, state: PyTree, seed: np.uint32, number: int) -> Row:
        """Returns one draw that follows on nothing, and keeps the rest of its block for the next time."""
        row = self._unasked.among(state, seed, number)
        if row is None:
            rows = self._block(state, seed, number, [])
            self._unasked = Ahead(state, seed, number, rows)
            row = rows[0]
        return row

    def _block(
        self, state: PyTree, seed: np.uint32, first: int, follows: list[Row]
    ) -> list[Row]:
        contexts, tickets = programs.draw(
            self._teacher,
            state,
            seed,
            _wrapped(first),
            self._attempts(follows),
            fixed=self._fixed,
        )
        return _rows(contexts, tickets)

    def _blank_ticket(self) -> PyTree:
        """Returns the ticket of an episode that never was."""
        space, fixed = self._space, self._fixed
        start = functools.partial(programs.start, fixed=fixed)
        state = jax.eval_shape(start, self._teacher, _ANY)
        known = (self._teacher, state, _ANY, _ANY)
        if self.composes:
            batch = functools.partial(
                programs.draw_batch, fixed=fixed, count=programs.BLOCK
            )
            _, tickets = jax.eval_shape(batch, *known)
            return jax.tree.map(
                lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), tickets
            )
        ticket = self._teacher.ticket(space)
        last = Attempt(ticket, jnp.zeros(space.size), jnp.zeros((), bool))
        many = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (programs.BLOCK, *leaf.shape)), last
        )
        jax.eval_shape(functools.partial(programs.draw, fixed=fixed), *known, many)
        return ticket

    def _attempts(self, follows: list[Row]) -> Attempt:
        blank = [self.blank] * (programs.BLOCK - len(follows))
        last = stacked([*follows, *blank], self.blank)
        return Attempt(
            self._tree(last.ticket),
            jnp.asarray(last.context),
            jnp.asarray(last.success),
        )

    def _episodes(self, rows: Sequence[Row]) -> Episodes:
        """Returns the episodes, filled up."""
        count = len(rows)
        length = padded_length(count)
        columns = stacked(rows, self.blank)
        total = jnp.asarray(padded(columns.episode_return, length))
        return Episodes(
            mask=jnp.asarray(np.arange(length) < count),
            context=jnp.asarray(padded(columns.context, length)),
            first_observation=jnp.zeros((length, 0), jnp.float32),
            episode_return=total,
            discounted_return=total,
            length=jnp.zeros(length, jnp.int32),
            success=jnp.asarray(padded(columns.success, length)),
            ticket=self._tree(tuple(padded(leaf, length) for leaf in columns.ticket)),
        )

    def _tree(self, ticket: tuple[np.ndarray, ...]) -> PyTree:
        return jax.tree.unflatten(self._ticket, ticket)


def _rows(contexts: PyTree, tickets: PyTree) -> list[Row]:
    contexts = np.asarray(contexts)
    zeros = np.zeros(len(contexts), np.float32)
    ticket = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(tickets))
    return unstacked(Row(contexts, zeros, zeros.astype(bool), ticket))


def _wrapped(number: int) -> np.uint32:
    return np.uint32(number % 2**32)
