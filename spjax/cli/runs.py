"""`spjax plot` and `spjax list`: what there is."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.table import Table

from spjax import catalogue
from spjax.cli.flags import parse_command
from spjax.cli.own import load_own, words
from spjax.cli.terminal import console
from spjax.presets.table import names_of, preset_names, variant_names
from spjax.settings import Part, setting

RUNS = Path("runs")


@dataclasses.dataclass(frozen=True)
class PlotFlags(Part):
    """Which runs to draw."""

    kind: ClassVar[str] = "command"

    folders: tuple[Path, ...] = setting(
        help="the run folders, finished or not; several are drawn into common pictures"
    )
    only: tuple[str, ...] = setting(
        (), help="names of pictures (default: all that the runs have something for)"
    )
    format: tuple[str, ...] = setting(("png",), help="png, pdf, svg")
    each: bool | None = setting(
        None,
        help="contexts and trajectories for every value of a sweep (default: where there are at most 4)",
    )
    out: Path | None = setting(
        None, help="folder for the pictures of several runs (default: comparison)"
    )
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="files or modules with pictures of your own"
    )


@dataclasses.dataclass(frozen=True)
class ListFlags(Part):
    """What to list."""

    kind: ClassVar[str] = "command"

    task: str = setting(
        "",
        help="one task, with its contexts and its experiments (default: an overview)",
    )
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="files or modules with parts of your own"
    )


def plot(args: Sequence[str]) -> None:
    """Draws the pictures of runs."""
    values = parse_command(
        "plot",
        "Draw the pictures of a run into its folder, or those of several runs into common ones.",
        PlotFlags,
        args,
    )
    from spjax.cli.report import (  # which needs all that analysis does
        draw,
        name_pictures,
    )

    load_own(words(values.use))
    folders, how = values.folders, (values.only, values.format)
    if len(folders) == 1:
        if values.out is not None:
            raise ValueError(
                "--out is for several runs; the pictures of one are in its folder"
            )
        draw(console(), folders[0], *how, values.each)
        return
    if values.each is not None:
        raise ValueError("--each is for one run")
    from spjax.analysis.pictures import plot_runs

    out = values.out or Path("comparison")
    name_pictures(console(), plot_runs(folders, out, *how))


def show(args: Sequence[str]) -> None:
    """Prints what can be trained, and what was trained below runs/; or all about one task."""
    about = "Print tasks, agents, teachers and the other parts, experiments, and the runs below runs/; or all about one task."
    named = (
        [f"--task={args[0]}", *args[1:]]
        if args and not args[0].startswith("-")
        else args
    )
    values = parse_command("list", about, ListFlags, named)
    load_own(words(values.use))
    terminal = console()
    if values.task:
        terminal.print(_contexts(values.task))
        experiments = names_of(values.task)
    else:
        terminal.print(_parts())
        experiments = preset_names()
    for line in ("experiments", *map(_command, experiments)):
        terminal.print(line, soft_wrap=True)
    if not values.task:
        terminal.print(_runs())


def _contexts(name: str) -> Table:
    """Returns the context space of a task; this needs the task itself."""
    task = catalogue.make("task", name)
    table = _table(name, "context", "unit", "bounds", "target")
    space, target = task.context_space, task.target.summary()
    for context, unit, low, high, mean, std in zip(
        space.names,
        space.units,
        space.lower,
        space.upper,
        target.mean,
        target.std,
        strict=True,
    ):
        table.add_row(context, unit, f"{low:g} to {high:g}", f"{mean:g} ± {std:g}")
    return table


def _parts() -> Table:
    table = _table("parts", "what", "known")
    for kind in catalogue.KINDS:
        if known := catalogue.names(kind):
            table.add_row(kind, ", ".join(known))
    table.add_row("variant of a preset", ", ".join(variant_names()))
    return table


def _command(names: tuple[str, str, str, str | None, str | None]) -> str:
    task, agent, teacher, schedule, start = names
    return (
        f"spjax train {task} --agent {agent} --teacher {teacher}"
        + (f" --teacher.schedule {schedule}" if schedule else "")
        + (f" --start {start}" if start else "")
    )


def _runs() -> Table:
    from spjax.runs.folder import is_finished, last_iteration
    from spjax.runs.read import read_record

    table = _table(f"runs below {RUNS}/", "folder", "runs", "iteration", "state")
    for folder in sorted(file.parent for file in RUNS.glob("**/config.json")):
        try:
            record, done = read_record(folder), last_iteration(folder)
            state = "finished" if is_finished(folder) else "unfinished"
            table.add_row(
                str(folder),
                str(len(record.lanes)),
                f"{done} of {record.num_iterations}",
                state,
            )
        except (ValueError, OSError) as error:
            table.add_row(str(folder), "", "", f"unreadable: {error}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
