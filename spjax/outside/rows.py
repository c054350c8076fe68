"""Contexts that were handed out, and what became of them: kept on the host until the teacher has learned from them."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Numbers = np.ndarray


class Row(NamedTuple):
    """One context, or an array of each where there are several."""

    context: Numbers  # [dim], context units
    episode_return: Numbers  # 0 until the episode has ended
    success: Numbers  # False until then
    ticket: tuple[Numbers, ...]  # the leaves of the teacher's own note

    def named(self) -> dict[str, Numbers]:
        """Returns the arrays by name."""
        tickets = {f"ticket/{i}": leaf for i, leaf in enumerate(self.ticket)}
        return {
            "context": self.context,
            "episode_return": self.episode_return,
            "success": self.success,
            **tickets,
        }


def stacked(rows: Sequence[Row], blank: Row) -> Row:
    """Returns rows as one, each array [row, ...]; ``blank`` says what they are where there are none."""
    arrays = [
        np.stack(leaves).astype(like.dtype)
        if leaves
        else np.zeros((0, *like.shape), like.dtype)
        for like, *leaves in zip(_leaves(blank), *map(_leaves, rows), strict=True)
    ]
    return _of(arrays)


def unstacked(rows: Row) -> list[Row]:
    """Returns the rows of arrays [row, ...]."""
    leaves = _leaves(rows)
    return [_of([leaf[i, ...] for leaf in leaves]) for i in range(len(leaves[0]))]


def from_named(arrays: Mapping[str, Numbers], blank: Row) -> list[Row]:
    """Returns the rows that `Row.named` named."""
    return unstacked(_of([arrays[name] for name in blank.named()]))


def _leaves(row: Row) -> list[Numbers]:
    return list(row.named().values())


def _of(leaves: Sequence[Numbers]) -> Row:
    context, episode_return, success, *ticket = leaves
    return Row(context, episode_return, success, tuple(ticket))


class Ledger:
    """Rows that were handed out and not told yet, by their context; the oldest are forgotten where they become too many."""

    def __init__(self, limit: int, rows: Iterable[Row] = ()) -> None:
        self._limit = limit
        self._rows: dict[int, Row] = {}  # oldest first, by a number of their own
        self._numbers: defaultdict[bytes, deque[int]] = defaultdict(deque)
        self._next = 0
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def add(self, row: Row) -> None:
        """Notes that this row was handed out."""
        self._rows[self._next] = row
        self._numbers[_bits(row.context)].append(self._next)
        self._next += 1
        if len(self._rows) > self._limit:
            self.take(next(iter(self._rows.values())).context)

    def unknown(self, contexts: Numbers) -> int | None:
        """Returns the first of these contexts [row, dim] that was not handed out, or not so often; None where all were."""
        seen: Counter[bytes] = Counter()
        for index, context in enumerate(contexts):
            bits = _bits(context)
            seen[bits] += 1
            if seen[bits] > len(self._numbers.get(bits, ())):
                return index
        return None

    def take(self, context: Numbers) -> Row:
        """Returns the oldest row with this context, which must be known, and forgets it."""
        bits = _bits(context)
        numbers = self._numbers[bits]
        row = self._rows.pop(numbers.popleft())
        if not numbers:
            del self._numbers[bits]
        return row


def _bits(context: Numbers) -> bytes:
    return (context + 0.0).tobytes()  # -0.0 is 0.0
