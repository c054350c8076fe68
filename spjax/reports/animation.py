"""Where the contexts of a report's curves are at each evaluation: the frames of its animation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from spjax.analysis.arrival import KL_TO_TARGET
from spjax.analysis.competence import CONTEXT_MEAN
from spjax.analysis.curves import ALPHA
from spjax.analysis.distributions import mixed_by
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
MOST_COMPONENTS = 40
COVARIANCE = "teacher.context_covariance"
COMPONENTS = tuple(
    f"teacher.components.{name}" for name in ("weights", "means", "covariances")
)


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
    """Returns what a report draws of the initial or the target distribution: atoms, components, or mean and covariance.

    `normal` says whether the last two are all there is to it, `box` the bounds that it ends at.
    """
    settings = record.settings["teacher"].get(which)
    settings = settings if isinstance(settings, Mapping) else {}
    moments = getattr(record, which)
    covariance = settings.get("covariance")
    if covariance is None or len(np.asarray(covariance)) != len(moments.mean):
        covariance = np.diag(np.square(moments.std))
    content = {
        "mean": list(moments.mean),
        "covariance": numbers(np.ravel(np.asarray(covariance, float))),
        "normal": settings.get("distribution", "gaussian") == "gaussian",
        "box": [settings["lower"], settings["upper"]] if "lower" in settings else None,
    }
    table, space = settings.get("table"), record.context_space
    if "means" in settings or (table is not None and "mean" in settings):
        return content | {"components": _components(*mixed_by(settings))}
    if table is None:
        return content
    shares = np.asarray(settings.get("weights") or np.ones(len(table)), float)
    chosen = np.sort(np.argsort(-shares)[:MOST_ATOMS])
    atoms = inside(np.asarray(table, float)[chosen], space.lower, space.upper)
    return content | {"atoms": atoms, "shares": numbers(shares[chosen] / shares.sum())}


def _components(
    weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> list[dict[str, object]]:
    """Returns the Gaussians that a distribution mixes, those with the most weight, with their shares."""
    return [
        {
            "share": number(weights[k] / weights.sum(), 3),
            "mean": numbers(means[k]),
            "covariance": numbers(np.ravel(covariances[k])),
        }
        for k in np.sort(np.argsort(-weights)[:MOST_COMPONENTS])
        if weights[k] > 0
    ]


def _lane(run: Run, lane: int) -> dict[str, object]:
    """Returns the frames of one lane."""
    space = run.config.context_space
    own = run.evaluation.filter(pc.field("lane") == lane)  # until it was stopped
    evaluated = np.unique(own["iteration"].to_numpy())
    shown = evaluated[spread_out(len(evaluated), MOST_FRAMES)].tolist()
    samples = sampled_contexts(run, shown, [lane])
    known = dict(_known(run, lane, set(shown)))
    frames = []
    for iteration in shown:
        points, moments = samples[lane, iteration], known.get(iteration, {})
        frames.append(
            {
                "iteration": iteration,
                "samples": inside(
                    points[spread_out(len(points), MOST_SAMPLES)],
                    space.lower,
                    space.upper,
                ),
            }
            | moments
            | _drawn_rows(run.config, points, moments)
        )
    return {
        "label": f"seed {run.config.lanes[lane].seed}",
        "normal": run.has_metric(KL_TO_TARGET),  # those of particles have moments alone
        "frames": frames,
    }


def _drawn_rows(
    record: RunRecord, points: np.ndarray, moments: Mapping[str, object]
) -> dict[str, object]:
    """Returns the components of a table's rows with their Gaussian: rows as often as drawn, the Gaussian as recorded."""
    settings = record.settings["teacher"].get("initial")
    if not isinstance(settings, Mapping) or not moments:
        return {}
    if settings.get("table") is None or "mean" not in settings:
        return {}
    table = np.asarray(settings["table"], float)
    rows, dim = table.shape[1], points.shape[1]
    apart = np.abs(points[:, None, :rows] - table[None]).sum(axis=2)
    counts = np.bincount(apart.argmin(axis=1), minlength=len(table))
    mean = np.asarray(moments["mean"], float)[rows:]
    covariance = np.reshape(np.asarray(moments["covariance"], float), (dim, dim))
    covariance[:rows] = covariance[:, :rows] = 0.0  # a row has no spread
    means = np.hstack([table, np.tile(mean, (len(table), 1))])
    spreads = np.tile(covariance, (len(table), 1, 1))
    return {"components": _components(counts, means, spreads)}


def _known(
    run: Run, lane: int, shown: set[int]
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yields what is known of a teacher's distribution at these iterations: moments, components, KL to the target, alpha."""
    names = [
        name
        for name in (CONTEXT_MEAN, COVARIANCE, KL_TO_TARGET, ALPHA, *COMPONENTS)
        if name in run.metrics.column_names
    ]
    if CONTEXT_MEAN not in names or COVARIANCE not in names:
        return
    settings = run.config.settings["teacher"]
    start = distribution(
        run.config, "target" if settings.get("start") == "target" else "initial"
    )
    yield (
        0,
        {
            name: start[name]
            for name in ("mean", "covariance", "components")
            if name in start
        },
    )
    rows = run.metrics.select(["lane", "iteration", *names])
    rows = rows.filter(
        (pc.field("lane") == lane) & pc.field("iteration").isin(list(shown))
    )
    for row in rows.to_pylist():
        if row[CONTEXT_MEAN] is None or row[COVARIANCE] is None:
            continue
        moments: dict[str, object] = {
            "mean": numbers(row[CONTEXT_MEAN]),
            "covariance": numbers(row[COVARIANCE]),
            "kl": number(row.get(KL_TO_TARGET), 3),
            "alpha": number(row.get(ALPHA), 3),
        }
        if COMPONENTS[0] in names:
            dim = len(row[CONTEXT_MEAN])
            weights, means, spreads = (np.asarray(row[name]) for name in COMPONENTS)
            moments["components"] = _components(
                weights, means.reshape(-1, dim), spreads.reshape(-1, dim, dim)
            )
        yield row["iteration"], moments
