"""Leave to promote dtypes and ranks for libraries that do so silently, where JAX is told to refuse it."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def lenient() -> Iterator[None]:
    """Traces under JAX's own rules of promotion, whatever a caller demands; for a call into a library and nothing else.

    As a decorator, ``lenient()(function)``, it does so at each call.
    """
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield
