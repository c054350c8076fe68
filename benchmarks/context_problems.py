"""Context-update problems for tests and benchmarks, with an independent statement of them for SciPy.

The reference works in the parameters of the released code, x = [mean, log diag L, strictly lower L row by row], with the textbook
densities and divergences, and shares nothing with the solver under test.
"""

import functools
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import Bounds, NonlinearConstraint, minimize

CONTEXTS = 32  # rows of the context buffer, some of them masked out
CENTER = np.array([2.0, 4.25, 2.0, 0.0, -1.0])
WIDTH = np.array([2.0, 1.875, 1.0, 1.5, 0.5])
TARGET = np.array([2.5, 0.5, 0.0, 1.0, -2.0])
TARGET_STD = np.array([4e-3, 3.75e-3, 2e-3, 1e-2, 1e-1])
BOUNDS = np.array([[-4.0, 4.0], [0.5, 8.0], [0.0, 4.0], [-5.0, 5.0], [-4.0, 4.0]])
NASTY = (
    "plain", "plain", "plain", "constant", "negative", "outlier", "single", "duplicates", "corner", "at target",
    "wide", "tiny region", "floor",
)  # fmt: skip


class ContextProblem(NamedTuple):
    """One problem, or a batch of them along leading axes; a rule uses ``alpha`` or ``performance_bound``."""

    old_mean: np.ndarray
    old_chol: np.ndarray
    target_mean: np.ndarray
    target_chol: np.ndarray
    contexts: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    alpha: np.ndarray
    performance_bound: np.ndarray
    max_kl: np.ndarray
    std_floor: np.ndarray


def make_problem(seed: int, dim: int) -> ContextProblem:
    """Returns a random problem of the scale of the point mass, of a kind that the seed chooses from `NASTY`."""
    rng = np.random.default_rng([seed, dim])
    kind = NASTY[seed % len(NASTY)]
    progress = 1.0 if kind == "at target" else rng.uniform() ** 2
    std = WIDTH[:dim] ** (1 - progress) * TARGET_STD[:dim] ** progress
    mean = (1 - progress) * CENTER[:dim] + progress * TARGET[:dim]
    skew = (
        np.zeros((dim, dim))
        if kind == "at target"
        else 0.4 * np.tril(rng.normal(size=(dim, dim)), -1)
    )
    chol = std[:, None] * (np.eye(dim) + skew)
    contexts = mean + rng.normal(size=(CONTEXTS, dim)) @ chol.T
    if kind == "corner":
        contexts = np.tile(mean - 2.5 * chol.sum(axis=1), (CONTEXTS, 1))
    elif kind == "duplicates":
        contexts[:] = contexts[:2].repeat(CONTEXTS // 2, axis=0)
    contexts = np.clip(contexts, BOUNDS[:dim, 0], BOUNDS[:dim, 1])
    whitened = np.linalg.solve(chol, (contexts - mean).T).T
    values = (
        5
        + 2 * np.tanh(whitened @ rng.normal(size=dim))
        + 0.5 * rng.normal(size=CONTEXTS)
    )
    values = {"constant": np.full(CONTEXTS, 4.0), "negative": values - 12}.get(
        kind, values
    )
    if kind == "outlier":
        values[0] *= 50
    mask = np.arange(CONTEXTS) < (
        1 if kind == "single" else rng.integers(8, CONTEXTS + 1)
    )
    zeta = rng.choice([0.0, 0.4, 1.6])
    target_chol = np.diag(TARGET_STD[:dim])
    alpha = (
        zeta
        * max(0.0, values[mask].mean())
        / max(1e-10, gaussian_kl(mean, chol, TARGET[:dim], target_chol))
    )
    return ContextProblem(
        old_mean=mean,
        old_chol=chol,
        target_mean=TARGET[:dim],
        target_chol=target_chol,
        contexts=contexts,
        values=values,
        mask=mask,
        alpha=np.asarray(min(alpha, 1e5)),
        performance_bound=values[mask].mean()
        - rng.choice([0.0, 0.02, 0.5]) * values[mask].std()
        - 1e-9,
        max_kl=np.asarray({"wide": 0.5, "tiny region": 1e-3}.get(kind, 0.05)),
        std_floor=chol.diagonal() * (1.0 if kind == "floor" else 0.0),
    )


def gaussian_kl(
    p_mean: np.ndarray, p_chol: np.ndarray, q_mean: np.ndarray, q_chol: np.ndarray
) -> float:
    """Returns KL(p || q) by the textbook formula."""
    ratio, shift = (
        np.linalg.solve(q_chol, p_chol),
        np.linalg.solve(q_chol, p_mean - q_mean),
    )
    log_det = np.log(np.diagonal(q_chol)).sum() - np.log(np.diagonal(p_chol)).sum()
    return float(0.5 * ((ratio**2).sum() + (shift**2).sum() - p_mean.size) + log_det)


def kl_used(
    problem: ContextProblem, mean: np.ndarray, chol: np.ndarray, direction: str
) -> float:
    """Returns the constrained divergence of a result."""
    old, new = (problem.old_mean, problem.old_chol), (mean, chol)
    return (
        gaussian_kl(*old, *new) if direction == "old-new" else gaussian_kl(*new, *old)
    )


def performance(problem: ContextProblem, mean: np.ndarray, chol: np.ndarray) -> float:
    """Returns the importance-weighted mean value under the new distribution."""

    def log_density(mean: np.ndarray, chol: np.ndarray) -> np.ndarray:
        whitened = np.linalg.solve(chol, (problem.contexts[problem.mask] - mean).T)
        return -0.5 * (whitened**2).sum(axis=0) - np.log(np.diagonal(chol)).sum()

    ratios = np.exp(
        log_density(mean, chol) - log_density(problem.old_mean, problem.old_chol)
    )
    return float((ratios * problem.values[problem.mask]).mean())


def objective(
    problem: ContextProblem, mean: np.ndarray, chol: np.ndarray, rule: str
) -> float:
    """Returns what the rule ("proportion", "reward" or "target") minimises."""
    to_target = gaussian_kl(mean, chol, problem.target_mean, problem.target_chol)
    if rule == "target":
        return to_target
    return float(
        problem.alpha if rule == "proportion" else 0.0
    ) * to_target - performance(problem, mean, chol)


class ScipyResult(NamedTuple):
    """A result of the released procedure; ``status`` 1 or 2 is success, 0 the iteration limit, -1 an exception."""

    mean: np.ndarray
    chol: np.ndarray
    status: int


def solve_with_scipy(
    problem: ContextProblem, rule: str, direction: str, max_iterations: int = 1000
) -> ScipyResult:
    """Solves with ``trust-constr`` and the options of the released code, derivatives by automatic differentiation."""
    dim = problem.old_mean.size
    rows, columns = np.tril_indices(dim, -1)
    start = np.concatenate(
        [
            problem.old_mean,
            np.log(problem.old_chol.diagonal()),
            problem.old_chol[rows, columns],
        ]
    )
    functions = _scipy_functions(dim, rule, direction)

    def pair(
        name: str,
    ) -> tuple[Callable[[np.ndarray], float], Callable[[np.ndarray], np.ndarray]]:
        with jax.enable_x64(True):
            value, gradient = functions[name]
            data = jax.tree.map(lambda leaf: jnp.asarray(leaf), problem)

        def call(function: Callable[..., Array], x: np.ndarray) -> np.ndarray:
            with jax.enable_x64(True):
                return np.asarray(function(x, data))

        return functools.partial(call, value), functools.partial(call, gradient)

    kl, kl_gradient = pair("kl")
    constraints = [
        NonlinearConstraint(
            kl, -np.inf, problem.max_kl, jac=kl_gradient, keep_feasible=True
        )
    ]
    if rule == "target":
        gain, gain_gradient = pair("performance")
        constraints.append(
            NonlinearConstraint(
                gain,
                problem.performance_bound,
                np.inf,
                jac=gain_gradient,
                keep_feasible=True,
            )
        )
    bounds = None
    if (problem.std_floor > 0).any():
        lower = np.full(start.size, -np.inf)
        lower[dim : 2 * dim] = np.log(problem.std_floor) - 1e-12
        bounds = Bounds(lower, np.inf, keep_feasible=True)
    value, gradient = pair("objective")
    options = {"gtol": 1e-4, "xtol": 1e-6, "maxiter": max_iterations}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quasi-Newton updates of parts that are linear
        try:
            found = minimize(
                value,
                start,
                jac=gradient,
                method="trust-constr",
                constraints=constraints,
                bounds=bounds,
                options=options,
            )
        except ValueError:  # NaN inside SciPy, where a start lies exactly on a bound
            return ScipyResult(problem.old_mean, problem.old_chol, -1)
    chol = np.diag(np.exp(found.x[dim : 2 * dim]))
    chol[rows, columns] = found.x[2 * dim :]
    return ScipyResult(found.x[:dim], chol, int(found.status))


@functools.cache
def _scipy_functions(
    dim: int, rule: str, direction: str
) -> dict[str, tuple[Callable[..., Array], Callable[..., Array]]]:
    rows, columns = np.tril_indices(dim, -1)

    def decode(x: Float[Array, " n"]) -> tuple[Array, Array]:
        return x[:dim], jnp.diag(jnp.exp(x[dim : 2 * dim])).at[rows, columns].set(
            x[2 * dim :]
        )

    def kl_of(p: tuple[Array, Array], q: tuple[Array, Array]) -> Array:
        ratio = jax.scipy.linalg.solve_triangular(q[1], p[1], lower=True)
        shift = jax.scipy.linalg.solve_triangular(q[1], p[0] - q[0], lower=True)
        log_det = jnp.log(jnp.diagonal(q[1])).sum() - jnp.log(jnp.diagonal(p[1])).sum()
        return 0.5 * ((ratio**2).sum() + (shift**2).sum() - dim) + log_det

    def kl(x: Array, data: ContextProblem) -> Array:
        old, new = (data.old_mean, data.old_chol), decode(x)
        return kl_of(old, new) if direction == "old-new" else kl_of(new, old)

    def log_density(mean: Array, chol: Array, contexts: Array) -> Array:
        whitened = jax.scipy.linalg.solve_triangular(
            chol, (contexts - mean[None]).T, lower=True
        )
        return -0.5 * (whitened**2).sum(axis=0) - jnp.log(jnp.diagonal(chol)).sum()

    def gain(x: Array, data: ContextProblem) -> Array:
        log_old = log_density(data.old_mean, data.old_chol, data.contexts)
        ratios = jnp.exp(log_density(*decode(x), data.contexts) - log_old)
        count = data.mask.sum().astype(ratios.dtype)
        return jnp.where(data.mask, ratios * data.values, 0.0).sum() / count

    def objective(x: Array, data: ContextProblem) -> Array:
        to_target = kl_of(decode(x), (data.target_mean, data.target_chol))
        if rule == "target":
            return to_target
        return (data.alpha if rule == "proportion" else 0.0) * to_target - gain(x, data)

    named = {"kl": kl, "performance": gain, "objective": objective}
    return {
        name: (jax.jit(function), jax.jit(jax.grad(function)))
        for name, function in named.items()
    }
