"""What the context update promises of every family: the trust region, the optimum, and the speed of the exact solve.

    python -m benchmarks.families [--problems 100000] [--peers 200]

counts, over random problems of both rules and both trust regions, the returned distributions whose divergence, computed anew in
double precision by the textbook formula, exceeds max_kl; compares a few of them with SciPy; and times the exact solve of a
discrete distribution, which it compares with its closed form. Writes ``benchmarks/results/families.json``.
"""

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize

from benchmarks import command_line
from benchmarks.context_problems import (
    NASTY,
    ContextProblem,
    make_problem,
    objective,
    performance,
    solve_with_scipy,
)
from benchmarks.context_problems import kl_used as gaussian_kl_used
from spjax.analysis.records import measured_here
from spjax.contexts import Discrete, Gaussian
from spjax.runs.results import Record, write_records
from spjax.self_paced import update_context

RESULTS = Path(__file__).parent / "results" / "families.json"
CASES = [
    (rule, direction)
    for rule in ("proportion", "bound")
    for direction in ("old-new", "new-old")
]
BLOCK = 500  # lanes in lockstep
ROWS, EPISODES = 20, 32  # of the random discrete problems
BIG, LANES, REPEATS = 1_000, 64, 5  # rows, solves at once and runs of the timing


class DiscreteProblem(NamedTuple):
    """One problem, or a batch of them along leading axes; a rule uses ``alpha`` or ``performance_bound``."""

    old: np.ndarray  # logits
    target: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    alpha: np.ndarray
    performance_bound: np.ndarray
    max_kl: np.ndarray


def make_discrete(
    seed: int, rows: int = ROWS, episodes: int = EPISODES
) -> DiscreteProblem:
    """Returns a random problem in single precision, some of them with tiny weights, wide or tiny trust regions."""
    rng = np.random.default_rng([seed, rows])
    old, target = (
        rng.dirichlet(np.full(rows, rng.choice([0.2, 1.0]))),
        rng.dirichlet(np.full(rows, 0.3)),
    )
    old, target = (np.log(np.maximum(probs, 1e-12)) for probs in (old, target))
    drawn = rng.choice(rows, episodes, p=np.exp(old) / np.exp(old).sum())
    values = 5 + rng.normal(size=episodes) * rng.choice([0.1, 1.0, 10.0])
    numbers = (
        rng.choice([0.0, 0.01, 0.1, 1.0, 100.0]),
        values.mean() - rng.choice([1e-3, 0.1, 1.0]),
        rng.choice([1e-3, 0.05, 0.5]),
    )
    old, target, values, *numbers = (
        np.asarray(x, np.float32) for x in (old, target, values, *numbers)
    )
    return DiscreteProblem(old, target, drawn, values, *numbers)


def settings_of(problem: Any, rule: str, direction: str) -> dict[str, Any]:
    """Returns the settings of an update; V_LB counts as not reached before."""
    common = {"max_kl": problem.max_kl, "kl_direction": direction}
    if rule == "proportion":
        return common | {"alpha": problem.alpha}
    return common | {"performance_bound": problem.performance_bound, "reached": False}


def update_discrete(
    problem: DiscreteProblem, rule: str, direction: str
) -> tuple[jax.Array, jax.Array]:
    """Returns the new logits and the mode."""
    table = jnp.arange(problem.old.size, dtype=problem.old.dtype)[:, None]
    old, target = Discrete(table, problem.old), Discrete(table, problem.target)
    samples = (
        table[problem.rows],
        problem.values,
        jnp.ones(problem.values.shape, bool),
    )
    new, record = update_context(
        old, target, *samples, **settings_of(problem, rule, direction)
    )
    return new.logits, record.mode


def update_gaussian(
    problem: ContextProblem, rule: str, direction: str
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    """Returns the new mean and Cholesky factor, and the mode."""
    old = Gaussian(problem.old_mean, problem.old_chol)
    target = Gaussian(problem.target_mean, problem.target_chol)
    samples = (problem.contexts, problem.values, problem.mask)
    settings = settings_of(problem, rule, direction) | {"std_floor": problem.std_floor}
    new, record = update_context(old, target, *samples, **settings)
    return (new.mean, new.chol), record.mode


@functools.cache
def compiled(
    update: Callable[..., Any], rule: str, direction: str
) -> Callable[..., Any]:
    """Returns an update of a batch."""
    return jax.jit(jax.vmap(lambda problem: update(problem, rule, direction)))


def in_single_precision(problem: Any) -> Any:
    """Returns the problem with its numbers in float32, which are then exact for the double-precision check."""
    return jax.tree.map(
        lambda leaf: leaf.astype(np.float32) if leaf.dtype == float else leaf, problem
    )


def solve_all(
    problems: list[Any], update: Callable[..., Any], rule: str, direction: str
) -> tuple[Any, np.ndarray]:
    """Returns the new distributions and modes, solved in blocks; the last one is filled up."""
    solved = []
    for first in range(0, len(problems), BLOCK):
        block = problems[first : first + BLOCK]
        batch = jax.tree.map(
            lambda *leaves: np.stack(leaves),
            *block,
            *[block[-1]] * (BLOCK - len(block)),
        )
        solved.append(
            jax.tree.map(np.asarray, compiled(update, rule, direction)(batch))
        )
    return jax.tree.map(
        lambda *leaves: np.concatenate(leaves)[: len(problems)], *solved
    )


def log_probs(logits: np.ndarray) -> np.ndarray:
    """Returns normalised log probabilities in double precision."""
    logits = logits.astype(float)
    return logits - np.logaddexp.reduce(logits)


def discrete_kl(p: np.ndarray, q: np.ndarray) -> float:
    """Returns KL(p || q) of log probabilities by the textbook formula."""
    return float((np.exp(p) * (p - q)).sum())


def discrete_kl_used(
    problem: DiscreteProblem, new: np.ndarray, direction: str
) -> float:
    """Returns the constrained divergence of a result."""
    old, new = log_probs(problem.old), log_probs(new)
    return discrete_kl(old, new) if direction == "old-new" else discrete_kl(new, old)


def count_violations(family: str, count: int) -> Record:
    """Returns how many results exceed their trust region, for a quarter of the problems each case."""
    began, violations, largest = time.perf_counter(), [], -np.inf
    for case, (rule, direction) in enumerate(CASES):
        seeds = range(case * count // len(CASES), (case + 1) * count // len(CASES))
        if family == "gaussian":
            problems = [in_single_precision(make_problem(seed, 2)) for seed in seeds]
            (means, chols), _ = solve_all(problems, update_gaussian, rule, direction)
            exact = [
                jax.tree.map(lambda leaf: leaf.astype(float), problem)
                for problem in problems
            ]
            news = zip(means.astype(float), chols.astype(float), strict=True)
            used = [
                gaussian_kl_used(p, *new, direction)
                for p, new in zip(exact, news, strict=True)
            ]
        else:
            problems = [make_discrete(seed) for seed in seeds]
            logits, _ = solve_all(problems, update_discrete, rule, direction)
            used = [
                discrete_kl_used(p, new, direction)
                for p, new in zip(problems, logits, strict=True)
            ]
        excess = np.array(used) - [float(problem.max_kl) for problem in problems]
        violations.append(int((excess > 0).sum()))
        largest = max(largest, excess.max())
        print(
            f"{family} {rule} {direction}: {violations[-1]} of {len(problems)}, largest excess {largest:.1e}",
            flush=True,
        )
    return to_record(
        "violations of the KL bound",
        family,
        violations,
        began,
        problems=count,
        largest_excess=largest,
    )


def compare_with_scipy(family: str, count: int) -> Record:
    """Returns max(ours - SciPy's, 0) / scale for every problem, scale the improvement over the start."""
    began, gaps = time.perf_counter(), []
    compare = gaussian_gaps if family == "gaussian" else discrete_gaps
    for rule, direction in CASES:
        gaps += compare(rule, direction, count // len(CASES))
        print(
            f"{family} {rule} {direction}: largest shortfall {max(gaps):.1e}",
            flush=True,
        )
    return to_record(
        "largest shortfall against SciPy",
        family,
        [max(gaps)],
        began,
        problems=len(gaps),
    )


def gaussian_gaps(rule: str, direction: str, count: int) -> list[float]:
    """Returns the gaps of two-dimensional Gaussians on the plain problems, to ``trust-constr`` with the released options."""
    plain = [seed for seed in range(20 * count) if NASTY[seed % len(NASTY)] == "plain"][
        :count
    ]
    problems = [make_problem(seed, 2) for seed in plain]
    with jax.enable_x64(True):
        (means, chols), modes = solve_all(problems, update_gaussian, rule, direction)
    gaps = []
    for problem, mean, chol, mode in zip(problems, means, chols, modes, strict=True):
        solved = ("reward", "target", "frozen", "proportion")[mode]
        reference = solve_with_scipy(problem, solved, direction)
        feasible = gaussian_kl_used(
            problem, reference.mean, reference.chol, direction
        ) <= problem.max_kl * (1 + 1e-9)
        if solved == "target":
            feasible &= (
                performance(problem, reference.mean, reference.chol)
                >= problem.performance_bound - 1e-9
            )
        start = objective(problem, problem.old_mean, problem.old_chol, solved)
        theirs = (
            objective(problem, reference.mean, reference.chol, solved)
            if feasible
            else start
        )
        gaps.append(shortfall(start, objective(problem, mean, chol, solved), theirs))
    return gaps


def discrete_gaps(rule: str, direction: str, count: int) -> list[float]:
    """Returns the gaps of discrete distributions with eight rows, to SLSQP with tight tolerances."""
    problems = [make_discrete(seed, rows=8) for seed in range(count)]
    problems = [
        jax.tree.map(lambda leaf: leaf if leaf.dtype == int else leaf.astype(float), p)
        for p in problems
    ]
    with jax.enable_x64(True):
        news, modes = solve_all(problems, update_discrete, rule, direction)
    return [
        discrete_gap(p, new, int(mode), direction)
        for p, new, mode in zip(problems, news, modes, strict=True)
    ]


def discrete_gap(
    problem: DiscreteProblem, new: np.ndarray, mode: int, direction: str
) -> float:
    """Returns how much worse a result is than SLSQP's, in log probabilities up to a constant."""
    old, target = log_probs(problem.old), log_probs(problem.target)
    worth = np.zeros(old.size)
    np.add.at(worth, problem.rows, problem.values / problem.rows.size)
    worth /= np.exp(old)
    towards, reward = ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (float(problem.alpha), 1.0))[
        mode
    ]

    def cost(x: np.ndarray) -> float:
        p = log_probs(x)
        return towards * discrete_kl(p, target) - reward * float(np.exp(p) @ worth)

    def room(x: np.ndarray) -> float:
        return float(problem.max_kl) - discrete_kl_used(problem, x, direction)

    def surplus(x: np.ndarray) -> float:
        return float(np.exp(log_probs(x)) @ worth) - float(problem.performance_bound)

    held = [room, surplus] if mode == 1 else [room]
    constraints = [{"type": "ineq", "fun": function} for function in held]
    found = minimize(
        cost,
        old,
        method="SLSQP",
        constraints=constraints,
        options={"ftol": 1e-13, "maxiter": 500},
    ).x
    feasible = (
        np.isfinite(found).all() and min(function(found) for function in held) >= -1e-9
    )
    return shortfall(cost(old), cost(new), cost(found) if feasible else cost(old))


def shortfall(start: float, ours: float, theirs: float) -> float:
    """Returns how much of the achievable improvement is missing."""
    theirs = min(theirs, start)
    return max(ours - theirs, 0.0) / max(
        start - min(ours, theirs), 1e-9 * (1 + abs(start))
    )


def time_exact_solve() -> Record:
    """Returns milliseconds a solve of a thousand rows, in a batch, and how far the probabilities are from the closed form."""
    began = time.perf_counter()
    problems = [
        make_discrete(seed, rows=BIG, episodes=EPISODES) for seed in range(LANES)
    ]
    problems = [
        problem._replace(alpha=np.float32(0.1), max_kl=np.float32(0.05))
        for problem in problems
    ]
    batch = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *problems)
    solve = jax.jit(
        jax.vmap(lambda problem: update_discrete(problem, "proportion", "new-old")[0])
    )
    start = time.perf_counter()
    run = solve.lower(batch).compile()
    compile_seconds = time.perf_counter() - start
    logits, seconds = np.asarray(run(batch)), []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run(batch))
        seconds.append(time.perf_counter() - start)
    apart = max(
        np.abs(np.exp(log_probs(new)) - closed_form(p)).max()
        for p, new in zip(problems, logits, strict=True)
    )
    milliseconds = [1e3 * s / LANES for s in seconds]
    print(
        f"{BIG} rows: {np.median(milliseconds):.3f} ms a solve, probabilities within {apart:.1e} of the closed form"
    )
    metric, extra = (
        "discrete, 1,000 contexts: ms a solve",
        {"batch": LANES, "largest_difference": apart},
    )
    record = to_record(metric, "discrete", milliseconds, began, **extra)
    return Record(**{**record, "compile_seconds": compile_seconds})


def closed_form(problem: DiscreteProblem) -> np.ndarray:
    """Returns the probabilities (q^l target^a exp(g))^(1 / (a + l)), l by Brent's method."""
    old, target, alpha = (
        log_probs(problem.old),
        log_probs(problem.target),
        float(problem.alpha),
    )
    worth = np.zeros(old.size)
    np.add.at(worth, problem.rows, problem.values.astype(float) / problem.rows.size)
    exponent = alpha * target + worth / np.exp(old)

    def tilted(log_multiplier: float) -> np.ndarray:
        multiplier = np.exp(log_multiplier)
        return log_probs((multiplier * old + exponent) / (alpha + multiplier))

    root = brentq(
        lambda x: discrete_kl(tilted(x), old) - float(problem.max_kl),
        -30,
        30,
        xtol=1e-13,
    )
    return np.exp(tilted(root))


def to_record(
    metric: str, family: str, values: list[float], began: float, **settings: float
) -> Record:
    """Returns one record of this experiment."""
    return measured_here(
        experiment="families",
        env="synthetic",
        agent="none",
        teacher="self-paced",
        settings={
            "family": family,
            **{name: float(value) for name, value in settings.items()},
        },
        metric=metric,
        seeds=list(range(len(values))),
        values=values,
        wall_seconds=round(time.perf_counter() - began, 1),
        command=command_line("benchmarks.families"),
    )


def main() -> None:
    """Measures and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--problems",
        type=int,
        default=100_000,
        help="of each family, for the trust region",
    )
    parser.add_argument(
        "--peers", type=int, default=200, help="of each family, that SciPy solves"
    )
    arguments = parser.parse_args()
    records = [time_exact_solve()]
    records += [
        compare_with_scipy(family, arguments.peers)
        for family in ("gaussian", "discrete")
    ]
    records += [
        count_violations(family, arguments.problems)
        for family in ("gaussian", "discrete")
    ]
    write_records(RESULTS, records)


if __name__ == "__main__":
    main()
