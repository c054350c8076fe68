"""Numbers as a report holds them: few digits, and null where there is none."""

import math
from collections.abc import Iterable, Sequence
from typing import SupportsFloat

import numpy as np

DIGITS = 5  # significant ones


def number(value: SupportsFloat | None, digits: int = DIGITS) -> float | None:
    """Returns a number to so many significant digits; None where it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{float(value):.{digits}g}")


def numbers(
    values: Iterable[SupportsFloat | None], digits: int = DIGITS
) -> list[float | None]:
    """Returns each of them so."""
    return [number(value, digits) for value in values]


def inside(
    points: np.ndarray, lower: Sequence[float], upper: Sequence[float]
) -> list[object]:
    """Returns points [..., dim] to a thousandth of the range of their dimension, which no picture shows any better."""
    places = [
        3 - math.floor(math.log10(high - low)) if high > low else 3
        for low, high in zip(lower, upper, strict=True)
    ]
    columns = [
        np.asarray(points)[..., k].round(place) for k, place in enumerate(places)
    ]
    rounded: list[object] = np.stack(columns, axis=-1).tolist()
    return rounded


def spread_out(count: int, most: int) -> np.ndarray:
    """Returns up to `most` of the positions 0 ... count - 1, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
