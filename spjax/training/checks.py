"""Checks of what a run is told in plain numbers, each one sentence."""

import numbers
from collections.abc import Iterable, Sequence

from spjax import settings
from spjax.settings import Value


def several(name: str, values: object) -> tuple[Value, ...]:
    """Returns values as a tuple in the types of Python; raises ValueError where it is one alone."""
    values = settings.plain(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(
            f"{name} needs several values, such as ({values!r},), got {values!r}"
        )
    return tuple(map(settings.plain, values))


def check_count(name: str, value: object) -> None:
    """Checks a whole number of at least 1; raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def check_seeds(seeds: Sequence[Value]) -> None:
    """Checks that they are different whole numbers of 32 bits; raises ValueError."""
    if not seeds:
        raise ValueError("at least one seed is needed, got none")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
            raise ValueError(f"seeds must be whole numbers, got {seed!r}")
    if min(seeds) < 0 or max(seeds) >= 2**32:
        raise ValueError(f"seeds must lie in [0, 2^32), got {min(seeds)}..{max(seeds)}")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"each seed may be given once, got {list(seeds)}")
