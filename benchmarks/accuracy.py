"""How good the context update is: against SciPy's ``trust-constr`` on random and nasty problems.

    python -m benchmarks.accuracy [--problems 2000]

prints, for each rule and trust region, how many problems end worse than SciPy's result by more than 1e-4 of the
achievable improvement, and writes ``benchmarks/results/context-solve-accuracy.json``. Where performance is maximised the
search for outlying local optima is on.
"""

import argparse
import multiprocessing
import os
import pathlib
import time
from multiprocessing.pool import Pool

import jax
import numpy as np

from benchmarks import command_line
from benchmarks.context_problems import (
    NASTY,
    ContextProblem,
    kl_used,
    make_problem,
    objective,
    performance,
    solve_with_scipy,
)
from spjax.analysis.records import measured_here
from spjax.contexts import Gaussian
from spjax.runs.results import Record, write_records
from spjax.self_paced import update_context

DIMS = (1, 2, 3, 5)
SHARES = {
    "proportion": 0.4,
    "target": 0.1,
}  # of the problems, for each trust region; SciPy is slow on the second rule
RULES = tuple(SHARES)
DIRECTIONS = ("old-new", "new-old")
RESULTS = pathlib.Path(__file__).parent / "results" / "context-solve-accuracy.json"


def solve_batch(
    problems: list[ContextProblem], rule: str, direction: str, dtype: str
) -> tuple[Gaussian, np.ndarray]:
    """Returns the results of `update_context` and the result codes, for problems of one dimension."""
    with jax.enable_x64(dtype == "float64"):
        batch = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
        batch = jax.tree.map(
            lambda leaf: leaf if leaf.dtype == bool else leaf.astype(dtype), batch
        )

        def solve(problem: ContextProblem) -> tuple[Gaussian, jax.Array]:
            old = Gaussian(problem.old_mean, problem.old_chol)
            target = Gaussian(problem.target_mean, problem.target_chol)
            samples = (problem.contexts, problem.values, problem.mask)
            settings = {
                "max_kl": problem.max_kl,
                "std_floor": problem.std_floor,
                "kl_direction": direction,
            }
            settings["search_outliers"] = rule == "proportion"
            if rule == "proportion":
                settings["alpha"] = problem.alpha
            else:
                bound = (
                    problem.performance_bound
                    if rule == "target"
                    else np.asarray(1e30, dtype)
                )
                settings |= {"performance_bound": bound, "reached": False}
            new, update = update_context(old, target, *samples, **settings)
            return new, update.result

        new, codes = jax.jit(jax.vmap(solve))(batch)
        return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), new), np.asarray(
            codes
        )


def relative_gap(
    problem: ContextProblem,
    mean: np.ndarray,
    chol: np.ndarray,
    rule: str,
    direction: str,
) -> float:
    """Returns (ours - SciPy's) / achievable improvement; positive where ours is worse.

    A result of SciPy that breaks a constraint by more than 1e-9 counts as no improvement.
    """
    reference = solve_with_scipy(problem, rule, direction)
    start = objective(problem, problem.old_mean, problem.old_chol, rule)
    ours = objective(problem, mean, chol, rule)
    theirs = objective(problem, reference.mean, reference.chol, rule)
    feasible = kl_used(
        problem, reference.mean, reference.chol, direction
    ) <= problem.max_kl * (1 + 1e-9)
    if rule == "target":
        feasible &= (
            performance(problem, reference.mean, reference.chol)
            >= problem.performance_bound - 1e-9
        )
    theirs = min(theirs, start) if feasible else start
    noise = 1e-12 * (1 + abs(start))
    return (ours - theirs) / max(start - min(ours, theirs), noise)


def _gap(task: tuple[ContextProblem, np.ndarray, np.ndarray, str, str]) -> float:
    return relative_gap(*task)


def _start_worker() -> None:
    jax.config.update(
        "jax_enable_x64", True
    )  # spares a switch at every call from SciPy


def compare(count: int, rule: str, direction: str, pool: Pool) -> Record:
    """Returns one results record of ``count`` problems, spread over the dimensions."""
    began, compared, gaps, excess, converged = time.perf_counter(), 0, [], [], []
    for dim in DIMS:
        problems = [make_problem(seed, dim) for seed in range(count // len(DIMS))]
        new, codes = solve_batch(problems, rule, direction, "float64")
        tasks = [
            (problem, new.mean[i], new.chol[i], rule, direction)
            for i, problem in enumerate(problems)
        ]
        dim_gaps = pool.map(_gap, tasks, chunksize=8)
        used = [kl_used(*task[:3], direction) / task[0].max_kl - 1 for task in tasks]
        for seed in np.flatnonzero(np.asarray(dim_gaps) > 1e-4):
            print(
                f"  worse by {dim_gaps[seed]:.1e}: seed {seed}, dim {dim}, {NASTY[seed % len(NASTY)]}, code {codes[seed]}"
            )
        gaps, excess, converged = (
            gaps + dim_gaps,
            excess + used,
            [*converged, *(codes == 0)],
        )
        compared += len(problems)
    gaps = np.asarray(gaps)
    print(
        f"{rule:10s} {direction}: {compared} problems, {np.mean(converged):.2%} converged, "
        f"{(gaps > 1e-4).sum()} worse than SciPy by > 1e-4 (worst {gaps.max():.1e}), "
        f"{(gaps < -1e-4).sum()} better by > 1e-4, largest KL excess {np.max(excess):.1e}",
        flush=True,
    )
    return measured_here(
        experiment=f"context-solve-accuracy/{rule}/{direction}",
        env="synthetic",
        agent="none",
        teacher="self_paced",
        metric="(objective - trust-constr objective) / achievable improvement",
        seeds=list(range(gaps.size)),
        values=[float(f"{gap:.3e}") for gap in gaps],
        wall_seconds=time.perf_counter() - began,
        command=command_line("benchmarks.accuracy"),
    )


def main() -> None:
    """Runs the comparison and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--problems",
        type=int,
        default=2000,
        help="in all, over rules and trust regions",
    )
    arguments = parser.parse_args()
    cases = [(rule, direction) for rule in RULES for direction in DIRECTIONS]
    os.environ |= {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # of the workers
    with multiprocessing.get_context("spawn").Pool(
        os.cpu_count(), _start_worker
    ) as pool:
        records = [
            compare(int(SHARES[case[0]] * arguments.problems), *case, pool)
            for case in cases
        ]
    write_records(RESULTS, records)


if __name__ == "__main__":
    main()
