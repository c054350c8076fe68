"""Which of a run's checkpoints are the newest that can be read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from spjax.runs.checkpoint import Checkpoints, Kind

_READ_TOGETHER = 256  # lanes, to see whether they can be read


def newest(
    checkpoints: Checkpoints,
    kinds: Mapping[str, Kind],
    active: Callable[[int], Sequence[int]],
    written: Collection[int],
) -> int | None:
    """Returns the newest iteration that these lanes have, all of them and readable; None before there is one.

    Args:
        checkpoints: of the run.
        kinds: of the states.
        active: the lanes that get to an iteration, as far as they are wanted.
        written: the iterations whose results are in the tables.

    Raises:
        ValueError: there are checkpoints, and none can be read.
    """
    saved = checkpoints.iterations()
    for iteration in reversed(saved):
        there, lanes = checkpoints.lanes(iteration), active(iteration)
        through = checkpoints.is_whole(iteration) or iteration in written
        if not (through and there.keys() >= set(lanes)):
            continue
        with suppress(ValueError):
            for start in range(0, len(lanes), _READ_TOGETHER):
                some = lanes[start : start + _READ_TOGETHER]
                checkpoints.restore(iteration, kinds, some)
            return iteration
    if any(map(checkpoints.is_whole, saved)) or (saved and written):
        checkpoints.restore(saved[-1], kinds)  # says why
    return None


def unreadable_after(
    checkpoints: Checkpoints, iteration: int, kinds: Mapping[str, Kind]
) -> list[str]:
    """Returns what is wrong with each file of newer checkpoints that cannot be read."""
    return [
        problem
        for newer in checkpoints.iterations()
        if newer > iteration
        for problem in checkpoints.unreadable(newer, kinds).values()
    ]
