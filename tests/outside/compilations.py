"""Counts what is compiled, by the events that JAX reports."""

import contextlib

import jax

_EVENTS: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **more: _EVENTS.append(name)
)


@contextlib.contextmanager
def no_compilation():
    """Fails where anything is compiled inside."""
    before = len(_EVENTS)
    yield
    assert not _compiled(before)


def counts_something():
    """Says whether the count notices a compilation."""
    before = len(_EVENTS)
    jax.jit(lambda x: x + 1)(1.0)
    return bool(_compiled(before))


def _compiled(before):
    return [name for name in _EVENTS[before:] if "backend_compile" in name]
