"""Successive halving: settings of a sweep that are behind stop, and their time goes to the others.

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016, Algorithm 1: at
each rung the settings that are left are ranked, and the best share of them goes on. Here the rank is that of a setting's return
on the target tasks at the rung, the mean over its seeds, which stop or go on together. What differs: rungs are evenly spaced
rather than doubling, so that the user says when; settings tied with the last one that goes on go on too; nothing is cut at the
end of the run, where there is nothing to save.

The ranking says nothing about what a setting would have become. A curriculum pays late, so a rung before it gets to the target
prefers settings that rush; `cuts.json` keeps mean and standard error of each that stopped, so a reader sees how close it was.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from spjax.runs.cuts import Cut
from spjax.runs.schema import Lane


@dataclasses.dataclass(frozen=True)
class Halving:
    """When settings stop, and how many."""

    share: float = 0.5  # of the settings that are left, which goes on at a rung
    every: int = 50  # iterations between rungs

    def check(self, evaluate_every: int) -> None:
        """Checks both.

        Raises:
            ValueError: one sentence that names the value and what would be right.
        """
        number = isinstance(self.share, int | float) and not isinstance(
            self.share, bool
        )
        if not number or not 0 < self.share < 1:
            raise ValueError(
                f"halve must be a share of the settings between 0 and 1, such as 0.5, got {self.share!r}"
            )
        whole = isinstance(self.every, int) and not isinstance(self.every, bool)
        if not whole or self.every < 1 or self.every % evaluate_every:
            raise ValueError(
                f"every must be a multiple of evaluate_every, {evaluate_every}, since settings are ranked by an evaluation, "
                f"got {self.every!r}"
            )

    def is_rung(self, iteration: int, num_iterations: int) -> bool:
        """Says whether settings stop after this iteration; none do at the end."""
        return 0 < iteration < num_iterations and iteration % self.every == 0


def cuts(
    halving: Halving,
    iteration: int,
    lanes: Sequence[Lane],
    returns: Mapping[int, float],
) -> list[Cut]:
    """Returns the settings that stop at a rung.

    Args:
        halving: how many go on.
        iteration: the rung.
        lanes: all lanes of the sweep.
        returns: of each lane that is left, its return on the target; not finite is behind everything.
    """
    groups: dict[tuple[tuple[str, object], ...], list[int]] = {}
    for lane in returns:
        groups.setdefault(tuple(lanes[lane].settings.items()), []).append(lane)
    means = [_mean([returns[lane] for lane in group]) for group in groups.values()]
    going_on = max(1, math.ceil(halving.share * len(groups)))
    last = sorted(means, reverse=True)[going_on - 1]
    found = []
    for group, mean in zip(groups.values(), means, strict=True):
        if mean >= last:  # a tie goes on
            continue
        values = [returns[lane] for lane in group]
        found.append(
            Cut(
                iteration=iteration,
                lanes=tuple(group),
                mean=_finite(mean),
                standard_error=_finite(_error(values)),
                kept=_finite(last),
                rank=1 + sum(other > mean for other in means),
                of=len(groups),
            )
        )
    return found


def _mean(values: Sequence[float]) -> float:
    """Returns the mean over the seeds; minus infinity where one of them is not finite."""
    return float(np.mean(values)) if np.isfinite(values).all() else -math.inf


def _error(values: Sequence[float]) -> float:
    """Returns the standard error as everywhere, std (ddof 0) / sqrt(n)."""
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan
    return float(np.std(values) / math.sqrt(len(values)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
