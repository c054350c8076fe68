"""What the context update promises of every family: the trust region, the optimum, and its speed.

    python -m benchmarks.families [--families beta mixture] [--problems 100000] [--peers 200] [--batch 1000]

counts, over random problems of both rules and both directions, the returned distributions that leave their trust region, and
the solves that converged to its edge and returned much less of it; compares with SciPy's SLSQP, started where the update starts
and, as a second chance, where it ended; counts solves a second of processor time; and times the exact solve of a discrete
distribution, which it compares with its closed form. Writes ``benchmarks/results/families.json``, beside what the file has of
other families.

    python -m benchmarks.families --double [--families beta mixture] [--problems 100000]

counts the first in double precision, and nothing else. How many updates have been counted in both, of all families together,
and how many of them left their trust region, is in ``benchmarks/results/fuzz.json``.
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
from scipy.optimize import brentq, minimize
from scipy.special import log_softmax

from benchmarks import command_line
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
from spjax.contexts import Discrete
from spjax.runs.results import (
    Record,
    read_records,
    write_records,
    write_records_beside,
)
from spjax.self_paced import ContextUpdate, update_context

RESULTS = Path(__file__).parent / "results" / "families.json"
FUZZ = RESULTS.with_name("fuzz.json")
VIOLATIONS = "violations of the KL bound"
CASES = [
    (rule, direction)
    for rule in ("proportion", "bound")
    for direction in ("old-new", "new-old")
]
BLOCK = 500  # lanes in lockstep
REPEATS = 5  # runs of a timing
ROWS, EPISODES, LANES = 1_000, 32, 64  # of the exact solve that is timed
ALPHA, MAX_KL = 0.1, 0.05
CLOSE = 1e-4  # a shortfall below it is none
PRICED = 1e-4  # what more max_kl is worth, a max_kl, where it ends a step
KEPT = 0.9  # of the trust region, where it ends the step
TOLERANCE = 1e-9  # by which SciPy may break a constraint


class Checked(NamedTuple):
    """A problem and what came of it."""

    problem: FamilyProblem
    new: Any
    record: ContextUpdate


def settings_of(problem: FamilyProblem, rule: str, direction: str) -> dict[str, Any]:
    """Returns the settings of an update; V_LB counts as not reached before."""
    common = {"max_kl": problem.max_kl, "kl_direction": direction}
    common["std_floor"] = problem.std_floor
    if rule == "proportion":
        return common | {"alpha": problem.alpha}
    return common | {"performance_bound": problem.performance_bound, "reached": False}


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


def count_violations(
    reference: Reference, count: int, double: bool = False
) -> list[Record]:
    """Returns how many results exceed their trust region, by how much at most, and how many solves converged.

    In double precision where asked, for which ``jax_enable_x64`` is on.
    """
    began, violations, converged, largest = time.perf_counter(), [], [], []
    lost = []
    for case, (rule, direction) in enumerate(CASES):
        seeds = range(case * count // len(CASES), (case + 1) * count // len(CASES))
        problems = [make_family_problem(reference, seed) for seed in seeds]
        if double:
            problems = [_in_double_precision(problem) for problem in problems]
        checked = list(solved(problems, rule, direction))
        excess = [excess_of(reference, p, new, direction) for p, new, _ in checked]
        violations.append(int((np.array(excess) > 0).sum()))
        largest.append(max(excess))
        converged.append(np.mean([one.record.result == 0 for one in checked]))
        lost.append(sum(is_lost(one) for one in checked))
        print(
            f"{reference.name} {rule} {direction}: {violations[-1]} of {len(problems)}, largest excess {largest[-1]:.1e}, "
            f"{100 * converged[-1]:.2f} % converged, {lost[-1]} lost their step",
            flush=True,
        )
    measured = {
        VIOLATIONS: violations,
        "largest excess over max_kl": largest,
        "share of converged solves": converged,
        "steps to the edge of the trust region of which less is returned": lost,
    }
    how = {"problems": count} | ({"precision": "double"} if double else {})
    return [
        to_record(metric, reference, values, began, **how)
        for metric, values in measured.items()
    ]


def totals_of(records: list[Record]) -> list[Record]:
    """Returns how many updates have been counted, of all families and in both precisions, and how many violations.

    Problems are numbered, so that of two counts of one family and precision the longer one has the shorter one's.
    """
    of_violations = [record for record in records if record["metric"] == VIOLATIONS]
    of_violations.sort(key=lambda record: record["settings"]["problems"])
    counted = {
        (record["settings"]["family"], record["settings"].get("precision")): record
        for record in of_violations
    }.values()
    totals = {
        VIOLATIONS: sum(sum(record["values"]) for record in counted),
        "problems": sum(record["settings"]["problems"] for record in counted),
    }
    families = sorted({record["settings"]["family"] for record in counted})
    return [
        measured_here(
            experiment="fuzz",
            env="synthetic",
            agent="none",
            teacher="self-paced",
            settings={"families": ", ".join(families)},
            metric=metric,
            seeds=[0],
            values=[float(value)],
            command="python -m benchmarks.families",
        )
        for metric, value in totals.items()
    ]


def is_lost(checked: Checked) -> bool:
    """Returns whether the trust region ends the step of the solution, but the rounded result goes less of the way."""
    record, max_kl = checked.record, float(checked.problem.max_kl)
    ended = record.result == 0 and record.kl_price * max_kl > PRICED
    return bool(ended and record.kl < KEPT * max_kl)


def compare_with_scipy(reference: Reference, count: int) -> list[Record]:
    """Returns how much of the improvement is missing that SLSQP finds, at most, for each case; both in double precision."""
    began, gaps = time.perf_counter(), []
    plain = [s for s in range(20 * count) if NASTY[s % len(NASTY)] == "plain"]
    problems = [
        _in_double_precision(make_family_problem(reference, seed))
        for seed in plain[: count // len(CASES)]
    ]
    for rule, direction in CASES:
        with jax.enable_x64(True):
            checked = list(solved(problems, rule, direction))
        found = [gap_of(reference, one, direction) for one in checked]
        gaps.append(max(found))
        apart = sum(gap > CLOSE for gap in found)
        print(
            f"{reference.name} {rule} {direction}: largest shortfall {gaps[-1]:.1e}, {apart} above {CLOSE:g}",
            flush=True,
        )
    metric = "largest shortfall against SciPy"
    return [to_record(metric, reference, gaps, began, problems=count)]


def gap_of(reference: Reference, checked: Checked, direction: str) -> float:
    """Returns how much worse a result is than the better of SLSQP's two, as a share of the improvement."""
    problem, new = checked.problem, checked.new
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


def shortfall(start: float, ours: float, theirs: float) -> float:
    """Returns how much of the achievable improvement is missing."""
    theirs = min(theirs, start)
    return max(ours - theirs, 0.0) / max(
        start - min(ours, theirs), 1e-9 * (1 + abs(start))
    )


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


def time_exact_solve() -> Record:
    """Returns milliseconds a solve of a thousand rows, in a batch, and how far the probabilities are from the closed form."""
    began = time.perf_counter()
    rng = np.random.default_rng(0)
    table = jnp.arange(float(ROWS))[:, None]
    old, target = np.log(rng.dirichlet(np.full(ROWS, 1.0), (2, LANES)) + 1e-12)
    drawn = np.stack(
        [rng.choice(ROWS, EPISODES, p=np.exp(log_softmax(o))) for o in old]
    )
    values = 5 + rng.normal(size=(LANES, EPISODES))
    old, target, values = (x.astype(np.float32) for x in (old, target, values))

    def update(
        old: jax.Array, target: jax.Array, rows: jax.Array, values: jax.Array
    ) -> jax.Array:
        samples = (table[rows], values, jnp.ones(EPISODES, bool))
        settings = {"alpha": ALPHA, "max_kl": MAX_KL, "kl_direction": "new-old"}
        distributions = (Discrete(table, old), Discrete(table, target))
        return update_context(*distributions, *samples, **settings)[0].logits

    batch = tuple(jnp.asarray(x) for x in (old, target, drawn, values))
    start = time.perf_counter()
    run = jax.jit(jax.vmap(update)).lower(*batch).compile()
    compile_seconds = time.perf_counter() - start
    logits, seconds = np.asarray(run(*batch)), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run(*batch))
        seconds.append(time.perf_counter() - start)
    apart = max(
        np.abs(np.exp(log_softmax(new.astype(float))) - closed_form(*problem)).max()
        for new, *problem in zip(logits, old, target, drawn, values, strict=True)
    )
    milliseconds = [1e3 * s / LANES for s in seconds]
    metric = "discrete, 1,000 contexts: ms a solve"
    print(
        f"{metric}: {np.median(milliseconds):.3f}, probabilities within {apart:.1e} of the closed form"
    )
    settings = {"batch": LANES, "largest_difference": float(apart)}
    record = to_record(metric, REFERENCES["discrete"], milliseconds, began, **settings)
    return Record(**{**record, "compile_seconds": compile_seconds})


def closed_form(
    old: np.ndarray, target: np.ndarray, rows: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Returns the probabilities (q^l target^a exp(g))^(1 / (a + l)), l by Brent's method."""
    old, target = (log_softmax(x.astype(float)) for x in (old, target))
    worth = np.zeros(old.size)
    np.add.at(worth, rows, values.astype(float) / rows.size)
    exponent = float(np.float32(ALPHA)) * target + worth / np.exp(old)

    def tilted(log_multiplier: float) -> np.ndarray:
        multiplier = np.exp(log_multiplier)
        return log_softmax((multiplier * old + exponent) / (ALPHA + multiplier))

    def excess(log_multiplier: float) -> float:
        new = tilted(log_multiplier)
        return float((np.exp(new) * (new - old)).sum() - np.float32(MAX_KL))

    return np.exp(tilted(brentq(excess, -30, 30, xtol=1e-13)))


def to_record(
    metric: str,
    reference: Reference,
    values: list[float],
    began: float,
    **how: float | str,
) -> Record:
    """Returns one record of this experiment."""
    return measured_here(
        experiment="families",
        env="synthetic",
        agent="none",
        teacher="self-paced",
        settings={"family": reference.name, **how},
        metric=metric,
        seeds=list(range(len(values))),
        values=[float(value) for value in values],
        wall_seconds=round(time.perf_counter() - began, 1),
        command=command_line("benchmarks.families"),
    )


def _in_double_precision(problem: FamilyProblem) -> FamilyProblem:
    """Returns the problem with its numbers in double precision, for the reference."""
    numbers = {
        field: in_double(leaf)
        for field, leaf in problem._asdict().items()
        if field not in ("mask", "std_floor")
    }
    return problem._replace(**numbers)


def main() -> None:
    """Measures and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=REFERENCES, default=REFERENCES)
    parser.add_argument(
        "--problems",
        type=int,
        default=100_000,
        help="of each family; 0 leaves a part out, here and below",
    )
    parser.add_argument("--peers", type=int, default=200, help="that SciPy solves")
    parser.add_argument("--batch", type=int, default=1_000, help="of the timing")
    parser.add_argument(
        "--double", action="store_true", help="count in double precision, that alone"
    )
    arguments = parser.parse_args()
    if arguments.double:
        jax.config.update("jax_enable_x64", True)
        arguments.batch = arguments.peers = 0
    if arguments.batch and "discrete" in arguments.families:
        write_records_beside(RESULTS, [time_exact_solve()])
    for name in arguments.families:
        reference = REFERENCES[name]
        records = []
        if arguments.problems:
            records += count_violations(reference, arguments.problems, arguments.double)
        records += time_solves(reference, arguments.batch) if arguments.batch else []
        if arguments.peers:
            records += compare_with_scipy(reference, arguments.peers)
        write_records_beside(RESULTS, records)
        write_records(FUZZ, totals_of(read_records(RESULTS)))


if __name__ == "__main__":
    main()
