"""The checks of concrete settings: one sentence that names the setting, the bound and the value.

`part` says whose settings they are: "agent", "teacher" or "env".
"""

import math
import numbers
from typing import Any


def check_at_least(part: str, settings: Any, least: int, *fields: str, infinite: bool = False) -> None:
    """Raises ValueError where a setting is below `least`, or infinite unless it may be."""
    for field in fields:
        value = getattr(settings, field)
        if not value >= least:
            raise ValueError(f"{part}.{field} must be at least {least}, got {value}")
        if not infinite and math.isinf(value):
            raise ValueError(f"{part}.{field} must be finite, got {value}")


def check_fractions(part: str, settings: Any, *fields: str) -> None:
    """Raises ValueError where a setting is outside [0, 1]."""
    for field in fields:
        if not 0 <= getattr(settings, field) <= 1:
            raise ValueError(f"{part}.{field} must lie in [0, 1], got {getattr(settings, field)}")


def check_whole(part: str, settings: Any, least: int, *fields: str) -> None:
    """Raises ValueError where a setting, or one of those of a tuple, is not a whole number of at least `least`."""
    for field in fields:
        value = getattr(settings, field)
        for number in value if isinstance(value, tuple) else (value,):
            if not isinstance(number, numbers.Integral) or isinstance(number, bool) or number < least:
                raise ValueError(f"{part}.{field} must be a whole number of at least {least}, got {number}")
