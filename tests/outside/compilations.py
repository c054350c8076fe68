"""Counts what is compiled, by the events that JAX reports."""

import contextlib

import jax

_EVENTS: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **more: _EVENTS.append(name)
)


@contextlib.contextmanager
def no_compilation():
    """Fails where anything is traced or compiled inside."""
    before = len(_EVENTS)
    yield
    found = [name for name in _EVENTS[before:] if "/compile/" in name]
    assert not found, found


def counts_something():
    """Says whether the count notices a compilation."""
    before = len(_EVENTS)
    jax.jit(lambda x: x + 1)(1.0)
    return any("/compile/" in name for name in _EVENTS[before:])
