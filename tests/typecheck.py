"""The run-time type checker of the suite: jaxtyping with beartype, on functions."""

from collections.abc import Callable
from typing import Any, Self

from beartype import beartype


def functions_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks a function; leaves dataclass constructors alone, through which batched and abstract pytrees pass.

    ``Self`` means nothing to a function without its class, so those that say it are left alone, too.
    """
    constructs = "__init__" in function.__qualname__
    says_self = Self in function.__annotations__.values()
    return function if constructs or says_self else beartype(function)
