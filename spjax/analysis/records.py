"""From values to benchmark records: statistics of a run or a measurement, with where they come from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from spjax.analysis import statistics
from spjax.runs.provenance import commit, device, versions
from spjax.runs.read import Group, Run
from spjax.runs.results import Record
from spjax.runs.schema import Estimate, Reference, Setting


def record(
    *,
    experiment: str,
    env: str,
    agent: str,
    teacher: str,
    metric: str,
    seeds: Sequence[int],
    values: Sequence[float] | Float[np.ndarray, " seed"],
    schedule: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    threshold: float | None = None,
    never_reached: int | None = None,
    paper_mean: float | None = None,
    paper_standard_error: float | None = None,
    iterations: int | None = None,
    wall_seconds: float | None = None,
    compile_seconds: float | None = None,
    device: str | None = None,
    versions: Mapping[str, str | None] | None = None,
    commit: str | None = None,
    command: str | None = None,
) -> Record:
    """Returns a record with all keys; mean and standard error are computed from the finite values.

    Raises:
        ValueError: the numbers of seeds and values differ.
    """
    array = np.asarray(values, dtype=float)
    if array.shape != (len(seeds),):
        counts = f"{array.size} values for {len(seeds)} seeds"
        raise ValueError(f"a record needs one value a seed, got {counts}")
    return Record(
        experiment=experiment,
        env=env,
        agent=agent,
        teacher=teacher,
        schedule=schedule,
        settings=dict(settings or {}),
        metric=metric,
        threshold=threshold,
        never_reached=never_reached,
        seeds=[int(seed) for seed in seeds],
        values=[_finite(value) for value in array],
        mean=_finite(statistics.mean(array)),
        standard_error=_finite(statistics.standard_error(array)),
        paper_mean=paper_mean,
        paper_standard_error=paper_standard_error,
        iterations=iterations,
        wall_seconds=wall_seconds,
        compile_seconds=compile_seconds,
        device=device,
        versions=None if versions is None else dict(versions),
        commit=commit,
        command=command,
    )


def measured_here(
    *, command: str, packages: Sequence[str] = (), **fields: Any
) -> Record:
    """Returns a record of what was measured in this process, with device, versions and commit.

    Args:
        command: makes it again.
        packages: names of further packages that the numbers depend on.
        fields: the other fields of `record`.
    """
    return record(
        command=command,
        device=device(),
        versions=versions(packages),
        commit=commit(),
        **fields,
    )


def records_of_run(
    run: Run, experiment: str, threshold: float | None = None
) -> list[Record]:
    """Returns final discounted return, final success rate and, if asked, iterations to a threshold.

    A swept run gives one set of records for each value of the swept settings. Where the folder
    carries published results of the same length, they are attached; where these are of another
    return, this one has a record too.

    Args:
        run: the run.
        experiment: what the records are for, for example "table-1".
        threshold: return whose first crossing counts, of the kind that is in print.
    """
    records = []
    for group in run.groups():
        printed = reference_of(run, group)
        compared = compared_metric(run)
        for metric in dict.fromkeys(("discounted_return", compared, "success_rate")):
            curves = run.evaluation_curves(metric, group)
            paper = printed.final if printed and metric == compared else None
            records.append(
                record_of_group(
                    run, group, experiment, metric, curves.values[:, -1], paper
                )
            )
        if threshold is not None:
            curves = run.evaluation_curves(compared, group)
            crossing = statistics.iterations_to_threshold(
                curves.iterations, curves.values, threshold
            )
            paper = printed.iterations if printed else None
            entry = record_of_group(
                run,
                group,
                experiment,
                "iterations_to_threshold",
                crossing.iterations,
                paper,
            )
            records.append(
                Record(
                    **{
                        **entry,
                        "threshold": threshold,
                        "never_reached": crossing.never_reached,
                    }
                )
            )
    return records


def compared_metric(run: Run) -> str:
    """Returns the kind of return that is in print about a run; the discounted one where there is nothing."""
    reference = run.config.reference
    return reference.metric if reference else "discounted_return"


def reference_of(run: Run, group: Group) -> Reference | None:
    """Returns the published results beside a group: none if something is swept, or of another length."""
    reference = None if group.settings else run.config.reference
    return (
        reference
        if reference and reference.covers(run.last_evaluated_iteration)
        else None
    )


def record_of_group(
    run: Run,
    group: Group,
    experiment: str,
    metric: str,
    values: Float[np.ndarray, " seed"],
    paper: Estimate | None = None,
) -> Record:
    """Returns a record of one metric of a run, a value for each seed of the group."""
    config, summary = run.config, run.summary
    return record(
        experiment=experiment,
        env=config.task_name,
        agent=config.agent,
        teacher=config.teacher,
        schedule=config.schedule,
        settings=group.settings,
        metric=metric,
        seeds=run.seeds(group),
        values=values,
        paper_mean=paper.mean if paper else None,
        paper_standard_error=paper.standard_error if paper else None,
        iterations=run.last_evaluated_iteration,
        wall_seconds=summary.wall_seconds if summary else None,
        compile_seconds=summary.compile_seconds if summary else None,
        device=config.device,
        versions=config.versions,
        commit=config.commit,
        command=config.command,
    )


def _finite(value: float | np.ndarray) -> float | None:
    return float(value) if math.isfinite(value) else None
