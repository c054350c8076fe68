"""What a teacher refuses to be told, each in one sentence."""

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from spjax.contexts import ContextSpace

# NumPy arrays and what can become one
Numbers: TypeAlias = ArrayLike | Sequence[float] | Sequence[Sequence[float]]


def count_of(count: object, name: str = "the number of contexts") -> int:
    """Returns a count; raises ValueError where it is not a whole number of at least 1."""
    if not _is_whole(count) or count < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}")
    return int(count)


def seed_of(seed: object) -> np.uint32:
    """Returns a seed; raises ValueError where it is not a whole number in [0, 2^32)."""
    if not _is_whole(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number in [0, 2^32), got {seed!r}")
    return np.uint32(seed)


def contexts_of(contexts: Numbers, space: ContextSpace) -> np.ndarray:
    """Returns contexts [row, dim] in single precision.

    Raises:
        ValueError: another shape, no row, or a context that is not finite or outside the space.
    """
    array = _numbers("contexts", contexts)
    if array.ndim != 2 or array.shape[1] != space.size or not len(array):
        names = ", ".join(space.names)
        raise ValueError(
            f"contexts must have shape (n, {space.size}), {names} of at least one episode, got {array.shape}"
        )
    rounded = array.astype(np.float32)
    lower, upper = (np.asarray(side, np.float32) for side in (space.lower, space.upper))
    inside = ((rounded >= lower) & (rounded <= upper)).all(axis=1)  # False for NaN too
    if not inside.all():
        row = int(np.argmin(inside))
        space.check(array[row].tolist(), f"contexts[{row}]")
    return rounded


def returns_of(returns: Numbers, count: int) -> np.ndarray:
    """Returns one finite number an episode; raises ValueError as `contexts_of`."""
    array = _numbers("returns", returns)
    _check_length("returns", array, count)
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    if not np.isfinite(rounded).all():
        row = int(np.argmin(np.isfinite(rounded)))
        raise ValueError(f"returns must be finite, got returns[{row}] = {array[row]}")
    return rounded


def successes_of(successes: Numbers, count: int) -> np.ndarray:
    """Returns one truth value an episode; raises ValueError as `contexts_of`."""
    array = _numbers("successes", successes)
    _check_length("successes", array, count)
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"successes must be True or False, got successes[{row}] = {array[row]}"
        )
    return array.astype(bool)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _numbers(name: str, values: Numbers) -> np.ndarray:
    try:
        array = np.asarray(values)
        return array if array.dtype == bool else array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be an array of numbers, got {type(values).__name__}"
        ) from None


def _check_length(name: str, array: np.ndarray, count: int) -> None:
    if array.shape != (count,):
        raise ValueError(
            f"{name} must have shape ({count},), one entry a context, got {array.shape}"
        )
