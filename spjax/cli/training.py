"""`spjax train`, `spjax sweep` and `spjax resume`."""

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spjax import catalogue, settings
from spjax.cli.errors import Failure, Stopped, UsageError, describe, run_continues
from spjax.cli.flags import Group, parse, read, value_of
from spjax.cli.own import load_own, uses_of, words
from spjax.cli.report import report
from spjax.cli.training_flags import ResumeFlags, SweepFlags, TrainFlags
from spjax.presets.base import preset
from spjax.presets.table import table_of
from spjax.settings import Part, Value
from spjax.training import train as training
from spjax.training.config import PARTS, RunConfig
from spjax.training.engines.base import engine_of
from spjax.training.halving import Halving

MAX_SEEDS = 100_000
_SHOWN = "point-mass-3d"  # whose settings `spjax train --help` shows
_TITLES = {"task": "Task", "agent": "Agent", "teacher": "Curriculum"}
_ABOUT = {
    "train": "Train every seed of one experiment and draw its pictures.",
    "sweep": "Train a grid of settings, each with every seed, in one compiled program, and draw the pictures.",
}


def train(args: Sequence[str]) -> None:
    """Trains the seeds of one experiment."""
    _start("train", TrainFlags, args)


def sweep(args: Sequence[str]) -> None:
    """Trains a grid of settings for each seed."""
    _start("sweep", SweepFlags, args)


def resume(args: Sequence[str]) -> None:
    """Continues a run from its newest checkpoint; its length can be changed, its settings cannot."""
    if _followed(args):
        return
    fixed = {field.name for field in dataclasses.fields(SweepFlags)} - {
        "quiet",
        "plots",
        "use",
        "iterations",
        "lanes_at_once",
        "engine",
        "address",
    }
    for token in args:
        name = token.partition("=")[0].removeprefix("--").replace("-", "_")
        if token.startswith("--") and ("." in name or name in fixed):
            raise UsageError(
                f"a run's settings are fixed; start a new run to change {name}"
            )
    values = parse(
        "resume",
        "Continue a run from its newest checkpoint, or make a finished one longer.",
        [Group("", ResumeFlags)],
        args,
    )[""]
    folder, used = values["folder"], load_own(words(values["use"]))
    _train(
        folder,
        values["plots"],
        lambda: training.resume(
            folder,
            progress=not values["quiet"],
            accept_changes=used,
            iterations=values["iterations"],
            lanes_at_once=values["lanes_at_once"],
            engine=values["engine"],
            address=values["address"],
        ),
    )


def _start(command: str, flags: type[TrainFlags], args: Sequence[str]) -> None:
    if _followed(args):
        return
    load_own(uses_of(args))
    shown = command
    if args and not args[0].startswith("-"):
        shown, name, args = f"{command} {args[0]}", args[0], args[1:]
    elif {"-h", "--help"} & set(args):
        shown, name = f"{command} TASK", _SHOWN
    else:
        raise UsageError(
            f"{command} needs a task first: {' or '.join(catalogue.names('task'))}"
        )
    config, how = _configure(command, shown, flags, name, args)
    config.check()
    folder = how["out"] or _free_folder(config)
    line = shlex.join(["spjax", command, name, *args])
    try:
        _train(
            folder,
            how["plots"],
            lambda: training.train(
                config,
                folder,
                progress=not how["quiet"],
                command=line,
                lanes_at_once=how["lanes_at_once"],
                engine=how["engine"],
                address=how["address"],
            ),
        )
    finally:
        if how["out"] is None:  # made here, and empty where nothing began
            with contextlib.suppress(OSError):
                folder.rmdir()


def _followed(args: Sequence[str]) -> bool:
    """Says whether this process did its share of a run that another one leads; processes join before JAX computes."""
    if value_of(args, "--engine") != "jax":
        return False
    processes = engine_of("jax", None)
    if processes is None or not processes.follows:
        return False
    try:
        processes.follow()
    except OSError as error:
        raise Failure(describe(error)) from error
    return True


def _train(folder: Path, plots: bool, run: Callable[[], Path]) -> None:
    with run_continues(folder):
        try:
            run()
        except training.Interrupted as stopped:
            raise Stopped(stopped, stopped.number) from stopped
        report(folder, plots)


def _configure(
    command: str, shown: str, flags: type[TrainFlags], name: str, args: Sequence[str]
) -> tuple[RunConfig, dict[str, Value]]:
    """Returns what to run and the flags that say how to show it; unknown names are refused before anything is parsed."""
    base = preset(
        name,
        value_of(args, "--agent"),
        value_of(args, "--teacher"),
        value_of(args, "--teacher.schedule"),
        value_of(args, "--variant") or flags().variant,
        value_of(args, "--start"),
    ).resolved
    chosen = {
        part: _with_chosen_parts(part, getattr(base, part), args) for part in PARTS
    }
    run = Group("", _defaults(flags, base, name), choices=_choices(name))
    groups = [run, *(group for part in PARTS for group in _groups(part, chosen[part]))]
    about = _ABOUT[command] + (
        f" The settings below are those of {name}." if shown.endswith("TASK") else ""
    )
    values = parse(shown, about, groups, args)
    how = values[""]
    config = dataclasses.replace(
        base,
        **{part: _built(part, chosen[part], values) for part in PARTS},
        seeds=_seeds(how["seeds"]),
        num_iterations=how["iterations"],
        evaluate_every=how["evaluate_every"],
        evaluation_episodes=how["evaluation_episodes"],
        hold_position=how["hold_position"],
    )
    if command == "sweep":
        config = dataclasses.replace(
            config,
            over=_over(words(how["over"]), config),
            halving=_halving(how["halve"], how["every"]),
        )
    return config, how


def _defaults(flags: type[TrainFlags], base: RunConfig, task: str) -> TrainFlags:
    return flags(
        agent=catalogue.name_of(base.agent),
        teacher=catalogue.name_of(base.teacher),
        start=(base.preset and base.preset.start) or table_of(task).starts[0],
        hold_position=base.hold_position,
        iterations=base.num_iterations,
        evaluate_every=base.evaluate_every,
        evaluation_episodes=base.evaluation_episodes,
    )


def _choices(task: str) -> Mapping[str, Sequence[str]]:
    return {
        "agent": catalogue.names("agent"),
        "teacher": catalogue.names("teacher"),
        "variant": table_of(task).variants,
        "start": ("initial", "target"),
    }


def _with_chosen_parts(
    prefix: str, part: Part, args: Sequence[str]
) -> Part | type[Part]:
    """Returns the part with nested parts of other names in place where a flag names them, at their defaults."""
    for name, declared in part.declared().items():
        if declared.kind is None:
            continue
        path = f"{prefix}.{name}"
        wanted = value_of(args, "--" + path.replace("_", "-"))
        value = part.settings()[name]
        if wanted is not None and not (
            isinstance(value, Part) and catalogue.name_of(value) == wanted
        ):
            value = _fresh(declared.kind, wanted)
            part = part.changed(**{name: value})
        if isinstance(value, Part):
            part = part.changed(**{name: _with_chosen_parts(path, value, args)})
    return part


def _fresh(kind: str, name: str) -> Part | type[Part]:
    """Returns a part at its defaults; its class where some settings have none, or none of several is given."""
    entry = catalogue.find(kind, name)
    cls: type[Part] = entry.cls
    needed = [
        one for one in cls.declared().values() if one.default is dataclasses.MISSING
    ]
    try:
        return cls if needed else catalogue.make(kind, name)
    except ValueError:
        return cls


def _groups(prefix: str, part: Part | type[Part]) -> list[Group]:
    """Returns the flags of a part, and those of the parts inside it."""
    title, hidden = "", frozenset[str]()
    if isinstance(part, Part):
        name = catalogue.name_of(part)
        hidden = frozenset(catalogue.entry_of(part).fixed)
        title = f"{_TITLES.get(prefix, prefix)} {name}. {_sweepable(part)}"
    groups = [Group(prefix, part, title, hidden)]
    values = part.settings() if isinstance(part, Part) else {}
    for name, value in values.items():
        if isinstance(value, Part) or (
            isinstance(value, type) and issubclass(value, Part)
        ):
            groups += _groups(f"{prefix}.{name}", value)
    return groups


def _built(
    prefix: str, part: Part | type[Part], values: Mapping[str, Mapping[str, Value]]
) -> Any:
    """Returns the part with the values of its flags."""
    given = values[prefix]
    if isinstance(part, type):
        with settings.naming(prefix):
            return part.made(**given)
    old, changes = part.settings(), {}
    for name, value in given.items():
        if f"{prefix}.{name}" in values:
            changes[name] = _built(f"{prefix}.{name}", old[name], values)
        elif value != old[name]:
            changes[name] = value
    with settings.naming(prefix):
        return part.changed(**changes) if changes else part


def _sweepable(part: Part) -> str:
    names = [name for name in settings.traced(part) if "." not in name]
    return f"A sweep may vary {', '.join(names)}." if names else ""


def _seeds(text: str) -> tuple[int, ...]:
    numbers: tuple[int, ...] = read(
        "--seeds", tuple[int, ...], [part for part in text.split(",") if part]
    )
    if "," in text:
        return numbers
    if not 1 <= numbers[0] <= MAX_SEEDS:
        raise UsageError(f"--seeds must lie in [1, {MAX_SEEDS}], got {numbers[0]}")
    return tuple(range(1, numbers[0] + 1))


def _over(texts: Sequence[str], config: RunConfig) -> dict[str, tuple[Value, ...]]:
    """Returns the values of each swept setting; settings that cannot be swept are left for `RunConfig.check` to name."""
    if not texts:
        raise UsageError(
            "sweep needs at least one --over, for example --over agent.learning_rate=1e-4,1e-3"
        )
    hints = {
        f"{part}.{name}": declared.hint
        for part in PARTS
        for name, declared in settings.traced(getattr(config, part)).items()
    }
    over: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if not values:
            raise UsageError(f"--over needs SETTING=VALUE,VALUE, got {text!r}")
        if name in over:
            raise UsageError(f"each setting may be swept once, got {name} twice")
        over[name] = tuple(
            _value(name, hints.get(name), value) for value in values.split(",")
        )
    return over


def _halving(share: float | None, every: int | None) -> Halving | None:
    if share is None:
        if every is not None:
            raise UsageError(f"--every is for --halve, got --every {every} alone")
        return None
    return Halving(share) if every is None else Halving(share, every)


def _value(name: str, hint: object, text: str) -> Value:
    return text if hint is None else read(f"--over {name}", hint, text.split(":"))


def _free_folder(config: RunConfig) -> Path:
    """Makes the first folder below runs/ for this experiment that does not exist; processes that start together get two."""
    schedule = config.teacher.settings().get("schedule")
    parts = [
        config.task.name,
        catalogue.name_of(config.agent),
        catalogue.name_of(config.teacher),
    ]
    name = "-".join(
        [*parts, *([catalogue.name_of(schedule)] if isinstance(schedule, Part) else [])]
    )
    runs = Path("runs")
    runs.mkdir(exist_ok=True)
    folder, number = runs / name, 1
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1
            folder = runs / f"{name}-{number}"
