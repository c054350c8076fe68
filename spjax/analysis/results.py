"""Benchmark records: numbers together with everything needed to make them again.

A record is one metric of one method: a value per seed, its mean and standard error, the published value, the command,
the commit, the versions and the device. Records are kept as JSON lists in benchmarks/results/.
"""

import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from jaxtyping import Float

import spjax
from spjax.analysis import statistics
from spjax.analysis.paper import Estimate, published
from spjax.analysis.run import Group, Run, Setting
from spjax.cores import num_cores

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy", "mujoco")


class Record(TypedDict):
    """One metric of one method. `null` in JSON, None here, stands for what is unknown or does not apply."""

    experiment: str
    env: str
    agent: str
    teacher: str
    schedule: str | None
    settings: Mapping[str, Setting]  # swept settings of these seeds
    metric: str  # "discounted_return", "success_rate", "iterations_to_threshold", ...
    threshold: float | None  # discounted return that iterations_to_threshold refers to
    never_reached: int | None  # seeds that never reached it; they count as the last iteration
    seeds: list[int]
    values: list[float | None]  # one a seed; None where it is not finite
    mean: float | None  # over the finite values
    standard_error: float | None  # population std / sqrt(n)
    paper_mean: float | None
    paper_standard_error: float | None
    iterations: int | None
    wall_seconds: float | None
    compile_seconds: float | None
    device: str | None
    versions: dict[str, str | None] | None
    commit: str | None
    command: str | None


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
        raise ValueError(f"a record needs one value a seed, got {array.size} values for {len(seeds)} seeds")
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


def measured_here(*, command: str, packages: Sequence[str] = (), **fields: Any) -> Record:
    """Returns a record of what was measured in this process: `record` with device, versions and commit filled in.

    Args:
        command: makes it again.
        packages: names of further packages that the numbers depend on.
        fields: the other fields of `record`.
    """
    return record(device=device(), versions=versions(packages), commit=commit(), command=command, **fields)


def records_of_run(run: Run, experiment: str, threshold: float | None = None) -> list[Record]:
    """Returns the final discounted return, the final success rate and, if asked, the iterations to a threshold.

    A swept run gives one set of records for each value of the swept settings. Published values are attached where
    nothing is swept and the run was as long as the published ones; the published iterations refer to 80 % of the lower
    final return of the two schedules.

    Args:
        run: the run.
        experiment: what the records are for, for example "table-1".
        threshold: discounted return whose first crossing counts.
    """
    records = []
    for group in run.groups():
        printed = None if group.settings else published(run.config.method, run.last_evaluated_iteration)
        for metric in ("discounted_return", "success_rate"):
            curves = run.evaluation_curves(metric, group)
            paper = printed.final if printed and metric == "discounted_return" else None
            records.append(record_of_group(run, group, experiment, metric, curves.values[:, -1], paper))
        if threshold is not None:
            curves = run.evaluation_curves("discounted_return", group)
            crossing = statistics.iterations_to_threshold(curves.iterations, curves.values, threshold)
            paper = printed.iterations if printed else None
            entry = record_of_group(run, group, experiment, "iterations_to_threshold", crossing.iterations, paper)
            records.append(Record(**{**entry, "threshold": threshold, "never_reached": crossing.never_reached}))
    return records


def record_of_group(
    run: Run,
    group: Group,
    experiment: str,
    metric: str,
    values: Float[np.ndarray, " seed"],
    paper: Estimate | None = None,
) -> Record:
    """Returns a record of one metric of a run, a value for each seed of the group, with the paper's value if there is one."""
    config, summary = run.config, run.summary
    return record(
        experiment=experiment,
        env=config.env,
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


def write_records(path: str | Path, records: Sequence[Record]) -> None:
    """Writes the records as JSON, keys sorted; a reader sees the old file or the new one, never half of one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(list(records), sort_keys=True, indent=1, allow_nan=False) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def read_records(path: str | Path) -> list[Record]:
    """Returns the records of one file.

    Raises:
        ValueError: an entry lacks a key or has an unknown one.
    """
    records = json.loads(Path(path).read_text(encoding="utf-8"))
    for index, entry in enumerate(records):
        if entry.keys() != Record.__annotations__.keys():
            odd = ", ".join(sorted(entry.keys() ^ Record.__annotations__.keys()))
            raise ValueError(f"record {index} of {path} lacks keys or has unknown ones: {odd}")
    return records


def versions(packages: Sequence[str] = ()) -> dict[str, str | None]:
    """Returns the versions of what the numbers depend on, these packages too; None for one that is not installed."""
    return {"python": platform.python_version(), "spjax": spjax.__version__} | {
        name: _version(name) for name in (*PACKAGES, *packages)
    }


def commit() -> str | None:
    """Returns the short git hash of the source checkout, with -dirty if a tracked file changed; None outside git."""
    here = Path(__file__).resolve()
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None  # installed somewhere inside another project's checkout
    return _git(here.parent, "describe", "--always", "--dirty", "--exclude", "*")


def device() -> str:
    """Returns what JAX computes on, for example "2 CPU cores (AMD EPYC)" or "NVIDIA H100 80GB HBM3"."""
    import jax  # reading records and run folders must not start JAX

    devices = jax.devices()
    if devices[0].platform == "cpu":
        cores = num_cores()
        return f"{cores} CPU core{'' if cores == 1 else 's'} ({_cpu_model()})"
    kind = devices[0].device_kind
    return kind if len(devices) == 1 else f"{len(devices)} x {kind}"


def _finite(value: float | np.ndarray) -> float | None:
    return float(value) if math.isfinite(value) else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
