"""Pytrees of states: their leaves by name, their keys as plain numbers, whether all is finite."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree
from numpy.typing import ArrayLike

Tree = TypeVar("Tree")


def by_path(tree: PyTree) -> dict[str, PyTree]:
    """Returns the leaves under the paths of their fields: "agent_state/params/0"."""
    leaves = jax.tree.leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in leaves
    }


def without_keys(tree: PyTree) -> PyTree:
    """Returns the tree with typed keys replaced by their raw data."""
    return jax.tree.map(
        lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree
    )


def with_keys(tree: PyTree, like: PyTree) -> PyTree:
    """Returns the tree with raw data wrapped as typed keys where `like` has them."""
    return jax.tree.map(
        lambda leaf, ref: jax.random.wrap_key_data(leaf) if _is_key(ref) else leaf,
        tree,
        like,
    )


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Returns whether every floating-point number of the tree is finite; so it is where there is none."""
    floats = [
        leaf
        for leaf in jax.tree.leaves(tree)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    if not floats:
        return jnp.asarray(True)
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in floats]).all()


def as_leaf(value: ArrayLike) -> np.ndarray:
    """Returns a Python number in the dtype that JAX would give it."""
    array = np.asarray(value)
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)


def as_leaves(part: Tree) -> Tree:
    """Returns a part whose Python numbers are arrays in the dtypes that JAX would give them."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.Array) else as_leaf(leaf), part
    )


def node_types(tree: PyTree) -> tuple[type | None, ...]:
    """Returns the classes of all nodes, None for leaves; a static argument that tells pytrees apart for ``jax.jit``.

    jaxlib 0.10 takes two structures for equal that differ in the classes of their nodes alone, so that now and then a function
    compiled for one teacher, say, would be called with another one that has the same settings.
    """

    def walk(structure: PyTree) -> list[type | None]:
        data = structure.node_data()
        below = [one for child in structure.children() for one in walk(child)]
        return [None if data is None else data[0], *below]

    return tuple(walk(jax.tree.structure(tree)))


def _is_key(leaf: PyTree) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
