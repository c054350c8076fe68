"""Shared by the whole suite: shapes and dtypes checked at run time, compiled code is kept.

Key reuse is an error, and so is a dtype or a rank that is promoted silently.

Programs are compiled in the quickest way, without LLVM's optimisations: the suite compiles far longer than it computes.
"""

import gc
import os
import sys
from pathlib import Path

import pytest

# shared by all clones on a machine, since compiling takes most of the time of a first run
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    str(Path(os.environ["XDG_CACHE_HOME"], "spjax", "jax-of-tests")),
)
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)
sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
from jaxtyping import install_import_hook

import tests.typecheck  # noqa: F401

install_import_hook("spjax", "tests.typecheck.functions_only")

from spjax.training.program import Program  # noqa: E402

# traced programs are many small objects that live long; Python would look through them at every 700th
gc.freeze()
gc.set_threshold(50_000, 20, 100)

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@pytest.fixture
def key() -> jax.Array:
    """A key of the test's own; one use, or fold numbers into it."""
    return jax.random.key(20210501)


@pytest.fixture(scope="session")
def _programs():
    """What is compiled already, by experiment and layout."""
    return {}


@pytest.fixture(scope="module")
def compiled_once(_programs):
    """Trainings of one experiment share what is compiled, so that a test pays for the training alone.

    Yields what makes a program that shares nothing.
    """
    of = Program.of

    def shared(experiments, layout=None, room=None):
        key = jax.tree.structure(experiments), layout
        if key not in _programs:
            _programs[key] = of(experiments, layout, room)
        return _programs[key].of_others(experiments, room)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "of", staticmethod(shared))
        yield of
