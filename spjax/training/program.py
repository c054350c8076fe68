"""The compiled program of a sweep: lanes over devices, iterations inside.

Every lane (seed x settings) is a run of its own. On CPU a device maps over its lanes one after another, so a lane computes the
same bits whether it runs alone or among hundreds, a lane that skips its context update does not pay for its neighbours', and
the working set of a lane stays in the cache; measured, that is as fast as vmapping. On accelerators the lanes are vmapped.
Lanes are sharded over all devices: on CPU, one XLA device for each core.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from spjax.training.experiment import Evaluation, Experiment, Metrics, RunState

NUM_SNAPSHOT_CONTEXTS = 20
_EVALUATION_STREAM = 2**31 - 1  # folded into the run's key; iterations never get there


@struct.dataclass
class Snapshot:
    """Of one lane at one evaluated iteration."""

    evaluation: Evaluation
    contexts: Float[Array, "sample dim"]  # drawn from the teacher's distribution


@dataclasses.dataclass(frozen=True)
class Program:
    """The compiled functions of a sweep with a fixed number of lanes."""

    num_lanes: int
    mesh: Mesh
    experiments: Experiment  # [lane, ...] on the devices

    @classmethod
    def of(cls, experiments: Experiment) -> "Program":
        """Returns the program for experiments with a leading lane axis."""
        num_lanes = jax.tree.leaves(experiments)[0].shape[0]
        devices = jax.devices()
        mesh = Mesh(np.asarray(devices[: min(len(devices), num_lanes)]), ("lanes",))
        program = cls(num_lanes, mesh, experiments)
        return dataclasses.replace(program, experiments=program.to_devices(experiments))

    def compile(self, length: int) -> tuple["Chunk", float]:
        """Returns the function that runs up to `length` iterations and evaluates, and the seconds compiling it took."""
        start = time.perf_counter()

        def lanes(experiments: Experiment, states: RunState, count: Array) -> Any:
            return self._mapped(lambda *lane: _chunk(length, count, *lane))(experiments, states)

        count = jax.ShapeDtypeStruct((), jnp.int32)
        jitted = jax.jit(lanes, donate_argnums=1, compiler_options=self.experiments.env.compiler_options)
        compiled = jitted.lower(self.experiments, self.abstract_state(), count).compile()
        return Chunk(compiled, self), time.perf_counter() - start

    def init(self, seeds: list[int]) -> RunState:
        """Returns the states before the first iteration, on the devices."""
        return self.on_lanes(_init)(self.experiments, self.to_devices(np.asarray(seeds, np.uint32)))

    def abstract_state(self) -> RunState:
        """Returns shapes, dtypes and sharding of the states on the devices."""
        lanes = jax.tree.leaves(self.experiments)[0].shape[:1]
        sharding = NamedSharding(self.mesh, P("lanes"))
        states = jax.eval_shape(
            self._mapped(_init), self.experiments, jax.ShapeDtypeStruct(lanes, jnp.uint32, sharding=sharding)
        )
        return jax.tree.map(lambda leaf: leaf.update(sharding=sharding), states)

    def on_lanes(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the compiled function of every lane, from a function of one lane; arguments have the lane axis first."""
        return jax.jit(self._mapped(function), compiler_options=self.experiments.env.compiler_options)

    def to_devices(self, tree: Any) -> Any:
        """Returns the lanes sharded over the devices; the last lane is repeated until they divide evenly."""
        padding = -self.num_lanes % self.mesh.size
        sharding = NamedSharding(self.mesh, P("lanes"))

        def place(leaf: Any) -> Array:
            if padding:
                leaf = np.concatenate([leaf, np.repeat(leaf[-1:], padding, axis=0)])
            return jax.device_put(leaf, sharding)

        return jax.tree.map(place, tree)

    def to_host(self, tree: Any) -> Any:
        """Returns the lanes without padding as NumPy arrays."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.num_lanes], tree)

    def _mapped(self, function: Any) -> Any:
        """Returns the function of one lane, over all lanes and devices."""
        if self.mesh.devices.flat[0].platform == "cpu":

            def lanes(*arguments: Any) -> Any:
                return jax.lax.map(lambda lane: function(*lane), arguments)
        else:

            def lanes(*arguments: Any) -> Any:
                return jax.vmap(function)(*arguments)

        return jax.shard_map(lanes, mesh=self.mesh, in_specs=P("lanes"), out_specs=P("lanes"), check_vma=False)


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A compiled number of iterations."""

    compiled: Any
    program: Program

    def __call__(self, states: RunState, count: int) -> tuple[RunState, Metrics, Snapshot]:
        """Runs `count` iterations; 0 only evaluates.

        Returns:
            new states on the devices, and on the host metrics [lane, count, ...] and snapshots [lane, ...].
        """
        states, metrics, snapshot = self.compiled(self.program.experiments, states, jnp.int32(count))
        metrics = jax.tree.map(lambda leaf: leaf[:, :count], self.program.to_host(metrics))
        return states, metrics, self.program.to_host(snapshot)


def use_all_cores() -> None:
    """Gives XLA one CPU device for each core, unless JAX has already started or the user has chosen a number."""
    if jax.config.jax_num_cpu_devices > 0:  # type: ignore[attr-defined]
        return
    try:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    except RuntimeError:  # the backend runs already; the devices that it has are used
        return


def _init(experiment: Experiment, seed: Array) -> RunState:
    return experiment.init(jax.random.key(seed))


def _chunk(
    length: int, count: Int[Array, ""], experiment: Experiment, state: RunState
) -> tuple[RunState, Metrics, Snapshot]:
    def iteration(i: Array, carry: tuple[RunState, Metrics]) -> tuple[RunState, Metrics]:
        state, rows = carry
        state, metrics = experiment.step(state)
        return state, jax.tree.map(lambda buffer, row: buffer.at[i].set(row), rows, metrics)

    shapes = jax.eval_shape(experiment.step, state)[1]
    rows = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), shapes)
    state, metrics = jax.lax.fori_loop(0, count, iteration, (state, rows))
    return state, metrics, _snapshot(experiment, state)


def _snapshot(experiment: Experiment, state: RunState) -> Snapshot:
    key = jax.random.fold_in(jax.random.fold_in(state.key, _EVALUATION_STREAM), state.iteration)
    key_evaluate, key_contexts = jax.random.split(key)
    return Snapshot(
        evaluation=experiment.evaluate(state, key_evaluate),
        contexts=experiment.sample_contexts(state, key_contexts, NUM_SNAPSHOT_CONTEXTS),
    )
