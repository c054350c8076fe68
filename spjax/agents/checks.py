"""The checks of concrete learner settings: one sentence that names the setting, the bound and the value."""

import math
from typing import Any


def check_at_least(agent: Any, least: int, *fields: str, infinite: bool = False) -> None:
    """Raises ValueError where a setting is below `least`, or infinite unless it may be."""
    for field in fields:
        value = getattr(agent, field)
        if not value >= least:
            raise ValueError(f"agent.{field} must be at least {least}, got {value}")
        if not infinite and math.isinf(value):
            raise ValueError(f"agent.{field} must be finite, got {value}")


def check_fractions(agent: Any, *fields: str) -> None:
    """Raises ValueError where a setting is outside [0, 1]."""
    for field in fields:
        if not 0 <= getattr(agent, field) <= 1:
            raise ValueError(f"agent.{field} must lie in [0, 1], got {getattr(agent, field)}")


def check_hidden(agent: Any) -> None:
    """Raises ValueError where a network has no hidden layer or an empty one."""
    if not agent.hidden or min(agent.hidden) < 1:
        raise ValueError(f"agent.hidden needs positive widths, got {agent.hidden}")
