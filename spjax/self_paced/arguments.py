"""What a context update refuses: wrong shapes always, wrong values where they can be seen (outside jit)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from spjax.contexts.base import ContextDistribution


def check_samples(
    old: ContextDistribution, contexts: ArrayLike, values: ArrayLike, mask: ArrayLike
) -> None:
    """Checks the shapes of the episodes.

    Raises:
        ValueError: names the shape that is wrong and the right one.
    """
    shape = jnp.shape(contexts)
    if len(shape) != 2 or shape[1] != old.dim:
        raise ValueError(
            f"contexts must have shape (M, {old.dim}) as the distribution has {old.dim} dimensions, got {shape}"
        )
    for name, vector in (("values", values), ("mask", mask)):
        if jnp.shape(vector) != shape[:1]:
            raise ValueError(
                f"{name} must have shape {shape[:1]}, one entry a context, got {jnp.shape(vector)}"
            )


def check_number(name: str, value: ArrayLike | None, least: float = -np.inf) -> None:
    """Checks one setting, a number; None stands for a setting that is not given.

    Raises:
        ValueError: not a single number; or, where it can be seen, not finite or too small.
    """
    if value is None:
        return
    if jnp.shape(value) != ():
        raise ValueError(
            f"{name} must be a single number, got shape {jnp.shape(value)}"
        )
    seen = None if isinstance(value, jax.core.Tracer) else float(np.asarray(value))
    if seen is not None and not (np.isfinite(seen) and seen >= least):
        wanted = "finite" if least == -np.inf else f"finite and at least {least:g}"
        raise ValueError(f"{name} must be {wanted}, got {seen}")


def check_floor(std_floor: ArrayLike | None, dim: int) -> None:
    """Checks the standard-deviation floor: one number for all dimensions or one for each.

    Raises:
        ValueError: another shape; or, where it can be seen, not finite or negative.
    """
    if std_floor is None:
        return
    if jnp.shape(std_floor) not in ((), (dim,)):
        raise ValueError(
            f"std_floor must be a number or have shape {(dim,)}, got shape {jnp.shape(std_floor)}"
        )
    if not isinstance(std_floor, jax.core.Tracer):
        floor = np.asarray(std_floor)
        if not (np.isfinite(floor) & (floor >= 0)).all():
            raise ValueError(
                f"std_floor must be finite and at least 0, got {floor.tolist()}"
            )
