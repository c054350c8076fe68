"""`spjax train`, `spjax sweep` and `spjax resume`."""

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from spjax import envs
from spjax.cli.cache import keep_compiled_programs
from spjax.cli.errors import Failure, UsageError, run_continues
from spjax.cli.flags import Group, parse, read, value_of
from spjax.cli.report import report
from spjax.envs.adapters.policy_search import PolicySearch
from spjax.presets import STARTS, preset, starts_of
from spjax.teachers.gaussian_curriculum import GaussianCurriculum
from spjax.training import train as training
from spjax.training.config import AGENTS, TEACHER_NAMES, VARIANTS, RunConfig, Setting, traced_settings

MAX_SEEDS = 100_000
_SHOWN = "point-mass-3d"  # whose settings `spjax train --help` shows
_AIMS = frozenset({"target_mean", "target_std"})  # the run's flags, which set the teacher's too
_ORIGINS = {"initial_mean": "target_mean", "initial_std": "target_std"}  # of a teacher that starts at the target
_ABOUT = {
    "train": "Train every seed of one experiment and draw its pictures.",
    "sweep": "Train a grid of settings, each with every seed, in one compiled program, and draw the pictures.",
}


@dataclasses.dataclass(frozen=True)
class TrainFlags:
    """What a run is, beside the settings of its parts."""

    agent: Literal[tuple(AGENTS)] = "ppo"  # learner; chooses the flags --agent.*
    teacher: Literal[TEACHER_NAMES] = "self-paced"  # who chooses the tasks; chooses the flags --teacher.*
    variant: Literal[VARIANTS] = "published"  # of the preset: what gave the published results, or the printed text
    start: Literal[STARTS] = "initial"  # distribution of contexts that a self-paced teacher or GoalGAN starts from
    hold_position: bool = False  # clone the policy to the zero action before training, or do not
    seeds: str = "1"  # N for the seeds 1 to N, or a list: 3,5,8 (a single one: 5,)
    iterations: int = 0  # of the learner
    evaluate_every: int = 0  # iterations between evaluations, each of which is also a checkpoint
    evaluation_episodes: int = 0  # of each seed in one evaluation
    target_mean: tuple[float, ...] = ()  # tasks to learn and to be measured on, context units
    target_std: tuple[float, ...] = ()  # of the same tasks, context units
    out: Path | None = None  # run folder (default: runs/ENV-AGENT-TEACHER, with a number if it exists)
    quiet: bool = False  # show no progress
    plots: bool = True  # draw the pictures, or do not


@dataclasses.dataclass(frozen=True)
class SweepFlags(TrainFlags):
    """The same for a grid of settings."""

    over: tuple[tuple[str, ...], ...] = ()  # agent.SETTING=VALUE,VALUE or teacher.SETTING=...; several numbers: 0.2:0.1


@dataclasses.dataclass(frozen=True)
class ResumeFlags:
    """How to show a run that goes on."""

    folder: Path  # the run folder
    quiet: bool = False  # show no progress
    plots: bool = True  # draw the pictures, or do not


def train(args: Sequence[str]) -> None:
    """Trains the seeds of one experiment."""
    _start("train", TrainFlags, args)


def sweep(args: Sequence[str]) -> None:
    """Trains a grid of settings for each seed."""
    _start("sweep", SweepFlags, args)


def resume(args: Sequence[str]) -> None:
    """Continues a run from its newest checkpoint; its settings cannot be changed."""
    fixed = {field.name for field in dataclasses.fields(SweepFlags)} - {"quiet", "plots"}
    for token in args:
        name = token.partition("=")[0].removeprefix("--").replace("-", "_")
        if token.startswith("--") and ("." in name or name in fixed):
            raise UsageError(f"a run's settings are fixed; start a new run to change {name}")
    values = parse("resume", "Continue a run from its newest checkpoint.", [Group("", ResumeFlags)], args)[""]
    folder = values["folder"]
    _train(folder, values["plots"], lambda: training.resume(folder, progress=not values["quiet"]))


def _start(command: str, flags: type[TrainFlags], args: Sequence[str]) -> None:
    shown = command
    if args and not args[0].startswith("-"):
        shown, name, args = f"{command} {args[0]}", args[0], args[1:]
    elif {"-h", "--help"} & set(args):
        shown, name = f"{command} ENV", _SHOWN
    else:
        raise UsageError(f"{command} needs an environment first: {' or '.join(envs.names())}")
    config, how = _configure(command, shown, flags, name, args)
    config.check()
    folder = how["out"] or _free_folder(config)
    line = shlex.join(["spjax", command, name, *args])
    try:
        _train(folder, how["plots"], lambda: training.train(config, folder, progress=not how["quiet"], command=line))
    finally:
        if how["out"] is None:  # made here, and empty where nothing began
            with contextlib.suppress(OSError):
                folder.rmdir()


def _train(folder: Path, plots: bool, run: Callable[[], Path]) -> None:
    keep_compiled_programs()
    with run_continues(folder):
        try:
            run()
        except training.Interrupted as stopped:
            raise Failure(stopped) from stopped
        report(folder, plots)


def _configure(
    command: str, shown: str, flags: type[TrainFlags], name: str, args: Sequence[str]
) -> tuple[RunConfig, dict[str, Any]]:
    """Returns what to run and the flags that say how to show it; unknown names are refused before anything is parsed."""
    starts = starts_of(name)
    from_where = value_of(args, "--start") or starts[0]
    base = preset(
        name,
        value_of(args, "--agent"),
        value_of(args, "--teacher"),
        value_of(args, "--teacher.schedule"),
        value_of(args, "--variant") or flags.variant,
        from_where,
    )
    task: Any = base.env
    mean, std = base.target
    start = flags(
        agent=base.agent_name,
        teacher=base.teacher_name,
        iterations=base.num_iterations,
        evaluate_every=base.evaluate_every,
        evaluation_episodes=base.evaluation_episodes,
        target_mean=mean,
        target_std=std,
        start=starts[0],
        hold_position=base.hold_position,
    )
    told = _AIMS | (frozenset(_ORIGINS) if from_where == "target" else frozenset())
    groups = [
        Group("", start),
        Group("env", task, f"Task {name}.", _told_by_name(task)),
        Group("agent", base.agent, f"Learner {base.agent_name}. {_sweepable(base.agent)}", _nested(base.agent)),
        Group("teacher", base.teacher, f"Curriculum {base.teacher_name}. {_sweepable(base.teacher)}", told),
    ]
    about = _ABOUT[command] + (f" The settings below are those of {name}." if shown.endswith("ENV") else "")
    values = parse(shown, about, groups, args)
    run = values[""]
    aims = {field: run[field] for field in _AIMS if hasattr(base.teacher, field)}
    if from_where == "target" and isinstance(base.teacher, GaussianCurriculum):
        aims |= {field: run[aim] for field, aim in _ORIGINS.items()}
    config = dataclasses.replace(
        base,
        env=dataclasses.replace(task, **values["env"]),
        agent=dataclasses.replace(base.agent, **values["agent"]),
        teacher=dataclasses.replace(base.teacher, **values["teacher"], **aims),
        target_mean=run["target_mean"],
        target_std=run["target_std"],
        seeds=_seeds(run["seeds"]),
        over=_over([text for texts in run["over"] for text in texts], groups) if command == "sweep" else {},
        num_iterations=run["iterations"],
        evaluate_every=run["evaluate_every"],
        evaluation_episodes=run["evaluation_episodes"],
        hold_position=run["hold_position"],
    )
    return config, run


def _sweepable(part: Any) -> str:
    names = traced_settings(part)
    return f"A sweep may vary {', '.join(names)}." if names else "It has no settings."


def _nested(part: Any) -> frozenset[str]:
    """Returns the settings that are no numbers and words, which a flag cannot spell."""
    fields = dataclasses.fields(part)
    return frozenset(field.name for field in fields if dataclasses.is_dataclass(getattr(part, field.name)))


def _told_by_name(env: Any) -> frozenset[str]:
    """Returns the settings that tell the registered environments of one kind apart."""
    if isinstance(env, PolicySearch):
        return frozenset({"env_name"})
    kin = [other for other in map(envs.make, envs.names()) if type(other) is type(env)]
    names = [field.name for field in dataclasses.fields(env)]
    return frozenset(name for name in names if len({getattr(other, name) for other in kin}) > 1)


def _seeds(text: str) -> tuple[int, ...]:
    numbers = read("--seeds", tuple[int, ...], [part for part in text.split(",") if part])
    if "," in text:
        return numbers
    if not 1 <= numbers[0] <= MAX_SEEDS:
        raise UsageError(f"--seeds must lie in [1, {MAX_SEEDS}], got {numbers[0]}")
    return tuple(range(1, numbers[0] + 1))


def _over(texts: Sequence[str], groups: Sequence[Group]) -> dict[str, tuple[Setting, ...]]:
    """Returns the values of each swept setting; settings that cannot be swept are left for `RunConfig.check` to name."""
    if not texts:
        raise UsageError("sweep needs at least one --over, for example --over agent.learning_rate=1e-4,1e-3")
    hints = {
        f"{group.prefix}.{name}": hint
        for group in groups
        for name, hint, _ in group.fields()
        if group.prefix in ("agent", "teacher") and name in traced_settings(group.source)
    }
    over: dict[str, tuple[Setting, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if not values:
            raise UsageError(f"--over needs SETTING=VALUE,VALUE, got {text!r}")
        if name in over:
            raise UsageError(f"each setting may be swept once, got {name} twice")
        over[name] = tuple(_value(name, hints.get(name), value) for value in values.split(","))
        if len(set(over[name])) < len(over[name]):
            raise UsageError(f"each value may be given once, got {text!r}")
    return over


def _value(name: str, hint: Any, text: str) -> Any:
    return text if hint is None else read(f"--over {name}", hint, text.split(":"))


def _free_folder(config: RunConfig) -> Path:
    """Makes the first folder below runs/ for this experiment that does not exist; processes that start together get two."""
    parts = [config.env.name, config.agent_name, config.teacher_name, getattr(config.teacher, "schedule", None)]
    name = "-".join(part for part in parts if part)
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
