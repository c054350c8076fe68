"""SPRL iterations a second: ours, many runs in one program, against NumPy and SciPy, one run after the other.

    python -m benchmarks.speed.sprl [--runs 40] [--turns 5]

Trains 40 runs of SPRL on the gate ("precision") up to iterations 60 and 200. From there both sides go on by turns for a few
iterations (100 rollouts, a buffer of 1,000 samples, 51 value features): ours all runs, the peer one of them. Ours uses one XLA
device a core; the peer, like the published results, one process. Writes ``benchmarks/results/sprl-speed.json``.
"""

import argparse
import pathlib
import statistics
import time
from collections import deque
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import spjax
from benchmarks.speed.peers import sprl as peer
from spjax.analysis.results import Record, measured_here, write_records
from spjax.episodic.base import State
from spjax.training.program import use_all_cores

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "sprl-speed.json"
STARTS = (60, 200)  # iterations trained before: while the contexts are free, and on their way to the target
ITERATIONS = 5  # of either side in a turn


class Timing(NamedTuple):
    """Milliseconds an iteration and run, one entry a turn."""

    ours: list[float]
    peer: list[float]


class Runs:
    """Our runs, compiled once."""

    def __init__(self, count: int) -> None:
        config = spjax.preset("gate-precision", agent="sprl")
        self._learner, self._task = config.agent, config.env
        self._mesh = jax.make_mesh((jax.device_count(),), ("runs",))
        self.count = -(-count // self._mesh.size) * self._mesh.size
        seeds = jax.device_put(np.arange(self.count, dtype=np.uint32), NamedSharding(self._mesh, P("runs")))
        self.states = self._on_all(lambda seed: self._learner.init(jax.random.key(seed), self._task), P("runs"))(seeds)
        self._iterations = self._on_all(self._iterate, (P("runs"), P("runs"), P()))
        self._seeds = seeds

    def train(self, num_iterations: int) -> None:
        """Goes on for some iterations."""
        self.states = jax.block_until_ready(self._iterations(self._seeds, self.states, jnp.asarray(num_iterations)))

    def peer_state(self, run: int) -> peer.State:
        """Returns one run as the peer holds it."""
        return as_peer_state(jax.tree.map(lambda leaf: leaf[run], jax.device_get(self.states)))

    def _iterate(self, seed: jax.Array, state: State, count: jax.Array) -> State:
        def iteration(_: Any, state: State) -> State:
            key = jax.random.fold_in(jax.random.key(seed + 1_000_000), state.iteration)
            return self._learner.iterate(state, self._task, key)[0]

        return jax.lax.fori_loop(0, count, iteration, state)

    def _on_all(self, function: Any, specs: Any) -> Any:
        """Returns the compiled function of all runs, one after another on each device, as training programs are."""

        def mapped(first: Any, *rest: Any) -> Any:
            return jax.lax.map(lambda run: function(*run, *rest[1:]), (first, *rest[:1]))

        return jax.jit(jax.shard_map(mapped, mesh=self._mesh, in_specs=specs, out_specs=P("runs"), check_vma=False))


def as_peer_state(state: State) -> peer.State:
    """Returns the peer's state that is equal to one of ours."""
    double: Any = jax.tree.map(lambda leaf: np.asarray(leaf, float), state)
    iteration, buffer = int(state.iteration), double.buffer
    batches = [
        peer.Batch(buffer.contexts[i], buffer.thetas[i], buffer.features[i], buffer.rewards[i])
        for i in (np.arange(peer.BUFFER_SIZE) + iteration) % peer.BUFFER_SIZE  # the oldest first
    ]
    return peer.State(
        gain=double.policy.gain,
        covariance=double.policy.chol @ double.policy.chol.T,
        context_mean=double.contexts.mean,
        context_covariance=double.contexts.chol @ double.contexts.chol.T,
        buffer=deque(batches, maxlen=peer.BUFFER_SIZE),
        iteration=iteration,
    )


def measure(runs: Runs, turns: int) -> Timing:
    """Times both by turns; our runs go on from turn to turn, the peer takes over another one each time."""
    timing = Timing([], [])
    for turn in range(turns):
        state, generator = runs.peer_state(turn % runs.count), np.random.default_rng(turn)
        began = time.perf_counter()
        for _ in range(ITERATIONS):
            peer.iterate(state, generator)
        timing.peer.append(1e3 * (time.perf_counter() - began) / ITERATIONS)
        began = time.perf_counter()
        runs.train(ITERATIONS)
        timing.ours.append(1e3 * (time.perf_counter() - began) / ITERATIONS / runs.count)
    return timing


def main() -> None:
    """Trains, measures and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="of ours, in one program")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    use_all_cores()
    command = f"python -m benchmarks.speed.sprl --runs {arguments.runs} --turns {arguments.turns}"
    began = time.perf_counter()
    runs, done, records = Runs(arguments.runs), 0, []
    runs.train(0)
    compile_seconds = time.perf_counter() - began
    for start in STARTS:
        runs.train(start - done)
        timing = measure(runs, arguments.turns)
        done = start + ITERATIONS * arguments.turns
        ratios = [theirs / ours for ours, theirs in zip(*timing, strict=True)]
        ours, theirs = statistics.median(timing.ours), statistics.median(timing.peer)
        print(
            f"from iteration {start}: ours {ours:.2f} ms an iteration and run, NumPy and SciPy {theirs:.1f} ms, ",
            end="",
        )
        print(f"ratio {statistics.median(ratios):.0f} (median of turns, from {min(ratios):.0f} to {max(ratios):.0f})")
        for metric, values in (
            ("spjax: ms an iteration and run", timing.ours),
            ("NumPy and SciPy: ms an iteration and run", timing.peer),
            ("ratio a run", ratios),
        ):
            records.append(_record(start, metric, values, compile_seconds, command))
    write_records(RESULTS, records)


def _record(start: int, metric: str, values: list[float], compile_seconds: float, command: str) -> Record:
    return measured_here(
        experiment=f"sprl-speed/from-{start}",
        env="gate-precision",
        agent="sprl",
        teacher="self-paced",
        metric=metric,
        seeds=list(range(len(values))),
        values=values,
        iterations=ITERATIONS,
        compile_seconds=compile_seconds if "spjax" in metric else None,
        command=command,
    )


if __name__ == "__main__":
    main()
