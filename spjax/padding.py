"""Arrays from outside of compiled programs, filled up to a few lengths, so that a new number of rows compiles nothing."""

import numpy as np
from jaxtyping import Shaped

LEAST = 1024  # rows; what has no more of them shares one compiled program
GROWTH = 4  # between a length and the next longer one


def padded_length(count: int) -> int:
    """Returns the length that so many rows are filled up to: 1,024, 4,096, 16,384, ..."""
    length = LEAST
    while length < count:
        length *= GROWTH
    return length


def padded(rows: Shaped[np.ndarray, "..."], length: int) -> Shaped[np.ndarray, "..."]:
    """Returns the rows of an array, and zeros after them."""
    missing = length - len(rows)
    return np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1))
