"""The compiled program of a sweep: iterations inside, lanes (seed x settings), each a run of its own, over cores or devices."""

import dataclasses
import functools
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.stages import Traced
from jaxtyping import Array, Float, Int, PyTree

from spjax.training.experiment import Evaluation, Experiment, Metrics, RunState
from spjax.training.lanes import Calls, Compiled, Lanes, Layout, Vmapped, executable
from spjax.trees import by_path, with_keys, without_keys

NUM_SNAPSHOT_CONTEXTS = 20
_EVALUATION_STREAM = 2**31 - 1  # folded into the run's key; iterations never get there

Made = TypeVar("Made")


@struct.dataclass
class Snapshot:
    """Of one lane at one evaluated iteration."""

    evaluation: Evaluation
    contexts: Float[Array, "sample dim"]  # drawn from the teacher's distribution


@dataclasses.dataclass(frozen=True)
class Program:
    """The compiled functions of a sweep, for as many lanes as there is room for."""

    layout: Layout
    experiments: Lanes
    compiler_options: dict[str, bool]
    _state: RunState  # shapes and dtypes of a lane
    _kept: dict[Hashable, Any]  # what is traced and compiled, by function and batch

    @classmethod
    def of(
        cls,
        experiments: Experiment,
        layout: type[Layout] | None = None,
        room: int | None = None,
    ) -> "Program":
        """Returns the program for experiments with a leading lane axis, in the layout of this platform or another one."""
        layout = layout or layout_here()
        placed = layout(_num_lanes(experiments), room)
        lane = jax.tree.map(lambda leaf: leaf[0], experiments)
        with jax.enable_x64(False):  # as in `Layout.trace`
            state = jax.eval_shape(_init, lane, jax.ShapeDtypeStruct((), jnp.uint32))
        return cls(
            placed,
            placed.to_devices(experiments),
            experiments.task.compiler_options,
            state,
            {},
        )

    def of_others(self, experiments: Experiment, room: int | None = None) -> "Program":
        """Returns the program for other lanes of the same sweep, which shares what is compiled."""
        placed = type(self.layout)(_num_lanes(experiments), room)
        return dataclasses.replace(
            self, layout=placed, experiments=placed.to_devices(experiments)
        )

    def trace(self, length: int) -> Traced:
        """Returns what `compile` compiles."""
        lanes = (self.experiments, self.layout.abstract(self._state))
        return self._once(
            ("trace", length),
            lambda: self.layout.trace(
                functools.partial(_chunk, length),
                lanes,
                jax.ShapeDtypeStruct((), jnp.int32),
                donate_argnums=1,
                compiler_options=self.compiler_options,
            ),
        )

    def compile(self, length: int) -> tuple["Chunk", float]:
        """Returns the function that runs up to `length` iterations and evaluates, and the seconds compiling it took."""
        start = time.perf_counter()
        compiled = self._once(
            ("chunk", length),
            lambda: self.layout.ready(executable(self.trace(length)), 2),
        )
        return Chunk(compiled, self), time.perf_counter() - start

    def init(self, seeds: list[int]) -> Lanes:
        """Returns the states before the first iteration, on the devices."""
        return self.on_lanes(
            _init, self.layout.to_devices(np.asarray(seeds, np.uint32))
        )

    def on_lanes(self, function: Callable[..., PyTree], *lanes: Lanes) -> Lanes:
        """Returns for every lane what a function of its experiment and of these arguments returns."""
        compiled = self._once(function, lambda: self.compiled(function, *lanes))
        return compiled(self.experiments, *lanes)

    def compiled(self, function: Callable[..., PyTree], *lanes: Lanes) -> Compiled:
        """Returns the compiled function of `experiments` and arguments like these, from a function of one lane."""
        return self.layout.compile(
            function, (self.experiments, *lanes), compiler_options=self.compiler_options
        )

    def _once(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """Returns what was made for a batch of this size, and makes it where nothing was."""
        key = what, self.layout.batch
        if key not in self._kept:
            self._kept[key] = make()
        kept: Made = self._kept[key]
        return kept

    def to_host(self, lanes: Lanes) -> PyTree:
        """Returns NumPy arrays [lane, ...]; of keys their raw data."""
        return self.layout.to_host(without_keys(lanes))

    def iteration(self, states: Lanes) -> int:
        """Returns how many iterations the states have behind them; of those that do not go on any more, fewer."""
        done = self.to_host(self.layout.part(states, lambda state: state.iteration))
        return int(done.max())

    def to_arrays(self, states: Lanes) -> dict[str, np.ndarray]:
        """Returns the states on the host, each leaf [lane, ...] under the path of its fields: "agent_state/params/0"."""
        return by_path(self.to_host(states))

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Lanes:
        """Returns the states on the devices, from what `to_arrays` made of them."""
        return self.states(
            jax.tree.unflatten(
                jax.tree.structure(self._host_state()), list(arrays.values())
            )
        )

    def kinds(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Returns shapes and dtypes of what `to_arrays` returns, of one lane."""
        return {
            name: (leaf.shape, np.dtype(leaf.dtype))
            for name, leaf in by_path(self._host_state()).items()
        }

    def states(self, host: PyTree) -> Lanes:
        """Returns the states on the devices, from what `to_host` made of them."""
        return with_keys(
            self.layout.to_devices(host), self.layout.abstract(self._state)
        )

    def _host_state(self) -> PyTree:
        return jax.eval_shape(without_keys, self._state)


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A compiled number of iterations."""

    compiled: Compiled
    program: Program

    def __call__(
        self,
        states: Lanes,
        count: int,
        finished: Callable[[], object] | None = None,
    ) -> tuple[Lanes, Metrics, Snapshot]:
        """Runs `count` iterations; 0 only evaluates.

        Args:
            states: the lanes' states, which are gone after the call.
            count: iterations.
            finished: called when a lane is through, where they finish one by one; from any thread.

        Returns:
            new states on the devices, and on the host metrics [lane, count, ...] and snapshots [lane, ...].
        """
        after = self.compiled(
            self.program.experiments, states, jnp.int32(count), finished=finished
        )
        states = self.program.layout.part(after, lambda lane: lane[0])
        metrics, snapshot = self.program.to_host(
            self.program.layout.part(after, lambda lane: lane[1:])
        )
        return states, jax.tree.map(lambda leaf: leaf[:, :count], metrics), snapshot


def layout_here() -> type[Layout]:
    """Returns how lanes lie on this platform."""
    return Calls if jax.default_backend() == "cpu" else Vmapped


def _num_lanes(experiments: Experiment) -> int:
    return int(jax.tree.leaves(experiments)[0].shape[0])


def _init(experiment: Experiment, seed: Array) -> RunState:
    return experiment.init(jax.random.key(seed))


def _chunk(
    length: int, experiment: Experiment, state: RunState, count: Int[Array, ""]
) -> tuple[RunState, Metrics, Snapshot]:
    def iteration(
        i: Array, carry: tuple[RunState, Metrics]
    ) -> tuple[RunState, Metrics]:
        state, rows = carry
        state, metrics = experiment.step(state)
        return state, jax.tree.map(
            lambda buffer, row: buffer.at[i].set(row), rows, metrics
        )

    shapes = jax.eval_shape(experiment.step, state)[1]
    rows = jax.tree.map(
        lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), shapes
    )
    state, metrics = jax.lax.fori_loop(0, count, iteration, (state, rows))
    return state, metrics, _snapshot(experiment, state)


def _snapshot(experiment: Experiment, state: RunState) -> Snapshot:
    key = jax.random.fold_in(
        jax.random.fold_in(state.key, _EVALUATION_STREAM), state.iteration
    )
    key_evaluate, key_contexts = jax.random.split(key)
    return Snapshot(
        evaluation=experiment.evaluate(state, key_evaluate),
        contexts=experiment.sample_contexts(state, key_contexts, NUM_SNAPSHOT_CONTEXTS),
    )
