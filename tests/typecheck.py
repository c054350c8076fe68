"""The run-time type checker of the suite: jaxtyping with beartype, on functions."""

from collections.abc import Callable
from typing import Any

from beartype import beartype


def functions_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks a function; leaves dataclass constructors alone, through which batched and abstract pytrees pass."""
    return function if "__init__" in function.__qualname__ else beartype(function)
