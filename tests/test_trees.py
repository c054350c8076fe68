"""What jax.jit cannot be trusted to tell apart."""

import jax.numpy as jnp
import numpy as np
from flax import struct

from spjax.contexts import Gaussian
from spjax.trees import all_finite, by_path, node_types


def twins():
    """Returns two classes that differ in nothing but their names."""
    return [
        struct.dataclass(type(name, (), {"__annotations__": {"x": float}}))
        for name in ("One", "Other")
    ]


def test_classes_of_nodes_tell_pytrees_apart_that_are_alike_otherwise():
    one, other = twins()
    assert node_types((one(1.0), 2.0)) == (tuple, one, None, None)
    assert node_types((one(1.0), 2.0)) != node_types((other(1.0), 2.0))
    gaussian = Gaussian.from_std((0.0,), (1.0,))
    assert node_types(gaussian) == (Gaussian, None, None)


def test_leaves_have_the_paths_of_their_fields_and_nothing_at_all_is_finite():
    gaussian = Gaussian.from_std((0.0,), (1.0,))
    assert list(by_path({"a": gaussian})) == ["a/mean", "a/chol"]
    assert all_finite(None)
    assert all_finite(gaussian)
    assert not all_finite({"n": jnp.array(1), "x": jnp.array([0.0, np.nan])})
