"""Random updates of context families, nasty ones among them, with an independent statement of each family.

The references are textbook formulas in NumPy and SciPy, and in 40 digits where double precision cannot tell on which side of a
bound a result lies; they share nothing with the families under test.
"""

import abc
from typing import Any, NamedTuple

import jax
import mpmath
import numpy as np
from scipy import special, stats
from scipy.linalg import solve_triangular

from benchmarks.context_problems import BOUNDS, CONTEXTS, gaussian_kl
from spjax.contexts import (
    Beta,
    Discrete,
    DiscreteGaussian,
    Gaussian,
    Mixture,
    TruncatedGaussian,
)
from spjax.contexts.beta import LEAST
from spjax.contexts.truncated import WIDEST

DIM = 2
LOWER, UPPER = BOUNDS[:DIM].T
BOX = {"lower": tuple(LOWER.tolist()), "upper": tuple(UPPER.tolist())}
NASTY = (
    "plain", "plain", "plain", "constant", "negative", "outlier", "single", "duplicates", "corner", "at target",
    "wide", "tiny region", "border", "flat", "narrow",
)  # fmt: skip
DIGITS = 40
COMPONENTS = 3  # of mixtures
ROWS = 10  # of the table of discrete times Gaussian
TABLE = np.linspace(-3.5, 3.5, ROWS)[:, None]
GRID = np.stack(
    np.meshgrid(np.linspace(-3.5, 3.5, 5), np.linspace(1.0, 7.0, 4), indexing="ij"), -1
).reshape(-1, DIM)


class FamilyProblem(NamedTuple):
    """One problem, or a batch of them along leading axes; a rule uses ``alpha`` or ``performance_bound``."""

    old: Any  # a distribution in single precision
    target: Any
    contexts: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    alpha: np.ndarray
    performance_bound: np.ndarray
    max_kl: np.ndarray
    std_floor: np.ndarray | None  # of Gaussians


class Reference(abc.ABC):
    """A family, stated a second time; parameters are those of its settings, in double precision."""

    name: str

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, kind: str) -> Any:
        """Returns a random distribution in single precision; "border", "flat" and "narrow" are at the ends of the family."""

    @abc.abstractmethod
    def contexts(self, p: Any, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns draws."""

    @abc.abstractmethod
    def log_density(self, p: Any, contexts: np.ndarray) -> np.ndarray:
        """Returns the log density of each context, nats."""

    @abc.abstractmethod
    def kl(self, p: Any, q: Any) -> float:
        """Returns KL(p || q) or its bound, nats."""

    @abc.abstractmethod
    def exact_kl(self, p: Any, q: Any) -> float:
        """Returns the same in 40 digits, less accurate only in the end."""

    @abc.abstractmethod
    def at(self, old: Any, x: np.ndarray) -> Any:
        """Returns a distribution near the old one, which is at zero; x is about in its standard deviations."""

    @abc.abstractmethod
    def room(self, p: Any) -> np.ndarray:
        """Returns what may not be negative for the distribution to be one of the family."""

    @abc.abstractmethod
    def size(self, old: Any) -> int:
        """Returns the length of x."""

    def floor(self, old: Any, kind: str) -> np.ndarray | None:
        """Returns lower bounds of the standard deviations, where the family has them."""
        return None


class GaussianReference(Reference):
    """A correlated Gaussian; "border" ones have the floor at their own standard deviations, "flat" ones above."""

    name = "gaussian"

    def draw(self, rng: np.random.Generator, kind: str) -> Gaussian:
        """Returns a mean anywhere in the box, and standard deviations between a thousandth of it and all of it."""
        width = UPPER - LOWER
        mean = rng.uniform(LOWER, UPPER)
        spread = (-5.0, -4.0) if kind == "narrow" else (-2.5, 0.0)
        std = width * 10 ** rng.uniform(*spread, DIM)
        skew = 0.4 * np.tril(rng.normal(size=(DIM, DIM)), -1)
        chol = std[:, None] * (np.eye(DIM) + skew)
        return Gaussian(mean.astype(np.float32), chol.astype(np.float32))

    def contexts(self, p: Gaussian, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns draws."""
        return p.mean + rng.normal(size=(count, DIM)) @ p.chol.T

    def log_density(self, p: Gaussian, contexts: np.ndarray) -> np.ndarray:
        """Returns the textbook formula."""
        apart = solve_triangular(p.chol, (contexts - p.mean).T, lower=True)
        logs = np.log(np.diagonal(p.chol)).sum() + DIM / 2 * np.log(2 * np.pi)
        return -0.5 * (apart**2).sum(axis=0) - logs

    def kl(self, p: Gaussian, q: Gaussian) -> float:
        """Returns the textbook formula."""
        return gaussian_kl(p.mean, p.chol, q.mean, q.chol)

    def exact_kl(self, p: Gaussian, q: Gaussian) -> float:
        """Returns the same."""
        return float(_exact_gaussian_kl(p.mean, p.chol, q.mean, q.chol))

    def at(self, old: Gaussian, x: np.ndarray) -> Gaussian:
        """Returns a mean that moves by standard deviations, and a factor by those of the old one."""
        x = np.clip(np.nan_to_num(x), -20, 20)  # a line search may ask for anything
        factor = np.diag(np.exp(x[DIM : 2 * DIM]))
        factor[1, 0] = x[2 * DIM]
        return Gaussian(old.mean + old.chol @ x[:DIM], old.chol @ factor)

    def room(self, p: Gaussian) -> np.ndarray:
        """Returns nothing: all of them are of the family."""
        return np.zeros(0)

    def size(self, old: Gaussian) -> int:
        """Returns a mean and a factor."""
        return 2 * DIM + 1

    def floor(self, old: Gaussian, kind: str) -> np.ndarray:
        """Returns none, the diagonal of the factor, or twice that."""
        share = {"border": 1.0, "flat": 2.0}.get(kind, 0.0)
        return np.float32(share) * np.diagonal(old.chol)


class DiscreteReference(Reference):
    """Points of a grid; "border" ones are almost on one point."""

    name = "discrete"

    def draw(self, rng: np.random.Generator, kind: str) -> Discrete:
        """Returns weights of the points."""
        weights = rng.dirichlet(np.full(len(GRID), rng.choice([0.2, 1.0])))
        if kind == "flat":
            weights[:] = 1.0
        if kind == "border":
            weights = np.where(np.arange(len(GRID)) == 3, 1.0, 1e-9)
        logits = np.log(np.maximum(weights, 1e-12))
        return Discrete(GRID.astype(np.float32), logits.astype(np.float32))

    def contexts(self, p: Discrete, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns draws."""
        return GRID[rng.choice(len(GRID), count, p=np.exp(self._logs(p)))]

    def log_density(self, p: Discrete, contexts: np.ndarray) -> np.ndarray:
        """Returns the log probability of the nearest point."""
        apart = np.abs(contexts[:, None] - GRID).sum(axis=-1)
        return self._logs(p)[apart.argmin(axis=1)]

    def kl(self, p: Discrete, q: Discrete) -> float:
        """Returns the sum over the points."""
        ours = self._logs(p)
        return float((np.exp(ours) * (ours - self._logs(q))).sum())

    def exact_kl(self, p: Discrete, q: Discrete) -> float:
        """Returns the same."""
        return float(_exact_discrete_kl(p.logits, q.logits))

    def at(self, old: Discrete, x: np.ndarray) -> Discrete:
        """Returns log weights that differ."""
        return Discrete(old.table, old.logits + x)

    def room(self, p: Discrete) -> np.ndarray:
        """Returns nothing: all of them are of the family."""
        return np.zeros(0)

    def size(self, old: Discrete) -> int:
        """Returns a log weight for each point."""
        return len(GRID)

    def _logs(self, p: Discrete) -> np.ndarray:
        return p.logits - special.logsumexp(p.logits)


class BetaReference(Reference):
    """Independent Beta distributions."""

    name = "beta"

    def draw(self, rng: np.random.Generator, kind: str) -> Beta:
        """Returns a mean anywhere in the box and a concentration between that of the uniform and 1e6."""
        mean = rng.uniform(0.02, 0.98, DIM)
        total = 10 ** rng.uniform(0.5, {"narrow": 6.0}.get(kind, 4.0), DIM)
        if kind == "narrow":
            total = 1e6 * total / total.max()
        a, b = mean * total, (1 - mean) * total
        if kind == "border":
            a[0] = LEAST
        if kind == "flat":
            a, b = np.ones(DIM), np.ones(DIM)
        a, b = (np.maximum(x, LEAST).astype(np.float32) for x in (a, b))
        return Beta(a=a, b=b, **BOX)

    def contexts(self, p: Beta, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns draws."""
        return LOWER + (UPPER - LOWER) * rng.beta(p.a, p.b, (count, DIM))

    def log_density(self, p: Beta, contexts: np.ndarray) -> np.ndarray:
        """Returns SciPy's."""
        share = np.clip((contexts - LOWER) / (UPPER - LOWER), 2.0**-24, 1 - 2.0**-24)
        return stats.beta.logpdf(share, p.a, p.b).sum(axis=-1)

    def kl(self, p: Beta, q: Beta) -> float:
        """Returns the formula of encyclopedias."""
        log_beta = special.betaln(q.a, q.b) - special.betaln(p.a, p.b)
        change = (p.a - q.a) * special.digamma(p.a) + (p.b - q.b) * special.digamma(p.b)
        both = (q.a - p.a + q.b - p.b) * special.digamma(p.a + p.b)
        return float((log_beta + change + both).sum())

    def exact_kl(self, p: Beta, q: Beta) -> float:
        """Returns the same."""
        total = mpmath.mpf(0)
        for pa, pb, qa, qb in zip(p.a, p.b, q.a, q.b, strict=True):
            pa, pb, qa, qb = (mpmath.mpf(float(x)) for x in (pa, pb, qa, qb))
            total += _log_beta(qa, qb) - _log_beta(pa, pb)
            total += (pa - qa) * mpmath.digamma(pa) + (pb - qb) * mpmath.digamma(pb)
            total += (qa - pa + qb - pb) * mpmath.digamma(pa + pb)
        return float(total)

    def at(self, old: Beta, x: np.ndarray) -> Beta:
        """Returns a mean that moves by standard deviations, and a concentration by factors."""
        total, mean = old.a + old.b, old.a / (old.a + old.b)
        std = np.sqrt(mean * (1 - mean) / (total + 1))
        logit = np.log(mean / (1 - mean)) + x[:DIM] * std / (mean * (1 - mean))
        mean, total = special.expit(logit), total * np.exp(x[DIM:])
        return Beta(a=mean * total, b=(1 - mean) * total, **BOX)

    def room(self, p: Beta) -> np.ndarray:
        """Returns how far a and b are above the least, relative."""
        return np.log(np.concatenate([p.a, p.b]) / LEAST)

    def size(self, old: Beta) -> int:
        """Returns two numbers a dimension."""
        return 2 * DIM


class TruncatedReference(Reference):
    """Independent truncated normals."""

    name = "truncated-gaussian"

    def draw(self, rng: np.random.Generator, kind: str) -> TruncatedGaussian:
        """Returns a mean anywhere in the box, and a std between a thousandth of the box and all of it."""
        width = UPPER - LOWER
        mean = rng.uniform(LOWER, UPPER)
        std = width * 10 ** rng.uniform(-2.5, 0.0, DIM)
        if kind == "border":
            mean[0] = rng.choice([LOWER[0], UPPER[0]])
        if kind == "flat":
            std = WIDEST * width
        if kind == "narrow":
            std = width * 10 ** rng.uniform(-4.0, -3.0, DIM)
        mean, std = (x.astype(np.float32) for x in (mean, std))
        return TruncatedGaussian(mean=mean, std=std, **BOX)

    def contexts(
        self, p: TruncatedGaussian, rng: np.random.Generator, count: int
    ) -> np.ndarray:
        """Returns draws by the inverse of the distribution function."""
        low, high = self._ends(p)
        return stats.truncnorm.rvs(
            low, high, p.mean, p.std, (count, DIM), random_state=rng
        )

    def log_density(self, p: TruncatedGaussian, contexts: np.ndarray) -> np.ndarray:
        """Returns the normal's, less the log of its mass in the box."""
        normal = stats.norm.logpdf(contexts, p.mean, p.std)
        return (normal - np.log(self._mass(p))).sum(axis=-1)

    def kl(self, p: TruncatedGaussian, q: TruncatedGaussian) -> float:
        """Returns the difference of expected log densities, by the first two moments."""
        low, high = self._ends(p)
        mass = self._mass(p)
        at_low, at_high = stats.norm.pdf(low), stats.norm.pdf(high)
        first = (at_low - at_high) / mass
        second = 1 + (low * at_low - high * at_high) / mass
        ratio, shift = p.std / q.std, (p.mean - q.mean) / q.std
        square = ratio**2 * second + 2 * ratio * shift * first + shift**2
        logs = np.log(q.std * self._mass(q)) - np.log(p.std * mass)
        return float((logs + 0.5 * (square - second)).sum())

    def exact_kl(self, p: TruncatedGaussian, q: TruncatedGaussian) -> float:
        """Returns the same."""
        total = mpmath.mpf(0)
        for row in zip(LOWER, UPPER, p.mean, p.std, q.mean, q.std, strict=True):
            lower, upper, pm, ps, qm, qs = (mpmath.mpf(float(x)) for x in row)
            low, high = (lower - pm) / ps, (upper - pm) / ps
            mass = mpmath.ncdf(high) - mpmath.ncdf(low)
            other = mpmath.ncdf((upper - qm) / qs) - mpmath.ncdf((lower - qm) / qs)
            at_low, at_high = mpmath.npdf(low), mpmath.npdf(high)
            first = (at_low - at_high) / mass
            second = 1 + (low * at_low - high * at_high) / mass
            ratio, shift = ps / qs, (pm - qm) / qs
            square = ratio**2 * second + 2 * ratio * shift * first + shift**2
            total += mpmath.log(qs * other / (ps * mass)) + (square - second) / 2
        return float(total)

    def at(self, old: TruncatedGaussian, x: np.ndarray) -> TruncatedGaussian:
        """Returns a mean that moves by standard deviations, and a std by factors."""
        mean, std = old.mean + x[:DIM] * old.std, old.std * np.exp(x[DIM:])
        return TruncatedGaussian(mean=mean, std=std, **BOX)

    def room(self, p: TruncatedGaussian) -> np.ndarray:
        """Returns how far the mean is from the bounds, and the std below its largest."""
        widest = np.log(WIDEST * (UPPER - LOWER) / p.std)
        return np.concatenate(
            [(p.mean - LOWER) / p.std, (UPPER - p.mean) / p.std, widest]
        )

    def size(self, old: TruncatedGaussian) -> int:
        """Returns two numbers a dimension."""
        return 2 * DIM

    def _ends(self, p: TruncatedGaussian) -> tuple[np.ndarray, np.ndarray]:
        return (LOWER - p.mean) / p.std, (UPPER - p.mean) / p.std

    def _mass(self, p: TruncatedGaussian) -> np.ndarray:
        low, high = self._ends(p)
        return special.ndtr(high) - special.ndtr(low)


class MixtureReference(Reference):
    """Three correlated Gaussians; the divergence is the bound."""

    name = "mixture"

    def draw(self, rng: np.random.Generator, kind: str) -> Mixture:
        """Returns components anywhere in the box, between a thousandth of it and all of it wide; "flat" ones share a mean."""
        mean = rng.uniform(LOWER, UPPER, (COMPONENTS, DIM))
        std = (UPPER - LOWER) * 10 ** rng.uniform(-2.0, -0.3, (COMPONENTS, DIM))
        weights = rng.dirichlet(np.full(COMPONENTS, 2.0))
        if kind == "flat":
            mean[:], std[:] = mean[0], std[0]
        if kind == "narrow":
            std *= 1e-2
        if kind == "border":
            weights = np.array([1.0, 1e-4, 1e-6])
        skew = 0.4 * np.tril(rng.normal(size=(COMPONENTS, DIM, DIM)), -1)
        chol = std[..., None] * (np.eye(DIM) + skew)
        weights, mean, chol = (
            x.astype(np.float32) for x in (weights / weights.sum(), mean, chol)
        )
        return Mixture(weights, Gaussian(mean, chol))

    def contexts(self, p: Mixture, rng: np.random.Generator, count: int) -> np.ndarray:
        """Returns draws."""
        number = rng.choice(COMPONENTS, count, p=p.weights / p.weights.sum())
        noise = rng.normal(size=(count, DIM))
        shift = np.einsum("mij,mj->mi", p.components.chol[number], noise)
        return p.components.mean[number] + shift

    def log_density(self, p: Mixture, contexts: np.ndarray) -> np.ndarray:
        """Returns the log of the sum of the densities."""
        logs = [
            np.log(weight / p.weights.sum())
            + stats.multivariate_normal.logpdf(contexts, mean, chol @ chol.T)
            for weight, mean, chol in self._parts(p)
        ]
        return special.logsumexp(logs, axis=0)

    def kl(self, p: Mixture, q: Mixture) -> float:
        """Returns KL(w || v) + sum w_i KL(p_i || q_i)."""
        ours, theirs = p.weights / p.weights.sum(), q.weights / q.weights.sum()
        apart = [
            gaussian_kl(*one, *other)
            for (_, *one), (_, *other) in zip(
                self._parts(p), self._parts(q), strict=True
            )
        ]
        return float((ours * (np.log(ours / theirs) + apart)).sum())

    def exact_kl(self, p: Mixture, q: Mixture) -> float:
        """Returns the same."""
        total = mpmath.mpf(0)
        ours, theirs = (mpmath.fsum(one.weights.tolist()) for one in (p, q))
        for one, other in zip(self._parts(p), self._parts(q), strict=True):
            weight, share = (mpmath.mpf(float(part[0])) for part in (one, other))
            weight, share = weight / ours, share / theirs
            apart = _exact_gaussian_kl(*one[1:], *other[1:])
            total += weight * (mpmath.log(weight / share) + apart)
        return float(total)

    def at(self, old: Mixture, x: np.ndarray) -> Mixture:
        """Returns weights by log ratios, means by standard deviations, factors by those of the old one."""
        x = np.clip(np.nan_to_num(x), -20, 20)  # a line search may ask for anything
        logs, moves = x[:COMPONENTS], x[COMPONENTS:].reshape(COMPONENTS, -1)
        weights = old.weights * np.exp(logs)
        parts = []
        for (_, mean, chol), move in zip(self._parts(old), moves, strict=True):
            factor = np.diag(np.exp(move[DIM : 2 * DIM]))
            factor[1, 0] = move[2 * DIM]
            parts.append((mean + chol @ move[:DIM], chol @ factor))
        means, chols = (np.stack(rows) for rows in zip(*parts, strict=True))
        return Mixture(weights / weights.sum(), Gaussian(means, chols))

    def room(self, p: Mixture) -> np.ndarray:
        """Returns nothing: all of them are of the family."""
        return np.zeros(0)

    def size(self, old: Mixture) -> int:
        """Returns a weight, a mean and a factor for each component."""
        return COMPONENTS * (1 + 2 * DIM + 1)

    def _parts(self, p: Mixture) -> list[tuple[np.ndarray, ...]]:
        return list(zip(p.weights, p.components.mean, p.components.chol, strict=True))


class ProductReference(Reference):
    """Rows of a table in the first dimension, a Gaussian in the second."""

    name = "discrete-gaussian"

    def draw(self, rng: np.random.Generator, kind: str) -> DiscreteGaussian:
        """Returns weights of ten rows; "border" ones are almost on one row."""
        weights = rng.dirichlet(np.full(ROWS, rng.choice([0.3, 1.0])))
        if kind == "flat":
            weights[:] = 1.0
        if kind == "border":
            weights = np.where(np.arange(ROWS) == 3, 1.0, 1e-9)
        weights = np.maximum(weights, 1e-9)
        mean = rng.uniform(LOWER[1], UPPER[1], 1)
        std = 10 ** rng.uniform(*((-4.0, -3.0) if kind == "narrow" else (-2.0, 0.5)), 1)
        logits, mean, std, table = (
            x.astype(np.float32)
            for x in (np.log(weights / weights.max()), mean, std, TABLE)
        )
        return DiscreteGaussian(Discrete(table, logits), Gaussian(mean, std[:, None]))

    def contexts(
        self, p: DiscreteGaussian, rng: np.random.Generator, count: int
    ) -> np.ndarray:
        """Returns draws."""
        rows = rng.choice(ROWS, count, p=np.exp(self._logs(p)))
        rest = rng.normal(p.gaussian.mean, p.gaussian.chol[:, 0], (count, 1))
        return np.concatenate([TABLE[rows], rest], axis=1)

    def log_density(self, p: DiscreteGaussian, contexts: np.ndarray) -> np.ndarray:
        """Returns log probability of the row plus log density of the rest."""
        rows = np.abs(contexts[:, :1] - TABLE.T).argmin(axis=1)
        rest = stats.norm.logpdf(
            contexts[:, 1], p.gaussian.mean[0], p.gaussian.chol[0, 0]
        )
        return self._logs(p)[rows] + rest

    def kl(self, p: DiscreteGaussian, q: DiscreteGaussian) -> float:
        """Returns the sum of both."""
        ours, theirs = self._logs(p), self._logs(q)
        rest = gaussian_kl(
            p.gaussian.mean, p.gaussian.chol, q.gaussian.mean, q.gaussian.chol
        )
        return float((np.exp(ours) * (ours - theirs)).sum()) + rest

    def exact_kl(self, p: DiscreteGaussian, q: DiscreteGaussian) -> float:
        """Returns the same."""
        total = _exact_discrete_kl(p.discrete.logits, q.discrete.logits)
        ps, qs = (mpmath.mpf(float(one.gaussian.chol[0, 0])) for one in (p, q))
        shift = mpmath.mpf(float(p.gaussian.mean[0])) - float(q.gaussian.mean[0])
        rest = ((ps / qs) ** 2 - 1 + (shift / qs) ** 2) / 2 - mpmath.log(ps / qs)
        return float(total + rest)

    def at(self, old: DiscreteGaussian, x: np.ndarray) -> DiscreteGaussian:
        """Returns log weights and the log of the std that differ, and a mean that moves by standard deviations."""
        std = old.gaussian.chol
        return DiscreteGaussian(
            Discrete(old.discrete.table, old.discrete.logits + x[:ROWS]),
            Gaussian(old.gaussian.mean + x[ROWS] * std[0], std * np.exp(x[ROWS + 1])),
        )

    def room(self, p: DiscreteGaussian) -> np.ndarray:
        """Returns nothing: all of them are of the family."""
        return np.zeros(0)

    def size(self, old: DiscreteGaussian) -> int:
        """Returns a log weight for each row, and two."""
        return ROWS + 2

    def _logs(self, p: DiscreteGaussian) -> np.ndarray:
        return p.discrete.logits - special.logsumexp(p.discrete.logits)


REFERENCES = {
    one.name: one
    for one in (
        GaussianReference(),
        DiscreteReference(),
        TruncatedReference(),
        BetaReference(),
        MixtureReference(),
        ProductReference(),
    )
}


def make_family_problem(reference: Reference, seed: int) -> FamilyProblem:
    """Returns a random problem of a kind that the seed chooses from `NASTY`."""
    rng = np.random.default_rng([seed, len(reference.name)])
    kind = NASTY[seed % len(NASTY)]
    old = reference.draw(rng, kind)
    target = old if kind == "at target" else reference.draw(rng, "plain")
    contexts = reference.contexts(in_double(old), rng, CONTEXTS)
    if kind == "corner":
        contexts = np.tile(contexts.min(axis=0), (CONTEXTS, 1))
    elif kind == "duplicates":
        contexts[:] = contexts[:2].repeat(CONTEXTS // 2, axis=0)
    contexts = np.clip(contexts, LOWER, UPPER).astype(np.float32)
    apart = (contexts - contexts.mean(axis=0)) / (contexts.std(axis=0) + 1e-9)
    values = 5 + 2 * np.tanh(apart @ rng.normal(size=DIM))
    values += 0.5 * rng.normal(size=CONTEXTS)
    values = {"constant": np.full(CONTEXTS, 4.0), "negative": values - 12}.get(
        kind, values
    )
    if kind == "outlier":
        values[0] *= 50
    seen = 1 if kind == "single" else rng.integers(8, CONTEXTS + 1)
    values, mask = values.astype(np.float32), np.arange(CONTEXTS) < seen
    mean, spread = float(values[mask].mean()), float(values[mask].std())
    kl = max(1e-10, reference.kl(in_double(old), in_double(target)))
    alpha = min(rng.choice([0.0, 0.4, 1.6]) * max(0.0, mean) / kl, 1e5)
    bound = mean - rng.choice([0.0, 0.02, 0.5]) * spread - 1e-5 * abs(mean)
    max_kl = {"wide": 0.5, "tiny region": 1e-3}.get(kind, 0.05)
    numbers = (np.asarray(x, np.float32) for x in (alpha, bound, max_kl))
    floor = reference.floor(old, kind)
    return FamilyProblem(old, target, contexts, values, mask, *numbers, floor)


def in_double(p: Any) -> Any:
    """Returns a distribution with its numbers in double precision."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, float), p)


def excess_of(
    reference: Reference, problem: FamilyProblem, new: Any, direction: str
) -> float:
    """Returns by how much a result exceeds its trust region, in 40 digits where double precision cannot tell."""
    old, new = in_double(problem.old), in_double(new)
    pair = (old, new) if direction == "old-new" else (new, old)
    limit = float(problem.max_kl)
    excess = reference.kl(*pair) - limit
    if abs(excess) > 1e-6 * limit:
        return excess
    with mpmath.workdps(DIGITS):
        return reference.exact_kl(*pair) - limit


def _log_beta(a: Any, b: Any) -> Any:
    return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def _exact_gaussian_kl(
    mean: np.ndarray, chol: np.ndarray, other_mean: np.ndarray, other_chol: np.ndarray
) -> Any:
    mean, chol, end, root = (
        mpmath.matrix(np.asarray(x, float).tolist())
        for x in (mean, chol, other_mean, other_chol)
    )
    ratio = mpmath.lu_solve(root, chol[:, 0]), mpmath.lu_solve(root, chol[:, 1])
    shift = mpmath.lu_solve(root, mean - end)
    squares = sum(x**2 for column in (*ratio, shift) for x in column)
    logs = sum(mpmath.log(root[i, i] / chol[i, i]) for i in range(DIM))
    return (squares - DIM) / 2 + logs


def _exact_discrete_kl(logits: np.ndarray, others: np.ndarray) -> Any:
    shares = []
    for one in (logits, others):
        weights = [mpmath.exp(float(x)) for x in one]
        shares.append([weight / mpmath.fsum(weights) for weight in weights])
    return mpmath.fsum(a * mpmath.log(a / b) for a, b in zip(*shares, strict=True))
