"""Duals of C-REPS and SPRL for tests and benchmarks, with an independent statement of them for SciPy.

The reference minimises over temperatures and value weights together, with the textbook formulas, and shares nothing with the
solver under test.
"""

import pathlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

KINDS = (
    "gate",
    "converged",
    "sparse",
    "thousandth",
    "million",
    "one context",
    "equal",
    "one sample",
)
FLOOR = 1e-6  # least temperature, in units of the rewards' spread
RECORDED = (
    pathlib.Path(__file__).parents[1]
    / "tests"
    / "agents"
    / "episodic"
    / "data"
    / "duals.npz"
)
COUNTS, INVERSE_WIDTHS = (10, 5), (0.6, 150.0)  # of the value features of the gate
ROUNDS, ITERATIONS = 12, 300  # of L-BFGS-B
NEWTON_STEPS = 20

Vector = Float[np.ndarray, " n"]
Row = tuple[
    Float[np.ndarray, " N"], float, float
]  # exponents before division, sign of V in them, temperature


class DualProblem(NamedTuple):
    """With V = features @ chi: C-REPS where there are no log ratios, SPRL where there are no mean features.

    C-REPS: eta epsilon + chi . mean_features + eta log mean exp((r - V) / eta) + ridge |chi|^2 over (eta, chi);
    SPRL: (eta + eta~) epsilon + eta log mean exp((r - V) / eta)
    + (alpha + eta~) log mean exp((V + alpha log_ratios) / (alpha + eta~)) + ridge |chi|^2 over (eta, eta~, chi).
    """

    rewards: Float[np.ndarray, " N"]
    features: Float[np.ndarray, "N F"]
    log_ratios: Float[np.ndarray, " N"] | None  # log mu / p
    mean_features: Float[np.ndarray, " F"] | None
    alpha: float
    max_kl: float
    ridge: float

    @property
    def num_multipliers(self) -> int:
        """Returns how many leading entries of an unknown are multipliers."""
        return 1 if self.log_ratios is None else 2

    @property
    def bases(self) -> Vector:
        """Returns what the multipliers are added to for the temperatures."""
        return np.array([0.0, self.alpha])[: self.num_multipliers]

    def rows(self, x: Vector) -> list[Row]:
        """Returns the rows of exponents at an unknown (multipliers, chi)."""
        values = self.features @ x[self.num_multipliers :]
        rows = [(self.rewards - values, -1.0, float(x[0]))]
        if self.log_ratios is not None:
            rows.append(
                (values + self.alpha * self.log_ratios, 1.0, float(self.alpha + x[1]))
            )
        return rows

    def weights(self, x: Vector) -> list[Float[np.ndarray, " N"]]:
        """Returns the policy weights, and of SPRL the context weights."""
        return [
            _tempered(exponents, temperature)[0]
            for exponents, _, temperature in self.rows(x)
        ]

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        """Returns the dual and its gradient at (multipliers, chi)."""
        multipliers, chi = np.split(x, [self.num_multipliers])
        total = multipliers.sum() * self.max_kl + self.ridge * chi @ chi
        slopes, gradient = [], np.asarray(2 * self.ridge * chi)
        if self.mean_features is not None:
            total, gradient = (
                total + chi @ self.mean_features,
                np.asarray(gradient + self.mean_features),
            )
        for exponents, sign, temperature in self.rows(x):
            weights, log_mean = _tempered(exponents, temperature)
            total += temperature * log_mean
            slopes.append(self.max_kl + log_mean - weights @ exponents / temperature)
            gradient = np.asarray(gradient + sign * weights @ self.features)
        return float(total), np.concatenate([slopes, gradient])

    def hessian(self, x: Vector) -> Float[np.ndarray, "n n"]:
        """Returns the second derivatives in (multipliers, chi)."""
        start = self.num_multipliers
        total = np.diag(np.where(np.arange(x.size) < start, 0.0, 2 * self.ridge))
        for k, (exponents, sign, temperature) in enumerate(self.rows(x)):
            weights, _ = _tempered(exponents, temperature)
            features = self.features - weights @ self.features
            centred = exponents - weights @ exponents
            total[start:, start:] += (
                (features * weights[:, None]).T @ features / temperature
            )
            total[k, start:] = total[start:, k] = (
                -sign * (weights * centred) @ features / temperature**2
            )
            total[k, k] = weights @ centred**2 / temperature**3
        return total

    def in_units_of_spread(self) -> "DualProblem":
        """Returns the same problem, rewards relative to the best; of the minimiser only the unit changes."""
        unit = spread(self.rewards)
        rewards = (self.rewards - self.rewards.max()) / unit
        return self._replace(
            rewards=rewards, alpha=self.alpha / unit, ridge=self.ridge * unit
        )


class Reference(NamedTuple):
    """The minimum by SciPy, and with SciPy's last digits corrected; unknowns are (multipliers, chi)."""

    scipy: Vector
    exact: Vector
    value: float  # SciPy's


def spread(rewards: Float[np.ndarray, " N"]) -> float:
    """Returns the distance of the best reward from the lowest tenth, or else from the lowest, or 1 where all are equal."""
    distances = rewards.max() - np.array([np.quantile(rewards, 0.1), rewards.min()])
    return float(next((distance for distance in distances if distance > 0), 1.0))


@threadpool_limits.wrap(
    limits=1, user_api="blas"
)  # threads only slow matrices of this size down
def minimise_by_scipy(problem: DualProblem) -> Reference:
    """Minimises with L-BFGS-B, then corrects with Newton's method.

    In units of rewards L-BFGS-B stops far from the minimum: its first steps take all curvatures for 1, and a multiplier whose
    unit is too small never moves. So the problem is put into units of the spread, chi into coordinates in which the curvature at
    the end of the last round is the identity, and multipliers into units of sqrt(temperature), which has the same effect. As it
    compares values, it still stops at a gradient of 1e-9 or so. Where a context weight depends on chi / 1e-6 that is not enough
    for six digits, hence Newton's steps, with the multipliers that are at their bound held there.
    """
    scaled, count = problem.in_units_of_spread(), problem.num_multipliers
    x = np.concatenate([np.ones(count), np.zeros(problem.features.shape[1])])
    for _ in range(ROUNDS):
        x, steepest = _round(scaled, x)
        if steepest < 1e-10:
            break
    unit = spread(problem.rewards)
    value = unit * scaled.value_and_gradient(x)[0] + problem.rewards.max()
    return Reference(unit * x, unit * _newton(scaled, x), value)


def random_problem(
    random: np.random.Generator, kind: str, method: str = "sprl", count: int = 400
) -> DualProblem:
    """Returns a problem with gate-like contexts, of one of `KINDS`; the ridge is 1e-5 in units of the spread."""
    count = 1 if kind == "one sample" else count
    std = np.array([7, 0.003]) ** 0.5 * random.uniform(0.1, 1.2)
    mean = np.array([random.uniform(-4, 4), random.uniform(0.15, 0.4)])
    contexts = np.clip(mean + std * random.normal(size=(count, 2)), [-5, 0.1], [5, 0.5])
    if kind == "one context":
        contexts[:] = contexts[0]
    rewards: np.ndarray = np.clip(
        60 + 20 * np.sin(contexts[:, 0]) + 50 * random.normal(size=count), 0, 110
    )
    if kind == "sparse":
        rewards = 1.0 * (random.uniform(size=count) < 0.05 + 0.1 * (contexts[:, 0] > 0))
    if kind == "converged":
        rewards = 100 + 9 * np.exp(-np.abs(random.normal(size=count)))
    if kind == "equal":
        rewards[:] = 3.7
    rewards = rewards * {"thousandth": 1e-5, "million": 1e4}.get(kind, 1.0)
    features, unit = gate_features(contexts), spread(rewards)
    sprl, max_kl = method == "sprl", float(random.choice([0.25, 0.4, 0.5]))
    alpha = unit * random.choice([0.0, 4e-4, 0.05]) * random.uniform(0.5, 2)
    log_ratios = _log_density(
        contexts, np.array([-4, 0.2]), np.diag([0.1, 0.001])
    ) - _log_density(contexts, mean, np.diag(std**2))
    return DualProblem(
        rewards=rewards,
        features=features,
        log_ratios=log_ratios if sprl else None,
        mean_features=None if sprl else features[::3].mean(axis=0),
        alpha=float(alpha) if sprl else 0.0,
        max_kl=max_kl,
        ridge=1e-5 / unit,
    )


def recorded_problems() -> list[DualProblem]:
    """Returns 100 duals of real trainings of the gate, see `benchmarks.record_duals`; half are of SPRL, half of C-REPS."""
    with np.load(RECORDED) as stored:
        data = {name: stored[name].astype(float) for name in stored.files}
    problems = []
    for i, contexts in enumerate(data["contexts"]):
        target, current = (
            _log_density(contexts, data[f"{p}_mean"][i], data[f"{p}_cov"][i])
            for p in ("target", "current")
        )
        sprl = data["sprl"][i] > 0
        problems.append(
            DualProblem(
                rewards=data["rewards"][i],
                features=gate_features(contexts, data["widest_centre"][i]),
                log_ratios=target - current if sprl else None,
                mean_features=None if sprl else data["mean_features"][i],
                alpha=float(data["alpha"][i]),
                max_kl=float(data["max_kl"][i]),
                ridge=1e-5,  # 1 / reward, as published
            )
        )
    return problems


def gate_features(
    contexts: Float[np.ndarray, "N 2"], widest_centre: float = 0.5
) -> Float[np.ndarray, "N F"]:
    """Returns the 51 value features of the gate."""
    ranges = zip((-5.0, 0.1), (5.0, widest_centre), COUNTS, strict=True)
    axes = [np.linspace(low, high, count + 2)[1:-1] for low, high, count in ranges]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    exponents = -(((contexts[:, None] - centres) ** 2) * np.array(INVERSE_WIDTHS)).sum(
        -1
    )
    bumps = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return np.concatenate(
        [bumps / bumps.sum(axis=1, keepdims=True), np.ones((len(contexts), 1))], axis=1
    )


def _tempered(exponents: Vector, temperature: float) -> tuple[Vector, float]:
    """Returns the weights and log mean exp."""
    top = exponents.max()
    factors = np.exp((exponents - top) / temperature)
    return factors / factors.sum(), float(np.log(factors.mean()) + top / temperature)


def _log_density(
    contexts: Float[np.ndarray, "N 2"],
    mean: Vector,
    covariance: Float[np.ndarray, "2 2"],
) -> Vector:
    offsets = contexts - mean
    distances = (offsets @ np.linalg.inv(covariance) * offsets).sum(axis=1)
    return -0.5 * (distances + np.linalg.slogdet(2 * np.pi * covariance)[1])


def _round(problem: DualProblem, x: Vector) -> tuple[Vector, float]:
    """Returns where L-BFGS-B gets to in coordinates that fit x, and the steepest slope that is not against a bound there."""
    count = problem.num_multipliers
    factor = np.linalg.cholesky(problem.hessian(x)[count:, count:])
    inverse, units = np.linalg.inv(factor), np.sqrt(x[:count] + problem.bases)

    def to_x(z: Vector) -> Vector:
        return np.concatenate(
            [np.maximum(units * z[:count], FLOOR), inverse.T @ z[count:]]
        )

    def dual(z: Vector) -> tuple[float, Vector]:
        value, gradient = problem.value_and_gradient(to_x(z))
        return value, np.concatenate(
            [units * gradient[:count], inverse @ gradient[count:]]
        )

    bounds = [(FLOOR / unit, None) for unit in units] + [(None, None)] * len(factor)
    options = {
        "maxiter": ITERATIONS,
        "maxfun": 2 * ITERATIONS,
        "ftol": 0.0,
        "gtol": 1e-13,
        "maxcor": 30,
        "maxls": 50,
    }
    start = np.concatenate([x[:count] / units, factor.T @ x[count:]])
    z = minimize(
        dual, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).x
    slopes = dual(z)[1]
    against = np.append(to_x(z)[:count] <= FLOOR, np.zeros(len(factor), bool)) & (
        slopes > 0
    )
    return to_x(z), float(np.abs(np.where(against, 0.0, slopes)).max())


def _newton(problem: DualProblem, x: Vector) -> Vector:
    """Returns the minimiser near x; steps that lead to a higher value are halved."""
    for _ in range(NEWTON_STEPS):
        step, value = _newton_step(problem, x), problem.value_and_gradient(x)[0]
        halvings = (x - step / 2**k for k in range(20))
        x = next(
            (
                new
                for new in halvings
                if problem.value_and_gradient(new)[0]
                <= value + 1e-14 * (1 + abs(value))
            ),
            x,
        )
    return x


def _newton_step(problem: DualProblem, x: Vector) -> Vector:
    """Returns what to subtract from x; a multiplier that would go below its bound goes to the bound."""
    count = problem.num_multipliers
    gradient, hessian = problem.value_and_gradient(x)[1], problem.hessian(x)
    step = np.append(x[:count] - FLOOR, np.zeros(x.size - count))
    free = np.append(
        (x[:count] > 1.001 * FLOOR) | (gradient[:count] < 0),
        np.ones(x.size - count, bool),
    )
    for _ in range(count + 1):
        rest = gradient[free] - hessian[np.ix_(free, ~free)] @ step[~free]
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], rest)
        below = step[:count] > x[:count] - FLOOR
        step[:count] = np.minimum(step[:count], x[:count] - FLOOR)
        free[:count] &= ~below
    return step
