"""Where JAX_ENABLE_X64 is set, what trains stays in single precision."""

import dataclasses
import os
import subprocess
import sys

import jax
import pytest

import spjax
from spjax.agents.step_based import SAC
from spjax.presets import preset_names
from spjax.training.program import Program
from tests.training.conftest import TINY
from tests.training.test_resume import assert_same_run

PAIRS = sorted(  # every agent and every teacher
    {
        (env, agent, teacher)
        for env, agent, teacher, _, _ in preset_names()
        if env == "gate-global"
        or (env == "point-mass-2d" and (agent == "ppo" or teacher == "self-paced"))
    }
)
SCRIPT = """
import sys
import jax
import spjax
from tests.training.conftest import tiny
assert jax.numpy.zeros(()).dtype == "float64"
spjax.train(tiny(), sys.argv[1], progress=False)
"""


@pytest.mark.slow
def test_a_run_in_a_process_with_64_bit_types_has_the_bits_of_one_without(
    finished, tmp_path
):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    subprocess.run(command, env={**os.environ, "JAX_ENABLE_X64": "1"}, check=True)
    assert_same_run(finished, tmp_path / "run")


@pytest.fixture
def wide_types():
    """Turns 64-bit types on for the whole process."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.slow
@pytest.mark.parametrize(("env", "agent", "teacher"), PAIRS)
def test_every_pair_is_traced_with_64_bit_types_on(
    env, agent, teacher, wide_types, monkeypatch
):
    traced = []
    monkeypatch.setattr(
        jax.stages.Lowered, "compile", lambda lowered: traced.append(lowered) or repr
    )
    config = spjax.preset(env, agent, teacher)
    if agent == "ppo":
        config = dataclasses.replace(config, agent=TINY)
    if isinstance(config.agent, SAC):
        config = dataclasses.replace(config, agent=config.agent.replace(hidden=(8,)))
    Program.of(config.experiments()).compile(2)
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(traced[-1].out_info)}
    assert "float32" in kinds
    assert not kinds & {"float64", "int64", "uint64"}
