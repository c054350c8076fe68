"""Double precision for one part of a program that otherwise runs in single precision."""

from collections.abc import Callable
from typing import TypeVar

import jax
from jaxtyping import PyTree

Result = TypeVar("Result")


def in_float64(function: Callable[..., Result]) -> Callable[..., Result]:
    """Returns ``function`` traced with 64-bit types enabled, also when it is batched later as part of a ``scan``.

    Entering ``jax.enable_x64`` around the operations is not enough: ``vmap`` of a ``scan`` rewrites the recorded operations
    after that context was left, and would put 32-bit ones among them. The function takes and returns pytrees of arrays; it
    must convert its arguments itself, and is not differentiable (call it inside both halves of a custom derivative).
    """

    @jax.custom_batching.custom_vmap
    def region(*arguments: PyTree) -> PyTree:
        with jax.enable_x64(True):
            return function(*arguments)

    @region.def_vmap
    def batched(
        axis_size: int, in_batched: PyTree, *arguments: PyTree
    ) -> tuple[PyTree, PyTree]:
        in_axes = jax.tree.map(
            lambda is_batched: 0 if is_batched else None, tuple(in_batched)
        )
        result = in_float64(jax.vmap(function, in_axes=in_axes, axis_size=axis_size))(
            *arguments
        )
        return result, jax.tree.map(lambda _: True, result)

    return region
