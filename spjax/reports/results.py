"""The tables of a report: what came out of each setting or seed, what the run is, and its settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from spjax.analysis import statistics
from spjax.analysis.arrival import AT_TARGET, KL_TO_TARGET, iterations_to_target
from spjax.analysis.curves import metric_label, seeds_text
from spjax.analysis.tables import estimate_text
from spjax.analysis.text import setting_text, symbol
from spjax.reports.defaults import RUN, Settings, texts
from spjax.reports.numbers import number
from spjax.reports.series import Series, plain
from spjax.runs.read import Group, Run
from spjax.runs.schema import PARTS, RunRecord

NEVER = "never"

Cell: TypeAlias = list[float | str | None]  # what to sort by, and a text


def results(series: Sequence[Series]) -> dict[str, object]:
    """Returns a table with a row for each series, or for each seed where there is one series alone.

    A cell is [what to sort by, text]. Iterations to the target are those from which the contexts stayed there.
    """
    rows = _seed_rows(series[0]) if len(series) == 1 else _series_rows(series)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return {
        "columns": columns,
        "rows": [[row.get(name, [None, "–"]) for name in columns] for row in rows],
        "what": "seed" if len(series) == 1 else "setting",
        "note": f"from when on KL to the target stayed below {AT_TARGET:g} nats"
        if any(column.startswith("at the target") for column in columns)
        else "",
    }


def facts(run: Run) -> list[list[str]]:
    """Returns what a run is and where it comes from, as pairs of a name and a text."""
    config = run.config
    schedule = f", schedule {config.schedule}" if config.schedule else ""
    found = {
        "folder": str(run.path),
        "task": config.task_name,
        "agent": config.agent,
        "teacher": config.teacher + schedule,
        "preset": _preset(config),
        "swept": "; ".join(
            f"{name} = {', '.join(map(setting_text, values))}"
            for name, values in config.over.items()
        ),
        "seeds": _seeds(config.seeds),
        "length": _length(config),
        "state": _state(run),
        "time": _time(run),
        "device": config.device,
        "versions": ", ".join(
            f"{name} {version}" for name, version in config.versions.items() if version
        ),
        "commit": config.commit,
        "created": config.created,
        "command": config.command,
        "own files": ", ".join(Path(use["file"]).name for use in config.uses),
    }
    return [[name, str(text)] for name, text in found.items() if text]


def settings(
    run: Run, defaults: Settings | None, preset: Settings | None
) -> list[list[str | None]]:
    """Returns the settings of a run's parts: name, value, and default and preset where these are others.

    Args:
        run: whose.
        defaults: of the parts; None where they are not known.
        preset: settings of the preset; None where there is none.
    """
    record = run.config
    rows: list[list[str | None]] = []
    spelled = {kind: record.settings[kind] for kind in PARTS}
    for name, value in texts(
        {**{n: getattr(record, n) for n in RUN}, **spelled}
    ).items():
        swept = record.over.get(name)
        text = f"swept: {', '.join(map(setting_text, swept))}" if swept else value
        others = [(known or {}).get(name, value) for known in (defaults, preset)]
        rows.append([name, text, *(o if o != value else None for o in others)])
    return rows


def _series_rows(series: Sequence[Series]) -> list[dict[str, Cell]]:
    several = len({one.run.path for one in series}) > 1
    return [
        {
            **({"run": [one.run_label, one.run_label]} if several else {}),
            **{
                plain(symbol(name)): [
                    value if isinstance(value, int | float) else setting_text(value),
                    setting_text(value),
                ]
                for name, value in one.group.settings.items()
            },
            "seeds": [len(one.group.lanes), str(len(one.group.lanes))],
            **_performance(one),
            **_arrival(one, one.group),
            **_frozen(one),
        }
        for one in series
    ]


def _performance(one: Series) -> dict[str, Cell]:
    success = one.run.evaluation_curves("success_rate", one.group).values[:, -1]
    return {
        f"final {_return_label(one)}": _estimate(one.final_returns, 2),
        "final success [%]": _estimate(100 * success, 0),
    }


def _return_label(one: Series) -> str:
    return metric_label([one.run], "discounted_return").partition(" on ")[0]


def _estimate(values: np.ndarray, decimals: int) -> Cell:
    mean = number(statistics.mean(values))
    return [
        mean,
        estimate_text(mean, number(statistics.standard_error(values)), decimals),
    ]


def _arrival(one: Series, group: Group) -> dict[str, Cell]:
    if not one.run.has_metric(KL_TO_TARGET):
        return {}
    crossing = iterations_to_target(one.run, group)
    median = float(np.median(crossing.iterations))
    never = crossing.never_reached
    text = f"{median:.0f}"
    if 2 * never >= len(group.lanes):
        median, text = float("inf"), NEVER
    text += (
        f" ({never} of {len(group.lanes)} {NEVER})" if never and text != NEVER else ""
    )
    place = 1e9 if text == NEVER else median
    return {"at the target from iteration": [place, text]}


def _frozen(one: Series) -> dict[str, Cell]:
    frozen = one.run.num_frozen(one.group)
    any_frozen = one.run.summary is not None and one.run.summary.frozen
    return {"frozen": [frozen, str(frozen)]} if any_frozen else {}


def _seed_rows(one: Series) -> list[dict[str, Cell]]:
    """Returns a row for each seed: its final results."""
    rows: list[dict[str, Cell]] = []
    for lane, seed in zip(one.group.lanes, one.run.seeds(one.group), strict=True):
        own = one._replace(group=Group(one.group.settings, (lane,)))
        rows.append(
            {
                "seed": [seed, str(seed)],
                **_performance(own),
                **_arrival(own, own.group),
                **_frozen(own),
            }
        )
    return rows


def _preset(record: RunRecord) -> str:
    if record.preset is None:
        return ""
    start = f", contexts start at the {record.start} distribution"
    return f"{record.variant}{start if record.start else ''}"


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _length(record: RunRecord) -> str:
    each = ""
    if record.steps_per_iteration:
        each = f" of {record.steps_per_iteration:,} environment steps"
    elif record.rollouts_per_iteration:
        each = f" of {record.rollouts_per_iteration:,} rollouts"
    evaluated = f"evaluated every {record.evaluate_every}, in {record.evaluation_episodes} episodes of the target"
    return f"{record.num_iterations} iterations{each}, {evaluated}"


def _state(run: Run) -> str:
    summary = run.summary
    if summary is None:
        done = run.last_evaluated_iteration
        return f"at iteration {done} of {run.config.num_iterations}, not finished"
    if not summary.frozen:
        return f"finished; no lane of {len(run.config.lanes)} frozen"
    lanes = ", ".join(
        f"seed {lane.seed} after iteration {lane.iteration}" for lane in summary.frozen
    )
    count = f"{len(summary.frozen)} of {len(run.config.lanes)} lanes"
    return f"finished; {count} frozen, as their parameters became non-finite: {lanes}"


def _time(run: Run) -> str:
    summary = run.summary
    if summary is None:
        return ""
    if summary.wall_seconds is None:
        return "resumed, so not timed"
    return f"{summary.wall_seconds:,.0f} s, of which {summary.compile_seconds or 0:,.0f} s compiling"


def summary(runs: Sequence[Run]) -> list[str]:
    """Returns what stands below the heading: how far a run is, on what, and since when."""
    if len(runs) > 1:
        finished = sum(run.summary is not None for run in runs)
        return [f"{finished} of {len(runs)} finished"]
    config = runs[0].config
    made = (config.created or "").partition("T")[0]
    return [text for text in (_state(runs[0]), config.device, made) if text]


def title(runs: Sequence[Run]) -> str:
    """Returns the heading: what was trained, by how many seeds."""
    config = runs[0].config
    if len(runs) > 1:
        return f"{config.task_name}: {len(runs)} runs, {seeds_text(runs)}"
    schedule = f" ({config.schedule})" if config.schedule else ""
    method = f"{config.agent}, {config.teacher}{schedule}"
    return f"{config.task_name}: {method}, {seeds_text(runs)}"
