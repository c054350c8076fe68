"""Self-paced episodic reinforcement learning of Klink et al. (2021) on the gate ("precision"), in NumPy and SciPy.

As the published results computed it: rollouts of a batch together, the dual by `L-BFGS-B` from scratch every iteration, the
fit by bisection. With SciPy's default tolerances, as published, `L-BFGS-B` stops where the weights are still wrong by per cents,
those of contexts by more; `solve_tightly` goes on until it makes no progress. Value features of a batch are computed once and
kept with it, and the fit works on moments of the samples instead of the samples, both of which make it faster.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import bisect, minimize

Array = NDArray[np.float64]

NUM_SAMPLES, BUFFER_SIZE = 100, 10
MAX_KL, RIDGE = 0.4, 1e-5
ZETA, K_ALPHA, MAX_ALPHA = 0.02, 140, 2.5
CONTEXT_LOWER, CONTEXT_UPPER = np.array([-5.0, 0.1]), np.array([5.0, 0.5])
BOUND = 10.0  # of every parameter
TARGET_MEAN, TARGET_COVARIANCE = np.array([-4.0, 0.2]), np.diag([0.1, 0.001])
CENTRES = np.stack(np.meshgrid(*(np.linspace(lo, hi, n + 2)[1:-1] for lo, hi, n in ((-5, 5, 10), (0.1, 0.5, 5))),
                               indexing="ij"), axis=-1).reshape(-1, 2)  # fmt: skip
SCALES = np.sqrt([0.6, 150.0])
MAX_ETA = 100.0
PUBLISHED: Mapping[
    str, float
] = {}  # tolerances of L-BFGS-B that are not SciPy's defaults
TIGHT: Mapping[str, float] = {"ftol": 1e-16, "gtol": 1e-10}
STUCK = 2  # status of a line search that found nothing better
START, WALL, PERIOD, NOISE_STD, DRIFT = (0.0, 5.0), 2.5, 0.05, 0.05, (5.0, -1.0)


class Batch(NamedTuple):
    """Rollouts of one iteration; a leading axis of samples."""

    contexts: Array
    thetas: Array
    features: Array  # of the value function
    rewards: Array


@dataclass
class State:
    """Of one run."""

    gain: Array  # A, (16, 3)
    covariance: Array
    context_mean: Array
    context_covariance: Array
    buffer: deque[Batch]
    iteration: int


class Dual(NamedTuple):
    """Weights of the samples, and what SciPy did for them."""

    policy: Array
    context: Array
    evaluations: int


Solve = Callable[
    [Array, Array, Array, float], Dual
]  # of rewards, features, log ratios and alpha


def iterate(
    state: State, generator: np.random.Generator, solve: Solve | None = None
) -> Dual:
    """Runs one iteration, in place."""
    return learn(state, collect(state, generator), solve)


def collect(state: State, generator: np.random.Generator) -> Batch:
    """Returns one rollout in each of the new contexts."""
    means = np.broadcast_to(state.context_mean, (NUM_SAMPLES, 2))
    contexts = sample_inside(
        generator, means, state.context_covariance, CONTEXT_LOWER, CONTEXT_UPPER
    )
    theta_means = policy_features(contexts) @ state.gain.T
    thetas = sample_inside(
        generator,
        theta_means,
        state.covariance,
        np.full(16, -BOUND),
        np.full(16, BOUND),
    )
    return Batch(
        contexts, thetas, value_features(contexts), rollout(generator, thetas, contexts)
    )


def learn(state: State, batch: Batch, solve: Solve | None = None) -> Dual:
    """Adds the batch to the buffer and updates both distributions, in place; ``solve`` replaces `solve_dual`."""
    state.buffer.append(batch)
    samples = Batch(
        *(np.concatenate(parts) for parts in zip(*state.buffer, strict=True))
    )
    log_ratios = log_density(samples.contexts, TARGET_MEAN, TARGET_COVARIANCE)
    log_ratios -= log_density(
        samples.contexts, state.context_mean, state.context_covariance
    )
    alpha = 0.0
    if state.iteration > K_ALPHA:
        kl = -log_ratios.mean()
        alpha = (
            min(MAX_ALPHA, ZETA * abs(samples.rewards.mean()) / kl)
            if kl > 0
            else MAX_ALPHA
        )
    dual = (solve or solve_dual)(samples.rewards, samples.features, log_ratios, alpha)
    policy = Part(
        state.gain,
        state.covariance,
        policy_features(samples.contexts),
        samples.thetas,
        dual.policy,
    )
    contexts = Part(
        state.context_mean[:, None],
        state.context_covariance,
        np.ones((len(samples.contexts), 1)),
        samples.contexts,
        dual.context,
    )
    (state.gain, state.covariance), (mean, state.context_covariance) = fit(
        [policy, contexts]
    )
    state.context_mean = mean[:, 0]
    state.iteration += 1
    return dual


def sample_inside(
    generator: np.random.Generator,
    means: Array,
    covariance: Array,
    lower: Array,
    upper: Array,
) -> Array:
    """Returns a draw for each mean; those outside the bounds are drawn again up to 100 times, then clipped."""
    chol = np.linalg.cholesky(covariance)
    draws = means + generator.standard_normal(means.shape) @ chol.T
    for _ in range(100):
        outside = np.flatnonzero(((draws < lower) | (draws > upper)).any(axis=1))
        if not outside.size:
            break
        draws[outside] = (
            means[outside]
            + generator.standard_normal((outside.size, means.shape[1])) @ chol.T
        )
    return np.clip(draws, lower, upper)


def policy_features(contexts: Array) -> Array:
    """Returns (1, c)."""
    return np.concatenate([np.ones((len(contexts), 1)), contexts], axis=1)


def value_features(contexts: Array) -> Array:
    """Returns the 50 normalised radial basis functions and a constant."""
    bumps = np.exp(-(((contexts[:, None] - CENTRES) * SCALES) ** 2).sum(axis=2))
    return np.concatenate(
        [bumps / bumps.sum(axis=1, keepdims=True), np.ones((len(contexts), 1))], axis=1
    )


def log_density(contexts: Array, mean: Array, covariance: Array) -> Array:
    """Returns the log density of a Gaussian."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (contexts - mean).T)
    return (
        -0.5 * (whitened**2).sum(axis=0)
        - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    )


def rollout(generator: np.random.Generator, thetas: Array, contexts: Array) -> Array:
    """Returns the rewards of one rollout of the gate for each row; crashed masses drop out."""
    velocities = np.array(DRIFT) + NOISE_STD * generator.standard_normal(
        (100, len(thetas), 2)
    )
    first, second = thetas[:, :7].T, thetas[:, 7:14].T
    final_x, final_y, cost = (
        np.empty(len(thetas)),
        np.empty(len(thetas)),
        np.zeros(len(thetas)),
    )
    alive, passed = np.arange(len(thetas)), np.zeros(len(thetas), bool)
    x, y = np.full(len(thetas), START[0]), np.full(len(thetas), START[1])
    for velocity in velocities:
        passed |= y - WALL < 0.01
        k = np.where(passed, second, first)
        off_x, off_y = k[6] - x, np.where(passed, 0.0, WALL) - y
        action_x, action_y = (
            k[0] * off_x + k[1] * off_y + k[4],
            k[2] * off_x + k[3] * off_y + k[5],
        )
        cost[alive] += action_x**2 + action_y**2
        old_x, old_y = x, y
        x, y = (
            x + PERIOD * (action_x + velocity[alive, 0]),
            y + PERIOD * (action_y + velocity[alive, 1]),
        )
        crossing = np.flatnonzero((old_y >= WALL) & (y < WALL))
        if crossing.size:
            share = (WALL - old_y[crossing]) / (y[crossing] - old_y[crossing])
            wall_x = share * x[crossing] + (1 - share) * old_x[crossing]
            position, half_width = contexts[alive[crossing]].T
            hits = np.abs(wall_x - position) > half_width
            crashed = crossing[hits]
            final_x[alive[crashed]], final_y[alive[crashed]] = wall_x[hits], WALL
            keep = np.ones(len(alive), bool)
            keep[crashed] = False
            alive, passed, x, y = alive[keep], passed[keep], x[keep], y[keep]
            first, second = first[:, keep], second[:, keep]
    final_x[alive], final_y[alive] = x, y
    distance = np.minimum(300.0, np.hypot(final_x, final_y))
    return 100 + np.maximum(-100.0, 10 * np.exp(-distance) - 1e-4 * cost)


def solve_tightly(
    rewards: Array, features: Array, log_ratios: Array, alpha: float
) -> Dual:
    """Returns the weights of `solve_dual` with tolerances that rounding meets first."""
    return solve_dual(rewards, features, log_ratios, alpha, TIGHT)


def solve_dual(
    rewards: Array,
    features: Array,
    log_ratios: Array,
    alpha: float,
    tolerances: Mapping[str, float] = PUBLISHED,
) -> Dual:
    """Returns the weights, by L-BFGS-B from the published start; with finite differences and more ridge where that fails.

    Where the tolerances are below rounding, a line search that finds nothing better is the end, not a failure.

    Raises:
        RuntimeError: all of these failed.
    """

    def dual(x: Array, ridge: float) -> tuple[float, Array]:
        eta, eta_tilde, chi = x[0], x[1], x[2:]
        value = features @ chi
        advantage, beta = rewards - value, value + alpha * log_ratios
        weights, log_mean = tempered(advantage, eta)
        tilde, log_mean_tilde = tempered(beta, alpha + eta_tilde)
        total = (
            (eta + eta_tilde) * MAX_KL
            + eta * log_mean
            + (alpha + eta_tilde) * log_mean_tilde
            + ridge * chi @ chi
        )
        gradient = np.empty_like(x)
        gradient[0] = MAX_KL + log_mean - weights @ advantage / eta
        gradient[1] = MAX_KL + log_mean_tilde - tilde @ beta / (alpha + eta_tilde)
        gradient[2:] = (tilde - weights) @ features + 2 * ridge * chi
        return total, gradient

    size = features.shape[1]
    start = np.linalg.solve(
        features.T @ features + 0.1 * np.eye(size), features.T @ rewards
    )
    start = np.concatenate([[1000.0, 1000.0], start])
    bounds = [(1e-10, None)] * 2 + [(None, None)] * size
    attempts: list[tuple[float, Callable[..., object], bool]] = [
        (RIDGE, dual, True),
        (RIDGE, lambda x, ridge: dual(x, ridge)[0], False),
        (0.1, dual, True),
    ]
    evaluations = 0
    for ridge, function, analytic in attempts:
        found = minimize(
            function,
            start,
            args=(ridge,),
            jac=analytic,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 100_000, "maxfun": 100_000, **tolerances},
        )
        evaluations += found.nfev
        if found.success or (tolerances and found.status == STUCK):
            value = features @ found.x[2:]
            policy = tempered(rewards - value, found.x[0])[0]
            return Dual(
                policy,
                tempered(value + alpha * log_ratios, alpha + found.x[1])[0],
                evaluations,
            )
    raise RuntimeError(f"L-BFGS-B failed: {found.message}")


def tempered(exponents: Array, temperature: float) -> tuple[Array, float]:
    """Returns the weights proportional to exp(exponents / temperature), and the log of the mean of these."""
    top = exponents.max()
    factors = np.exp((exponents - top) / temperature)
    total = factors.sum()
    return factors / total, np.log(total / factors.size) + top / temperature


class Part(NamedTuple):
    """A distribution to fit, N(gain @ features, covariance), and its samples."""

    gain: Array
    covariance: Array
    features: Array
    samples: Array
    weights: Array


def fit(parts: list[Part]) -> list[tuple[Array, Array]]:
    """Returns gains and covariances with KL(old || new) within 2 % of the bound, as long as an eta up to 100 can do that."""
    solutions = [_solution_of(part) for part in parts]

    def excess(eta: float) -> float:
        try:
            return sum(solution(eta)[2] for solution in solutions) - MAX_KL
        except np.linalg.LinAlgError:
            return np.inf

    return [solution(_multiplier(excess))[:2] for solution in solutions]


def _multiplier(excess: Callable[[float], float]) -> float:
    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0:
        if high >= MAX_ETA:
            return MAX_ETA
        low, high = high, 10 * high
    finite = lambda eta: min(excess(eta), 1e10)  # noqa: E731
    eta = bisect(finite, low, high, xtol=5e-3)
    if abs(excess(eta)) > 0.02 * MAX_KL:
        eta = bisect(finite, max(low, eta - 1e-2), min(high, eta + 1e-2))
    return eta


def _solution_of(part: Part) -> Callable[[float], tuple[Array, Array, float]]:
    """Returns a function of eta that gives gain, covariance and divergence, from moments of the samples."""
    old, features, weighted = (
        part.gain,
        part.features,
        part.weights[:, None] * part.features,
    )
    residuals = part.samples - features @ old.T
    gram, mean_gram = weighted.T @ features, features.T @ features / len(features)
    cross, second = (
        weighted.T @ residuals,
        (part.weights[:, None] * residuals).T @ residuals,
    )
    identity = np.eye(features.shape[1])
    old_log_det = np.linalg.slogdet(part.covariance)[1]

    def solution(eta: float) -> tuple[Array, Array, float]:
        shift = np.linalg.solve(
            gram + eta * mean_gram + 1e-10 * identity, cross
        )  # (A - A_old)'
        moved, explained = shift.T @ mean_gram @ shift, shift.T @ cross
        scatter = second - explained - explained.T + shift.T @ gram @ shift
        covariance = (scatter + eta * (part.covariance + moved)) / (
            1 + eta
        ) + 1e-10 * np.eye(len(second))
        inverse = np.linalg.inv(covariance)
        log_det = np.linalg.slogdet(covariance)[1]
        trace = (inverse * (part.covariance + moved)).sum()
        return (
            old + shift.T,
            covariance,
            0.5 * (trace - len(second) + log_det - old_log_det),
        )

    return solution
