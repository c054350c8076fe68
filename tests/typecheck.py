"""The run-time type checker of the suite: jaxtyping with beartype, on functions."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

CHECK = beartype(conf=BeartypeConf(is_pep484_tower=True))


def functions_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks a function; leaves dataclass constructors alone, through which batched and abstract pytrees pass."""
    unchecked = "__init__" in function.__qualname__ or "Self" in str(
        function.__annotations__
    )
    return function if unchecked else CHECK(function)
