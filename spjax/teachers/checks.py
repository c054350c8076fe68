"""Checks of settings that several curricula share."""

import numbers
from typing import Any


def check_whole(field: str, value: Any, least: int) -> None:
    """Raises ValueError with one clear sentence where a setting is not a whole number of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"teacher.{field} must be a whole number of at least {least}, got {value}")
