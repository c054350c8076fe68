"""Statistics over training runs, as Klink et al. (2021) use them.

Everywhere, values that are not finite are left out and the number of seeds shrinks accordingly; a place without any
finite value gives NaN. The standard error is the *population* standard deviation (ddof 0) over sqrt(n), as published.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Real
from numpy.typing import ArrayLike

PAPER_SEEDS = 20


@dataclass(frozen=True)
class Band:
    """A lower, a central and an upper curve."""

    low: Float[np.ndarray, " point"]
    middle: Float[np.ndarray, " point"]
    high: Float[np.ndarray, " point"]


@dataclass(frozen=True)
class ThresholdCrossing:
    """When each run first reached a threshold."""

    iterations: Float[
        np.ndarray, " seed"
    ]  # the last evaluated iteration where the threshold was never reached
    never_reached: int  # number of such seeds


def mean(values: Float[np.ndarray, " seed *point"]) -> Float[np.ndarray, " *point"]:
    """Returns the mean over the seeds (first axis)."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    total = np.where(finite, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def standard_error(
    values: Float[np.ndarray, " seed *point"],
) -> Float[np.ndarray, " *point"]:
    """Returns std (ddof 0) / sqrt(n) over the seeds (first axis); NaN for a single seed, of which nothing is known."""
    count = np.isfinite(values).sum(axis=0)
    variance = mean((values - mean(values)) ** 2)
    return np.where(count > 1, np.sqrt(variance / np.maximum(count, 1)), np.nan)


def two_standard_errors(values: Float[np.ndarray, "seed point"]) -> Band:
    """Returns mean - 2 SE, mean and mean + 2 SE: the shaded area of the paper's step-based figures."""
    middle, error = mean(values), standard_error(values)
    return Band(middle - 2 * error, middle, middle + 2 * error)


def quantiles(values: Float[np.ndarray, "seed point"]) -> Band:
    """Returns the 10 %, 50 % and 90 % quantiles: the band of the paper's episodic figures."""
    band = np.full((3, *values.shape[1:]), np.nan)
    finite = np.where(np.isfinite(values), values, np.nan)
    known = np.isfinite(values).any(axis=0)
    band[:, known] = np.nanquantile(finite[:, known], (0.1, 0.5, 0.9), axis=0)
    return Band(*band)


def welch_test(a: ArrayLike, b: ArrayLike) -> float:
    """Returns the two-sided p-value of Welch's t-test for equal means; NaN for fewer than two finite values."""
    first, second = _finite(a), _finite(b)
    return _welch(*_moments(first), first.size, *_moments(second), second.size)


def welch_against_paper(
    values: ArrayLike,
    paper_mean: float,
    paper_standard_error: float,
    paper_seeds: int = PAPER_SEEDS,
) -> float:
    """Returns the two-sided p-value of Welch's t-test of our seeds against a published mean +- standard error.

    The published standard error is std (ddof 0) / sqrt(n), so the sample variance of the test is n SE^2 n / (n - 1). It
    is rounded in print, to one decimal in Table 1: p-values near a significance level are to be read with care there.
    """
    ours = _finite(values)
    paper_variance = paper_standard_error**2 * paper_seeds**2 / (paper_seeds - 1)
    return _welch(*_moments(ours), ours.size, paper_mean, paper_variance, paper_seeds)


def leaders(samples: Sequence[ArrayLike], significance: float) -> list[bool]:
    """Says of each sample whether it has the highest mean or does not differ from that one: Welch p >= significance.

    A sample without a finite value never leads; one of a single value cannot be told apart from the best.
    """
    finite = [_finite(sample) for sample in samples]
    known = [sample for sample in finite if sample.size]
    if not known:
        return [False for _ in finite]
    best = max(known, key=np.mean)
    return [
        sample.size > 0
        and (sample is best or not welch_test(sample, best) < significance)
        for sample in finite
    ]


def iterations_to_threshold(
    iterations: Real[np.ndarray, " point"],
    values: Float[np.ndarray, "seed point"],
    threshold: float,
) -> ThresholdCrossing:
    """Returns when each seed first reached the threshold, linearly interpolated between evaluated iterations.

    The paper does not publish its treatment of seeds that never get there; here they count as the last evaluated
    iteration and are counted apart, so the mean is a lower bound if there are any. After an evaluation that is not
    finite, the crossing is put at the next evaluated iteration, without interpolation.
    """
    crossings = [
        _first_crossing(iterations, seed_values, threshold) for seed_values in values
    ]
    reached = [crossing for crossing in crossings if crossing is not None]
    padded = [
        float(iterations[-1]) if crossing is None else crossing
        for crossing in crossings
    ]
    return ThresholdCrossing(
        np.asarray(padded, dtype=float), len(crossings) - len(reached)
    )


def _first_crossing(
    iterations: np.ndarray, values: np.ndarray, threshold: float
) -> float | None:
    above = np.flatnonzero(values >= threshold)
    if above.size == 0:
        return None
    after = int(above[0])
    if after == 0 or not np.isfinite(values[after - 1]):
        return float(iterations[after])
    fraction = (threshold - values[after - 1]) / (values[after] - values[after - 1])
    return float(
        iterations[after - 1] + fraction * (iterations[after] - iterations[after - 1])
    )


def _finite(values: ArrayLike) -> Float[np.ndarray, " seed"]:
    values = np.asarray(values, dtype=float)
    return values[np.isfinite(values)]


def _moments(values: Float[np.ndarray, " seed"]) -> tuple[float, float]:
    """Returns the mean and the unbiased variance; NaN where there are too few values."""
    if values.size < 2:
        return math.nan, math.nan
    return float(values.mean()), float(values.var(ddof=1))


def _welch(
    mean_a: float,
    variance_a: float,
    n_a: int,
    mean_b: float,
    variance_b: float,
    n_b: int,
) -> float:
    if variance_a == 0 and variance_b == 0:
        return 1.0 if mean_a == mean_b else 0.0
    from scipy import stats  # slow to import, and few need a test

    spread = math.sqrt(variance_a), math.sqrt(variance_b)
    test = stats.ttest_ind_from_stats(
        mean_a, spread[0], n_a, mean_b, spread[1], n_b, equal_var=False
    )
    return float(test.pvalue)
