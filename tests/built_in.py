"""The parts of spjax itself; other tests of a process may have registered more."""

from spjax import catalogue


def built_in(kind: str) -> tuple[str, ...]:
    """Returns the names of a kind whose class is in the package."""
    return tuple(
        name
        for name in catalogue.names(kind)
        if catalogue.find(kind, name).cls.__module__.startswith("spjax.")
    )
