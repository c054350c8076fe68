"""How good the duals of C-REPS and SPRL are solved: against SciPy's L-BFGS-B on recorded and random problems.

    python -m benchmarks.dual_accuracy [--random 400]

prints, for each kind of problem, the largest relative differences of the minimum and of the minimiser, and writes
``benchmarks/results/dual-accuracy.json``. SciPy's minimiser is corrected as `benchmarks.dual_problems.minimise_by_scipy`
describes; how far SciPy was off itself is printed too. In single precision it checks that everything is finite and how far
divergences are above their bound.
"""

import argparse
import multiprocessing
import os
import pathlib
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import command_line
from benchmarks.dual_problems import (
    KINDS,
    DualProblem,
    Reference,
    minimise_by_scipy,
    random_problem,
    recorded_problems,
    spread,
)
from spjax.agents.episodic.dual import Weights, creps_weights, sprl_weights
from spjax.analysis.records import measured_here
from spjax.runs.results import write_records

RESULTS = pathlib.Path(__file__).parent / "results" / "dual-accuracy.json"


class Differences(NamedTuple):
    """Largest differences from the reference."""

    value: float  # of the minimum, relative
    temperatures: float  # relative
    chi: float  # relative to its largest entry, or to the spread of the rewards where it is all smaller
    weights: float  # relative to the largest weight
    scipy_weights: float  # the same of SciPy's result before its correction


def solve(problem: DualProblem, dtype: str = "float64") -> Weights:
    """Returns our minimum."""
    with jax.enable_x64(dtype == "float64"):
        given = [jnp.asarray(part, dtype) for part in problem if part is not None]
        return jax.tree.map(
            np.asarray, (_creps if problem.log_ratios is None else _sprl)(*given)
        )


def unknown(problem: DualProblem, found: Weights) -> np.ndarray:
    """Returns our minimiser as (multipliers, chi)."""
    return np.concatenate(
        [found.minimiser.temperatures - problem.bases, found.minimiser.chi]
    )


def compare(problem: DualProblem, found: Weights, reference: Reference) -> Differences:
    """Returns how far our minimum is from SciPy's."""
    count, unit = problem.num_multipliers, spread(problem.rewards)
    exact, chi = problem.weights(reference.exact), reference.exact[count:]
    temperatures = reference.exact[:count] + problem.bases
    ours = [np.asarray(found.policy), np.asarray(found.context)][:count]
    return Differences(
        value=abs(float(found.value) - reference.value) / abs(reference.value),
        temperatures=float(
            np.abs(found.minimiser.temperatures / temperatures - 1).max()
        ),
        chi=float(
            np.abs(found.minimiser.chi - chi).max() / max(np.abs(chi).max(), unit)
        ),
        weights=_distance(ours, exact),
        scipy_weights=_distance(problem.weights(reference.scipy), exact),
    )


def excess_in_single_precision(problem: DualProblem) -> float:
    """Returns by what share of the bound the larger divergence exceeds it; infinite where anything is not finite."""
    found = solve(problem, "float32")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found)):
        return np.inf
    return (
        max(divergence(np.asarray(part)) for part in (found.policy, found.context))
        / problem.max_kl
        - 1
    )


def divergence(weights: np.ndarray) -> float:
    """Returns the KL divergence of weights from uniform ones, nats."""
    weights = weights.astype(float) / weights.sum(dtype=float)
    positive = weights[weights > 0]
    return float(positive @ np.log(positive * len(weights)))


def problems(num_random: int) -> list[tuple[str, DualProblem]]:
    """Returns the recorded problems and random ones of all kinds, with their kinds."""
    random = np.random.default_rng(0)
    drawn = []
    for i in range(num_random):
        kind, method = KINDS[i // 2 % len(KINDS)], ("sprl", "creps")[i % 2]
        drawn.append((kind, random_problem(random, kind, method)))
    return [("recorded", problem) for problem in recorded_problems()] + drawn


def main() -> None:
    """Compares, prints and writes the records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--random", type=int, default=400, help="problems besides the 100 recorded ones"
    )
    arguments = parser.parse_args()
    began, (kinds, duals) = (
        time.perf_counter(),
        zip(*problems(arguments.random), strict=True),
    )
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        references = pool.map(minimise_by_scipy, duals, chunksize=8)
    rows = [
        [
            *compare(problem, solve(problem), reference),
            excess_in_single_precision(problem),
        ]
        for problem, reference in zip(duals, references, strict=True)
    ]
    table, names = np.array(rows), (*Differences._fields, "float32_kl_excess")
    print(f"{'largest':12} {'problems':>8}  " + "  ".join(names))
    for kind in ("recorded", *KINDS):
        chosen = table[np.array(kinds) == kind]
        if len(chosen):
            print(
                f"{kind:12} {len(chosen):8d}  "
                + "  ".join(
                    f"{value:{len(n)}.1e}"
                    for n, value in zip(names, chosen.max(0), strict=True)
                )
            )
    worst = table[:, :4].max(axis=1)
    print(
        f"{(worst <= 1e-6).sum()} of {len(worst)} agree to 1e-6, the worst to {worst.max():.1e}"
    )
    records = [
        measured_here(
            experiment=f"dual-accuracy/{name}",
            env="synthetic and gate",
            agent="sprl and c-reps",
            teacher="none",
            metric=f"{name}: relative",
            seeds=list(range(len(table))),
            values=[float(f"{value:.3e}") for value in column],
            wall_seconds=time.perf_counter() - began,
            command=command_line("benchmarks.dual_accuracy"),
        )
        for name, column in zip(names, table.T, strict=True)
    ]
    write_records(RESULTS, records)


@jax.jit
def _sprl(rewards, features, log_ratios, alpha, max_kl, ridge):  # type: ignore[no-untyped-def]
    return sprl_weights(
        rewards, features, log_ratios, alpha=alpha, max_kl=max_kl, ridge=ridge
    )


@jax.jit
def _creps(rewards, features, mean_features, alpha, max_kl, ridge):  # type: ignore[no-untyped-def]
    return creps_weights(rewards, features, mean_features, max_kl=max_kl, ridge=ridge)


def _distance(weights: list[np.ndarray], expected: list[np.ndarray]) -> float:
    return max(
        float(np.abs(a - b).max() / b.max())
        for a, b in zip(weights, expected, strict=True)
    )


if __name__ == "__main__":
    main()
