"""Seeds of one experiment that were trained in several run folders, as one run."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spjax.runs.read import Run
from spjax.runs.schema import Frozen, RunRecord, Summary


def pool(runs: Sequence[Run]) -> Run:
    """Returns one run with the lanes of all, in the given order; seconds are added up.

    What the folders say differently about commit, command, device and time of creation is joined by
    "; "; versions that differ are None.

    Raises:
        ValueError: the runs are different experiments, or a seed is in two of them.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    for other in runs[1:]:
        _check_same_experiment(first, other)
    lanes = [lane for run in runs for lane in run.config.lanes]
    twice = sorted({lane.seed for lane in lanes if lanes.count(lane) > 1})
    if twice:
        folders = ", ".join(str(run.path) for run in runs)
        raise ValueError(
            f"each seed may be pooled once, got {twice} twice in {folders}"
        )
    offsets = [
        sum(len(run.config.lanes) for run in runs[:index]) for index in range(len(runs))
    ]
    return Run(
        path=first.path,
        config=_joined_config(runs),
        summary=_joined_summary(runs, offsets),
        metrics=_joined_table([run.metrics for run in runs], offsets),
        evaluation=_joined_table([run.evaluation for run in runs], offsets),
        trajectories=_joined_table([run.trajectories for run in runs], offsets),
        cuts=tuple(
            dataclasses.replace(cut, lanes=tuple(lane + offset for lane in cut.lanes))
            for run, offset in zip(runs, offsets, strict=True)
            for cut in run.cuts
        ),
    )


def _check_same_experiment(first: Run, other: Run) -> None:
    a, b = _experiment(first.config), _experiment(other.config)
    names = {field.name for field in dataclasses.fields(a) if field.compare}
    if a.format_version != b.format_version:
        names.remove("settings")  # which the formats spell in different ways
    different = sorted(name for name in names if getattr(a, name) != getattr(b, name))
    if different:
        both, what = f"{first.path} and {other.path}", ", ".join(different)
        raise ValueError(f"{both} differ in {what}, so they cannot be pooled")


def _experiment(config: RunRecord) -> RunRecord:
    """Returns the configuration without what may differ between folders of one experiment."""
    return dataclasses.replace(
        config.completed,
        seeds=(),
        lanes=(),
        versions={},
        device=None,
        commit=None,
        command=None,
        created=None,
    )


def _joined_config(runs: Sequence[Run]) -> RunRecord:
    configs = [run.config for run in runs]
    return dataclasses.replace(
        configs[0],
        seeds=tuple(seed for config in configs for seed in config.seeds),
        lanes=tuple(lane for config in configs for lane in config.lanes),
        versions=joined_versions([config.versions for config in configs]),
        device=joined_text(config.device for config in configs),
        commit=joined_text(config.commit for config in configs),
        command=joined_text(config.command for config in configs),
        created=joined_text(config.created for config in configs),
    )


def joined_versions(
    versions: Sequence[Mapping[str, str | None]],
) -> dict[str, str | None]:
    """Returns the versions that are the same everywhere, None for one that is not."""
    return {
        name: version if all(other.get(name) == version for other in versions) else None
        for name, version in versions[0].items()
    }


def joined_text(texts: Iterable[str | None]) -> str | None:
    """Returns the different ones; None if one is unknown."""
    found = list(dict.fromkeys(texts))
    return (
        None if None in found else "; ".join(text for text in found if text is not None)
    )


def _joined_summary(runs: Sequence[Run], offsets: Sequence[int]) -> Summary | None:
    summaries = [run.summary for run in runs if run.summary is not None]
    if len(summaries) < len(runs):
        return None
    return Summary(
        finished=all(summary.finished for summary in summaries),
        wall_seconds=total(summary.wall_seconds for summary in summaries),
        compile_seconds=total(summary.compile_seconds for summary in summaries),
        frozen=tuple(
            Frozen(lane.lane + offset, lane.seed, lane.iteration)
            for summary, offset in zip(summaries, offsets, strict=True)
            for lane in summary.frozen
        ),
    )


def total(seconds: Iterable[float | None]) -> float | None:
    """Returns the sum; None if one is unknown."""
    known = list(seconds)
    return None if None in known else sum(value for value in known if value is not None)


def _joined_table(
    tables: Sequence[pa.Table | None], offsets: Sequence[int]
) -> pa.Table | None:
    """Returns the rows of all tables with the lanes renumbered; None if one table is missing."""
    renumbered = [
        table.set_column(
            table.column_names.index("lane"), "lane", pc.add(table["lane"], offset)
        )
        for table, offset in zip(tables, offsets, strict=True)
        if table is not None
    ]
    if len(renumbered) < len(tables):
        return None
    return pa.concat_tables(renumbered, promote_options="permissive")
