"""What the context update promises of the families on a box and of mixtures; the counterpart of `benchmarks.families` for them.

    python -m benchmarks.family_checks [--families beta mixture] [--problems 100000] [--peers 200] [--batch 1000]

counts the returned distributions that leave their trust region, over random problems of both rules and both directions; compares
with SciPy's SLSQP, started where the update starts and, as a second chance, where it ended; and counts solves a second of
processor time. Writes ``benchmarks/results/family_checks.json``, beside what the file has of other families.
"""

import argparse
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from benchmarks import command_line
from benchmarks.families import BLOCK, CASES, settings_of, shortfall
from benchmarks.family_problems import (
    NASTY,
    REFERENCES,
    FamilyProblem,
    Reference,
    excess_of,
    in_double,
    make_family_problem,
)
from spjax.analysis.records import measured_here
from spjax.runs.results import Record, write_records_beside
from spjax.self_paced import ContextUpdate, update_context

RESULTS = Path(__file__).parent / "results" / "family_checks.json"
REPEATS = 5  # runs of a timing
TOLERANCE = 1e-9  # by which SciPy may break a constraint


class Checked(NamedTuple):
    """A problem and what came of it."""

    problem: FamilyProblem
    new: Any
    record: ContextUpdate


@functools.cache
def compiled(rule: str, direction: str) -> Callable[..., Any]:
    """Returns an update of a batch of problems of any family."""

    def update(problem: FamilyProblem) -> tuple[Any, ContextUpdate]:
        samples = (problem.contexts, problem.values, problem.mask)
        settings = settings_of(problem, rule, direction)
        return update_context(problem.old, problem.target, *samples, **settings)

    return jax.jit(jax.vmap(update))


def solved(
    problems: list[FamilyProblem], rule: str, direction: str
) -> Iterator[Checked]:
    """Yields the problems with their results, solved in blocks of one size; the last one is filled up."""
    for first in range(0, len(problems), BLOCK):
        part = problems[first : first + BLOCK]
        filled = [*part, *[part[-1]] * (BLOCK - len(part))]
        batch = jax.tree.map(lambda *leaves: np.stack(leaves), *filled)
        results = jax.tree.map(np.asarray, compiled(rule, direction)(batch))
        for number, problem in enumerate(part):
            one = jax.tree.map(lambda leaf, number=number: leaf[number], results)
            yield Checked(problem, *one)


def count_violations(reference: Reference, count: int) -> list[Record]:
    """Returns how many results exceed their trust region, by how much at most, and how many solves converged."""
    began, violations, converged, largest = time.perf_counter(), [], [], []
    for case, (rule, direction) in enumerate(CASES):
        seeds = range(case * count // len(CASES), (case + 1) * count // len(CASES))
        problems = [make_family_problem(reference, seed) for seed in seeds]
        checked = list(solved(problems, rule, direction))
        excess = [excess_of(reference, p, new, direction) for p, new, _ in checked]
        violations.append(int((np.array(excess) > 0).sum()))
        largest.append(max(excess))
        converged.append(np.mean([one.record.result == 0 for one in checked]))
        print(
            f"{reference.name} {rule} {direction}: {violations[-1]} of {len(problems)}, largest excess {largest[-1]:.1e}, "
            f"{100 * converged[-1]:.2f} % converged",
            flush=True,
        )
    measured = {
        "violations of the KL bound": violations,
        "largest excess over max_kl": largest,
        "share of converged solves": converged,
    }
    return [
        to_record(metric, reference, values, began, problems=count)
        for metric, values in measured.items()
    ]


def compare_with_scipy(reference: Reference, count: int) -> list[Record]:
    """Returns how much of the improvement is missing that SLSQP finds, at most, for each case."""
    began, gaps = time.perf_counter(), []
    for rule, direction in CASES:
        plain = [s for s in range(20 * count) if NASTY[s % len(NASTY)] == "plain"]
        problems = [
            make_family_problem(reference, seed)
            for seed in plain[: count // len(CASES)]
        ]
        checked = solved(problems, rule, direction)
        gaps.append(max(gap_of(reference, one, direction) for one in checked))
        print(
            f"{reference.name} {rule} {direction}: largest shortfall {gaps[-1]:.1e}",
            flush=True,
        )
    metric = "largest shortfall against SciPy"
    return [to_record(metric, reference, gaps, began, problems=count)]


def gap_of(reference: Reference, checked: Checked, direction: str) -> float:
    """Returns how much worse a result is than the better of SLSQP's two, as a share of the improvement."""
    problem, new = _in_double_precision(checked.problem), in_double(checked.new)
    mode = int(checked.record.mode)  # reward, target, frozen, proportion
    alpha = float(problem.alpha)
    towards, reward = ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (alpha, 1.0))[mode]
    contexts, values = problem.contexts[problem.mask], problem.values[problem.mask]
    start = reference.log_density(problem.old, contexts)

    def performance(p: Any) -> float:
        ratios = np.exp(reference.log_density(p, contexts) - start)
        return float((ratios * values).mean())

    def cost(p: Any) -> float:
        return towards * reference.kl(p, problem.target) - reward * performance(p)

    def rooms(p: Any) -> np.ndarray:
        pair = (problem.old, p) if direction == "old-new" else (p, problem.old)
        limit = float(problem.max_kl)
        found = [1 - reference.kl(*pair) / limit, *reference.room(p)]
        if mode == 1:
            found.append(performance(p) - float(problem.performance_bound))
        return np.array(found)

    best = cost(problem.old)
    for origin in (problem.old, new):
        at = functools.partial(reference.at, origin)
        with np.errstate(all="ignore"):
            x = minimize(
                lambda x, at=at: cost(at(x)),
                np.zeros(reference.size(problem.old)),
                method="SLSQP",
                constraints=[{"type": "ineq", "fun": lambda x, at=at: rooms(at(x))}],
                options={"ftol": 1e-13, "maxiter": 300},
            ).x
            found, room = cost(at(x)), rooms(at(x))
        if np.isfinite(found) and (room >= -TOLERANCE).all():
            best = min(best, found)
    return shortfall(cost(problem.old), cost(new), best)


def time_solves(reference: Reference, count: int) -> list[Record]:
    """Returns solves a second of processor time, of a batch of plain problems in single precision, by the rule with alpha."""
    began = time.perf_counter()
    plain = [s for s in range(6 * count) if NASTY[s % len(NASTY)] == "plain"]
    problems = [make_family_problem(reference, seed) for seed in plain[:count]]
    batch = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *problems)
    run = compiled("proportion", "old-new")
    jax.block_until_ready(run(batch))
    rates = []
    for _ in range(REPEATS):
        start = time.process_time()
        jax.block_until_ready(run(batch))
        rates.append(count / (time.process_time() - start))
    metric = "solves a second of processor time"
    print(f"{reference.name}: {np.median(rates):.0f} {metric}", flush=True)
    record = to_record(metric, reference, rates, began, batch=count)
    return [record]


def to_record(
    metric: str, reference: Reference, values: list[float], began: float, **how: int
) -> Record:
    """Returns one record of this experiment."""
    return measured_here(
        experiment="family_checks",
        env="synthetic",
        agent="none",
        teacher="self-paced",
        settings={"family": reference.name, **how},
        metric=metric,
        seeds=list(range(len(values))),
        values=[float(value) for value in values],
        wall_seconds=round(time.perf_counter() - began, 1),
        command=command_line("benchmarks.family_checks"),
    )


def _in_double_precision(problem: FamilyProblem) -> FamilyProblem:
    """Returns the problem with its numbers in double precision, for the reference."""
    numbers = [
        in_double(leaf) if field != "mask" else leaf
        for field, leaf in zip(problem._fields, problem, strict=True)
    ]
    return FamilyProblem(*numbers)


def main() -> None:
    """Measures and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=REFERENCES, default=REFERENCES)
    parser.add_argument("--problems", type=int, default=100_000, help="of each family")
    parser.add_argument("--peers", type=int, default=200, help="that SciPy solves")
    parser.add_argument("--batch", type=int, default=1_000, help="of the timing")
    arguments = parser.parse_args()
    for name in arguments.families:
        reference = REFERENCES[name]
        records = count_violations(reference, arguments.problems)
        records += time_solves(reference, arguments.batch) if arguments.batch else []
        if arguments.peers:
            records += compare_with_scipy(reference, arguments.peers)
        write_records_beside(RESULTS, records)


if __name__ == "__main__":
    main()
