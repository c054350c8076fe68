"""Names to constructors, with an answer to a name that is not among them."""

import difflib
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """What `make` knows of one kind of thing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # what error messages call it
        self._constructors: dict[str, Callable[[], T]] = {}

    def register(self, name: str, constructor: Callable[[], T]) -> None:
        """Makes a constructor known by a name."""
        self._constructors[name] = constructor

    def names(self) -> tuple[str, ...]:
        """Returns all registered names."""
        return tuple(self._constructors)

    def make(self, name: str) -> T:
        """Returns what the constructor of this name makes.

        Raises:
            ValueError: no such name; the message has the nearest one.
        """
        if name not in self._constructors:
            near = difflib.get_close_matches(name, self._constructors, n=1, cutoff=0.4)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(self._constructors)}"
            raise ValueError(f"unknown {self.kind} {name!r}{hint}")
        return self._constructors[name]()
