"""SPRL iterations a second: ours, many runs in one program, against NumPy and SciPy, one run after the other.

    python -m benchmarks.speed.sprl [--runs 40] [--turns 5]

Trains 40 runs of SPRL on the gate ("precision"), and stops eight times on the way. From there both sides go on by turns for a few
iterations (100 rollouts, a buffer of 1,000 samples, 51 value features): ours all runs, the peer one of them. Ours uses all
cores; the peer, like the published results, one process. The peer is timed with SciPy's default tolerances, as
published, and with tight ones, since by default L-BFGS-B stops far from the minimum; how far its sample weights are from those of
the minimum is measured too. Writes ``benchmarks/results/sprl-speed.json``.
"""

import argparse
import copy
import pathlib
import statistics
import time
from collections import deque
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import spjax
from benchmarks import command_line
from benchmarks.dual_problems import DualProblem, minimise_by_scipy
from benchmarks.speed.peers import sprl as peer
from spjax.analysis.records import measured_here
from spjax.runs.results import Record, write_records
from spjax.training.experiment import RunState
from spjax.training.lanes import Calls

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "sprl-speed.json"
STARTS = (
    20,
    60,
    100,
    130,
    160,
    200,
    260,
    320,
)  # iterations trained before; alpha is 0 up to 140
ITERATIONS = 5  # of ours and of the peer in a turn; with tight tolerances, which may take seconds, one
SOLVERS = {"default": peer.solve_dual, "tight": peer.solve_tightly}


class Timing(NamedTuple):
    """Milliseconds an iteration and run, one entry a turn."""

    ours: list[float]
    default: list[float]  # of the peer
    tight: list[float]


class Runs:
    """Our runs, compiled once."""

    def __init__(self, count: int) -> None:
        config = spjax.preset("gate-precision", agent="sprl")
        experiment = config.experiment(config.lanes()[0])
        self.count, layout = count, Calls(count)
        seeds = layout.to_devices(np.arange(count, dtype=np.uint32))
        init = layout.compile(
            lambda seed: experiment.init(jax.random.key(seed)), (seeds,)
        )
        self.states = init(seeds)

        def iterations(state: RunState, count: jax.Array) -> RunState:
            return jax.lax.fori_loop(
                0, count, lambda _, state: experiment.step(state)[0], state
            )

        self._iterations = layout.compile(iterations, (self.states,), jnp.int32(0))

    def train(self, num_iterations: int) -> None:
        """Goes on for some iterations."""
        self.states = jax.block_until_ready(
            self._iterations(self.states, jnp.int32(num_iterations))
        )

    def peer_state(self, run: int) -> peer.State:
        """Returns one run as the peer holds it."""
        return as_peer_state(jax.device_get(self.states[run]))


def as_peer_state(state: RunState) -> peer.State:
    """Returns the peer's state that is equal to one of ours."""
    ours = (state.agent_state, state.teacher_state.distribution)
    learner, contexts = jax.tree.map(lambda leaf: np.asarray(leaf, float), ours)
    iteration, buffer = int(state.iteration), learner.buffer
    batches = [
        peer.Batch(
            buffer.contexts[i], buffer.thetas[i], buffer.features[i], buffer.rewards[i]
        )
        for i in (np.arange(peer.BUFFER_SIZE) + iteration)
        % peer.BUFFER_SIZE  # the oldest first
    ]
    return peer.State(
        gain=learner.policy.gain,
        covariance=learner.policy.chol @ learner.policy.chol.T,
        context_mean=contexts.mean,
        context_covariance=contexts.chol @ contexts.chol.T,
        buffer=deque(batches, maxlen=peer.BUFFER_SIZE),
        iteration=iteration,
    )


def measure(runs: Runs, turns: int) -> Timing:
    """Times both by turns; our runs go on from turn to turn, the peer takes over another one each time."""
    timing = Timing([], [], [])
    for turn in range(turns):
        for solver, milliseconds, count in (
            ("default", timing.default, ITERATIONS),
            ("tight", timing.tight, 1),
        ):
            state, generator = (
                runs.peer_state(turn % runs.count),
                np.random.default_rng(turn),
            )
            began = time.perf_counter()
            for _ in range(count):
                peer.iterate(state, generator, SOLVERS[solver])
            milliseconds.append(1e3 * (time.perf_counter() - began) / count)
        began = time.perf_counter()
        runs.train(ITERATIONS)
        timing.ours.append(
            1e3 * (time.perf_counter() - began) / ITERATIONS / runs.count
        )
    return timing


def weight_errors(state: peer.State) -> dict[str, tuple[float, float]]:
    """Returns for each solver of the peer how far its sample weights are from the minimum's, over the largest of each kind."""
    errors: dict[str, tuple[float, float]] = {}
    for name, solve in SOLVERS.items():

        def compared(
            *problem: Any, name: str = name, solve: peer.Solve = solve
        ) -> peer.Dual:
            theirs, exact = solve(*problem), _exact_weights(*problem)
            pairs = zip((theirs.policy, theirs.context), exact, strict=True)
            policy, contexts = (float(np.abs(a - b).max() / b.max()) for a, b in pairs)
            errors[name] = (policy, contexts)
            return theirs

        peer.iterate(copy.deepcopy(state), np.random.default_rng(0), compared)
    return errors


def _exact_weights(rewards: Any, features: Any, log_ratios: Any, alpha: float) -> Any:
    problem = DualProblem(
        rewards, features, log_ratios, None, alpha, peer.MAX_KL, peer.RIDGE
    )
    return problem.weights(minimise_by_scipy(problem).exact)


def main() -> None:
    """Trains, measures and writes the records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=40, help="of ours, in one program")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    began = time.perf_counter()
    runs, done, records = Runs(arguments.runs), 0, []
    runs.train(0)
    compile_seconds = time.perf_counter() - began
    for start in STARTS:
        runs.train(start - done)
        timing = measure(runs, arguments.turns)
        done = start + ITERATIONS * arguments.turns
        errors = weight_errors(runs.peer_state(0))
        records.append(
            _record(
                start, "spjax: ms an iteration and run", timing.ours, compile_seconds
            )
        )
        print(
            f"from iteration {start}: ours {statistics.median(timing.ours):.2f} ms an iteration and run"
        )
        for solver, theirs in (("default", timing.default), ("tight", timing.tight)):
            ratios = [a / b for a, b in zip(theirs, timing.ours, strict=True)]
            print(
                f"    SciPy, {solver} tolerances: {statistics.median(theirs):.1f} ms, {statistics.median(ratios):.0f} times "
                f"as long (turns {min(ratios):.0f} to {max(ratios):.0f}), weights off by {errors[solver][0]:.1e} of the "
                f"largest for the policy, {errors[solver][1]:.1e} for the contexts"
            )
            for metric, values in (
                ("ms an iteration and run", theirs),
                ("ratio a run", ratios),
                ("error of the weights of policy and contexts", list(errors[solver])),
            ):
                records.append(
                    _record(
                        start, f"SciPy, {solver}: {metric}", values, compile_seconds
                    )
                )
    write_records(RESULTS, records)


def _record(
    start: int, metric: str, values: list[float], compile_seconds: float
) -> Record:
    return measured_here(
        experiment=f"sprl-speed/from-{start}",
        env="gate-precision",
        agent="sprl",
        teacher="self-paced-joint",
        schedule="proportion",
        metric=metric,
        seeds=list(range(len(values))),
        values=values,
        iterations=ITERATIONS,
        compile_seconds=compile_seconds if "spjax" in metric else None,
        command=command_line("benchmarks.speed.sprl"),
    )


if __name__ == "__main__":
    main()
