"""The processor cores that this process may use, and who uses them now."""

import contextlib
import os
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_most: int | None = None  # cores that this process uses
_num_working = 0  # lanes that compute at this moment, of all trainings of this process


def num_cores() -> int:
    """Returns how many there are; fewer than the machine has where the process is bound to some of them."""
    there = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    return there if _most is None else min(there, _most)


def use_at_most(number: int) -> None:
    """Leaves the other cores to other processes."""
    global _most
    _most = number


@contextlib.contextmanager
def working(num_lanes: int) -> Iterator[None]:
    """Says that so many lanes compute, each on a core of its own, until the context is left."""
    _add(num_lanes)
    try:
        yield
    finally:
        _add(-num_lanes)


def share_of_cores() -> int:
    """Returns how many cores a lane may use now; all of them where no lane computes."""
    return max(1, num_cores() // max(1, _num_working))


def _add(num_lanes: int) -> None:
    global _num_working
    with _lock:
        _num_working += num_lanes
