"""Lanes of one program: equal to single runs, independent of one another, never recompiled."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import struct

from spjax.catalogue import part
from spjax.contexts import Gaussian
from spjax.envs import PointMass
from spjax.self_paced.schedules import Proportion
from spjax.training import program as program_module
from spjax.training.lanes import Vmapped
from spjax.training.program import Program
from tests.training.conftest import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")


@part("task", "demanding")
@struct.dataclass
class Demanding(PointMass):
    @property
    def compiler_options(self):
        return {"xla_of_no_kind": True}


def run(config, iterations=4, change=lambda states: states, layout=None):
    """Returns the final states on the host, and the metrics of the last chunk."""
    program = Program.of(config.experiments(), layout)
    chunk, _ = program.compile(config.evaluate_every)
    states = program.init([lane.seed for lane in config.lanes()])
    states = program.states(change(program.to_host(states)))
    for _ in range(iterations // config.evaluate_every):
        states, metrics, _ = chunk(states, config.evaluate_every)
    return program.to_host(states), metrics


def assert_same_bits(left, right):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


def lane(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


@pytest.fixture(scope="module")
def swept():
    """Three seeds times two proportions."""
    return run(tiny(over={"teacher.schedule.zeta": (0.4, 1.6)}))[0]


@pytest.mark.slow
def test_a_lane_of_a_sweep_is_the_single_run_with_that_seed_and_setting_bit_for_bit(
    swept,
):
    single, _ = run(tiny(seeds=(2,), over={"teacher.schedule.zeta": (1.6,)}))
    assert_same_bits(lane(swept, 4), lane(single, 0))


@pytest.mark.slow
def test_so_it_is_with_the_compiler_s_own_settings():
    """The suite compiles in the quickest way, users as XLA does by itself."""
    script = """
from tests.training.conftest import tiny
from tests.training.test_sweep import assert_same_bits, lane, run
swept, _ = run(tiny(seeds=(1, 2)), 2)
single, _ = run(tiny(seeds=(2,)), 2)
assert_same_bits(lane(swept, 1), lane(single, 0))
print("same bits")
"""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "same bits\n", done.stderr


@pytest.mark.slow
def test_fewer_lanes_change_nothing(swept):
    fewer, _ = run(tiny())
    for index in range(3):
        assert_same_bits(lane(swept, 3 + index), lane(fewer, index))


@pytest.mark.slow
def test_lanes_vmapped_on_devices_that_do_not_divide_them_are_the_same_lanes(swept):
    assert len(jax.devices()) == 2
    with jax.debug_key_reuse(
        False
    ):  # vmapped, both branches of a condition run and use its key
        vmapped, metrics = run(tiny(), layout=Vmapped)
    assert metrics.frozen.shape == (3, 2)
    for index in range(3):
        for a, b in zip(
            jax.tree.leaves(lane(swept, 3 + index)),
            jax.tree.leaves(lane(vmapped, index)),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


def test_lanes_differ_where_seeds_or_settings_differ(swept):
    assert len(np.unique(swept.teacher_state.distribution.mean, axis=0)) == 6
    leaves = [
        leaf[:3].reshape(3, -1) for leaf in jax.tree.leaves(swept.agent_state.params)
    ]
    assert (
        len(np.unique(np.concatenate(leaves, axis=1), axis=0)) == 3
    )  # the seeds of the first setting


@pytest.mark.slow
def test_a_lane_with_nan_parameters_freezes_and_the_others_end_as_they_would_have():
    def poison(states):
        leaves, structure = jax.tree.flatten(states.agent_state.params)
        leaves[0] = leaves[0].copy()
        leaves[0][1] = np.nan
        return states.replace(
            agent_state=states.agent_state.replace(params=structure.unflatten(leaves))
        )

    config = tiny(seeds=tuple(range(1, 65)))
    clean, _ = run(config, iterations=2)
    poisoned, metrics = run(config, iterations=2, change=poison)
    others = np.arange(64) != 1
    assert_same_bits(lane(clean, others), lane(poisoned, others))
    np.testing.assert_array_equal(poisoned.frozen_at, np.where(others, -1, 0))
    np.testing.assert_array_equal(metrics.frozen.all(axis=1), ~others)
    np.testing.assert_array_equal(metrics.frozen.any(axis=1), ~others)


@pytest.mark.slow
def test_traced_settings_and_seeds_never_trace_the_program_again(
    compiled_once, monkeypatch
):
    traces = []
    chunk = program_module._chunk
    monkeypatch.setattr(
        program_module,
        "_chunk",
        lambda *arguments: traces.append(1) or chunk(*arguments),
    )
    base = tiny(seeds=(1,))
    first = compiled_once(base.experiments())
    step, _ = first.compile(2)
    count = len(traces)
    assert count >= 1
    for changed in (
        dataclasses.replace(base, seeds=(7,)),
        dataclasses.replace(
            base, agent=base.agent.replace(learning_rate=5e-3, clip_range=0.1)
        ),
        dataclasses.replace(
            base,
            teacher=base.teacher.replace(
                max_kl=0.1, schedule=Proportion(zeta=0.3, offset=4)
            ),
        ),
        dataclasses.replace(
            base,
            teacher=base.teacher.replace(
                target=Gaussian.from_std((1.0, 2.0), (0.5, 0.5))
            ),
        ),
        dataclasses.replace(base, task=base.task.replace(force_gain=1.0)),
    ):
        program = Program.of(changed.experiments())
        again = program_module.Chunk(step.compiled, program)
        _, metrics, _ = again(program.init(list(changed.seeds)), 2)
        assert np.isfinite(metrics.agent.value_loss).all()
    assert len(traces) == count


def test_first_contexts_of_different_seeds_are_uncorrelated():
    config = tiny(seeds=tuple(range(1, 101)))
    program = Program.of(config.experiments())
    states = program.init([lane.seed for lane in config.lanes()])
    contexts = program.to_host(states).world.env_state.context[
        :, :, 0
    ]  # 100 seeds, 4 slots, gate position
    correlation = np.corrcoef(contexts[:-1].ravel(), contexts[1:].ravel())[0, 1]
    assert abs(correlation) < 0.1
    assert len(np.unique(contexts)) > 380


@pytest.mark.slow
def test_evaluation_leaves_the_state_bit_identical_and_repeats_exactly():
    program = Program.of(tiny().experiments())
    chunk, _ = program.compile(2)
    states = program.init([1, 2, 3])
    before = program.to_host(states)
    states, _, first = chunk(states, 0)
    states, _, second = chunk(states, 0)
    assert_same_bits(before, program.to_host(states))
    assert_same_bits(first, second)


@pytest.mark.slow
def test_the_options_that_a_task_asks_of_the_compiler_reach_it():
    program = Program.of(tiny(task=Demanding(dimensions=2)).experiments())
    for compile_something in (
        lambda: program.compile(2),
        lambda: program.init([1, 2, 3]),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match="xla_of_no_kind"):
            compile_something()
