"""Brax's learners under a JAX that no longer has all they call.

Brax 0.14.2 calls ``jax.device_put_replicated``, which JAX 0.10 took away (https://github.com/google/brax/issues/671). `mend`
gives Brax's own modules the missing function, and leaves JAX as it is.
"""

import sys
import types
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

MISSING = "device_put_replicated"
CALLERS = (
    "brax.training.pmap",
    "brax.training.agents.apg.train",
    "brax.training.agents.ppo.train",
    "brax.training.agents.sac.train",
)


class _Jax(types.ModuleType):
    """JAX as Brax knows it; what is not said here is JAX's own."""

    def __getattr__(self, name: str) -> object:
        return getattr(jax, name)


def mend() -> None:
    """Lets the name ``jax`` in those of Brax's modules that are imported so far lead to a JAX with the missing function.

    `wrap` does it when a learner asks for its environment. To train Brax's learners without a teacher, call it after importing
    them. Nothing happens where JAX has the function.
    """
    if hasattr(jax, MISSING):
        return
    whole = _Jax("jax")
    setattr(whole, MISSING, replicated)
    for name in CALLERS:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "jax", None) is jax:
            setattr(module, "jax", whole)  # noqa: B010


def replicated(tree: PyTree, devices: Sequence[jax.Device]) -> PyTree:
    """Returns the tree with a new leading axis [device], a copy on each."""
    mesh = jax.sharding.Mesh(np.asarray(devices), ("device",))
    one_each = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("device"))
    return jax.tree.map(
        lambda leaf: jax.device_put(jnp.stack([leaf] * len(devices)), one_each), tree
    )
