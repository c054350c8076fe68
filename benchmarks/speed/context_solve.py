"""Context updates a second: ours against SciPy's ``trust-constr`` on the same problems in the same run.

    python -m benchmarks.speed.context_solve [--lanes 1000] [--peers 10]

Problems of the size of the three-dimensional point mass (30 contexts, proportion rule). Ours are mapped over blocks of lanes
that run in lockstep, and the blocks are spread over one XLA device a core; SciPy solves the first few problems one by one with
the options of the released code. Writes ``benchmarks/results/context-solve.json``.
"""

import argparse
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import command_line
from benchmarks.context_problems import (
    NASTY,
    ContextProblem,
    make_problem,
    solve_with_scipy,
)
from spjax.analysis.records import measured_here
from spjax.contexts import Gaussian
from spjax.runs.results import write_records
from spjax.self_paced import update_context

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "context-solve.json"
BLOCK = 50  # lanes in lockstep; the slowest of a block sets its time
REPEATS = 5


def update(problem: ContextProblem) -> jax.Array:
    """Returns the mean of the updated distribution."""
    old = Gaussian(problem.old_mean, problem.old_chol)
    target = Gaussian(problem.target_mean, problem.target_chol)
    samples = (problem.contexts, problem.values, problem.mask)
    return update_context(
        old, target, *samples, max_kl=problem.max_kl, alpha=problem.alpha
    )[0].mean


def time_ours(problems: ContextProblem) -> tuple[list[float], float]:
    """Returns seconds of repeated runs over all problems, and the compile time."""
    mesh = jax.make_mesh((jax.device_count(),), ("lanes",))
    lanes = jax.sharding.PartitionSpec("lanes")
    sharded = jax.device_put(problems, jax.NamedSharding(mesh, lanes))

    def blocks(problems: ContextProblem) -> jax.Array:
        return jax.lax.map(update, problems, batch_size=BLOCK)

    solve = jax.jit(jax.shard_map(blocks, mesh=mesh, in_specs=lanes, out_specs=lanes))
    began = time.perf_counter()
    compiled = solve.lower(sharded).compile()
    compile_seconds = time.perf_counter() - began
    seconds = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        jax.block_until_ready(compiled(sharded))
        seconds.append(time.perf_counter() - began)
    return seconds[1:], compile_seconds


def time_scipy(problems: list[ContextProblem]) -> list[float]:
    """Returns seconds of each solve, compiled functions warm."""
    seconds = []
    for problem in problems:
        solve_with_scipy(problem, "proportion", "old-new", max_iterations=2)
        began = time.perf_counter()
        solve_with_scipy(problem, "proportion", "old-new")
        seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    """Times both and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=1000)
    parser.add_argument(
        "--peers", type=int, default=10, help="problems that SciPy solves"
    )
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    problems = [make_problem(seed * len(NASTY), 3) for seed in range(arguments.lanes)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
    batch = jax.tree.map(
        lambda leaf: jnp.asarray(leaf, bool if leaf.dtype == bool else jnp.float32),
        batch,
    )
    ours, compile_seconds = time_ours(batch)
    theirs = time_scipy(problems[: arguments.peers])
    rates, peer_rates = (
        [arguments.lanes / seconds for seconds in ours],
        [1 / seconds for seconds in theirs],
    )
    print(
        f"ours: {np.median(rates):.0f} solves/s on {jax.device_count()} devices, compiled in {compile_seconds:.1f} s"
    )
    print(
        f"SciPy trust-constr: {np.median(theirs):.3f} s a solve (median of {len(theirs)}), {np.median(peer_rates):.1f} solves/s"
    )
    print(f"ratio of the medians: {np.median(rates) * np.median(theirs):.0f}")
    common = {
        "env": "synthetic point mass 3-D",
        "agent": "none",
        "teacher": "self_paced",
        "metric": "solves per second",
    }
    common["command"] = command_line("benchmarks.speed.context_solve")
    ours_record = measured_here(
        experiment="context-solve/spjax",
        seeds=list(range(len(rates))),
        values=rates,
        wall_seconds=float(np.median(ours)),
        compile_seconds=compile_seconds,
        **common,
    )
    peer_record = measured_here(
        experiment="context-solve/scipy-trust-constr",
        seeds=list(range(len(peer_rates))),
        values=peer_rates,
        wall_seconds=float(np.sum(theirs)),
        **common,
    )
    write_records(RESULTS, [ours_record, peer_record])


if __name__ == "__main__":
    main()
