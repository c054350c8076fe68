"""`spjax plot` and `spjax list`: what there is."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from spjax.cli.flags import Group, parse
from spjax.cli.terminal import console

RUNS = Path("runs")


@dataclasses.dataclass(frozen=True)
class PlotFlags:
    """Which runs to draw."""

    folders: tuple[Path, ...]  # the run folders, finished or not


@dataclasses.dataclass(frozen=True)
class ListFlags:
    """Nothing to choose."""


def plot(args: Sequence[str]) -> None:
    """Draws the pictures of runs."""
    values = parse("plot", "Draw the pictures of runs into their folders.", [Group("", PlotFlags)], args)[""]
    from spjax.cli.report import draw  # which needs all that analysis does

    for folder in values["folders"]:
        draw(console(), folder)


def show(args: Sequence[str]) -> None:
    """Prints what can be trained, and what was trained below runs/."""
    about = "Print environments, agents, teachers, experiments, and the runs below runs/."
    parse("list", about, [Group("", ListFlags)], args)
    terminal = console()
    for table in (_environments(), _parts()):
        terminal.print(table)
    for line in ("experiments", *_presets()):
        terminal.print(line, soft_wrap=True)
    terminal.print(_runs())


def _environments() -> Table:
    from spjax import envs

    table = _table("environments", "environment", "context", "unit", "bounds", "target")
    for name in envs.names():
        env = envs.make(name)
        space, label = env.context_space, name
        for context, unit, low, high, mean, std in zip(
            space.names, space.units, space.lower, space.upper, env.target_mean, env.target_std, strict=True
        ):
            table.add_row(label, context, unit, f"{low:g} to {high:g}", f"{mean:g} ± {std:g}")
            label = ""
    return table


def _parts() -> Table:
    from spjax.training.config import AGENTS, TEACHER_NAMES, VARIANTS

    table = _table("names", "what", "known")
    for what, known in (("agents", AGENTS), ("teachers", TEACHER_NAMES), ("variants of a preset", VARIANTS)):
        table.add_row(what, ", ".join(known))
    return table


def _presets() -> list[str]:
    from spjax.presets import preset_names

    return [
        f"spjax train {env} --agent {agent} --teacher {teacher}"
        + (f" --teacher.schedule {way}" if way else "")
        + (f" --start {start}" if start else "")
        for env, agent, teacher, way, start in preset_names()
    ]


def _runs() -> Table:
    from spjax.runs.folder import is_finished, last_iteration
    from spjax.runs.read import read_record

    table = _table(f"runs below {RUNS}/", "folder", "runs", "iteration", "state")
    for folder in sorted(file.parent for file in RUNS.glob("**/config.json")):
        try:
            record, done = read_record(folder), last_iteration(folder)
            state = "finished" if is_finished(folder) else "unfinished"
            table.add_row(str(folder), str(len(record.lanes)), f"{done} of {record.num_iterations}", state)
        except (ValueError, OSError) as error:
            table.add_row(str(folder), "", "", f"unreadable: {error}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
