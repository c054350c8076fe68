"""Where the contexts of a report's curves are at each evaluation: the frames of its animation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from spjax.analysis.arrival import KL_TO_TARGET
from spjax.analysis.competence import CONTEXT_MEAN
from spjax.analysis.curves import ALPHA
from spjax.analysis.snapshots import evenly_spaced, sampled_contexts
from spjax.reports.numbers import inside, number, numbers, spread_out
from spjax.reports.series import Series
from spjax.runs.read import Run
from spjax.runs.schema import RunRecord

MOST_FRAMES = 80
MOST_SEEDS = 4  # of one series
MOST_LANES = 24  # in all
MOST_SAMPLES = 60  # of a frame
MOST_ATOMS = 400
COVARIANCE = "teacher.context_covariance"


def animation(series: Sequence[Series]) -> dict[str, object]:
    """Returns the context space, initial and target distribution of each series, and the frames of some of its seeds."""
    space = series[0].run.config.context_space
    seeds = max(1, min(MOST_SEEDS, MOST_LANES // len(series)))
    return {
        "dimensions": [
            {"name": name, "unit": unit, "low": low, "high": high}
            for name, unit, low, high in zip(
                space.names, space.units, space.lower, space.upper, strict=True
            )
        ],
        "ends": [
            {
                which: distribution(one.run.config, which)
                for which in ("initial", "target")
            }
            for one in series
        ],
        "lanes": [
            _lane(one.run, lane) | {"series": index}
            for index, one in enumerate(series)
            for lane in evenly_spaced(one.group.lanes, seeds)
        ],
        "all_seeds": all(len(one.group.lanes) <= seeds for one in series),
    }


def distribution(
    record: RunRecord, which: Literal["initial", "target"]
) -> dict[str, object]:
    """Returns what a report draws of the initial or the target distribution: its atoms, or mean and covariance.

    `normal` says whether these two are all there is to it.
    """
    settings = record.settings["teacher"].get(which)
    settings = settings if isinstance(settings, Mapping) else {}
    moments = getattr(record, which)
    covariance = settings.get("covariance")
    if covariance is None:
        covariance = np.diag(np.square(moments.std))
    content = {
        "mean": list(moments.mean),
        "covariance": numbers(np.ravel(np.asarray(covariance, float))),
        "normal": settings.get("distribution", "gaussian") == "gaussian",
    }
    table, space = settings.get("table"), record.context_space
    if table is None:
        return content
    shares = np.asarray(settings.get("weights") or np.ones(len(table)), float)
    chosen = np.sort(np.argsort(-shares)[:MOST_ATOMS])
    atoms = inside(np.asarray(table, float)[chosen], space.lower, space.upper)
    return content | {"atoms": atoms, "shares": numbers(shares[chosen] / shares.sum())}


def _lane(run: Run, lane: int) -> dict[str, object]:
    """Returns the frames of one lane."""
    space = run.config.context_space
    own = run.evaluation.filter(pc.field("lane") == lane)  # until it was stopped
    evaluated = np.unique(own["iteration"].to_numpy())
    shown = evaluated[spread_out(len(evaluated), MOST_FRAMES)].tolist()
    samples = sampled_contexts(run, shown, [lane])
    moments = dict(_moments(run, lane, set(shown)))
    frames = []
    for iteration in shown:
        points = samples[lane, iteration]
        points = points[spread_out(len(points), MOST_SAMPLES)]
        frames.append(
            {
                "iteration": iteration,
                "samples": inside(points, space.lower, space.upper),
            }
            | moments.get(iteration, {})
        )
    return {"label": f"seed {run.config.lanes[lane].seed}", "frames": frames}


def _moments(
    run: Run, lane: int, shown: set[int]
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yields what is known of a teacher's distribution at these iterations: mean, covariance, KL to the target, alpha."""
    names = [
        name
        for name in (CONTEXT_MEAN, COVARIANCE, KL_TO_TARGET, ALPHA)
        if name in run.metrics.column_names
    ]
    if CONTEXT_MEAN not in names or COVARIANCE not in names:
        return
    start = distribution(run.config, "initial")
    yield 0, {"mean": start["mean"], "covariance": start["covariance"]}
    rows = run.metrics.select(["lane", "iteration", *names])
    rows = rows.filter(
        (pc.field("lane") == lane) & pc.field("iteration").isin(list(shown))
    )
    for row in rows.to_pylist():
        if row[CONTEXT_MEAN] is None or row[COVARIANCE] is None:
            continue
        yield (
            row["iteration"],
            {
                "mean": numbers(row[CONTEXT_MEAN]),
                "covariance": numbers(row[COVARIANCE]),
                "kl": number(row.get(KL_TO_TARGET), 3),
                "alpha": number(row.get(ALPHA), 3),
            },
        )
