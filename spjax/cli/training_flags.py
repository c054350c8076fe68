"""What `spjax train`, `spjax sweep` and `spjax resume` can be told, beside the settings of the parts."""

import dataclasses
from pathlib import Path
from typing import ClassVar

from spjax.settings import Part, setting


@dataclasses.dataclass(frozen=True)
class TrainFlags(Part):
    """What a run is, beside the settings of its parts."""

    kind: ClassVar[str] = "command"

    agent: str = setting("ppo", help="who learns; chooses the flags --agent.*")
    teacher: str = setting(
        "self-paced", help="who chooses the tasks; chooses the flags --teacher.*"
    )
    variant: str = setting(
        "published",
        help="of the preset: what gave the published results, or the printed text",
    )
    start: str = setting(
        "initial", help="distribution of contexts that a teacher that moves starts from"
    )
    hold_position: bool = setting(
        False, help="clone the policy to the zero action before training, or do not"
    )
    seeds: str = setting(
        "1", help="N for the seeds 1 to N, or a list: 3,5,8 (a single one: 5,)"
    )
    iterations: int = setting(0, help="of the agent")
    evaluate_every: int = setting(
        0, help="iterations between evaluations, each of which is also a checkpoint"
    )
    evaluation_episodes: int = setting(0, help="of each seed in one evaluation")
    lanes_at_once: int | None = setting(
        None,
        least=1,
        help="runs worked on together before they are saved (default: what fits into memory)",
    )
    engine: str | None = setting(
        None,
        help="ray: the nodes of a Ray cluster; jax: the processes of a launcher (default: this process)",
    )
    address: str | None = setting(
        None,
        help="of the Ray cluster (default: auto, the one that this machine is part of)",
    )
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="files or modules with parts of your own"
    )
    out: Path | None = setting(
        None,
        help="run folder (default: runs/TASK-AGENT-TEACHER, with a number if it exists)",
    )
    quiet: bool = setting(False, help="show no progress")
    plots: bool = setting(True, help="draw the pictures, or do not")


@dataclasses.dataclass(frozen=True)
class SweepFlags(TrainFlags):
    """The same for a grid of settings."""

    over: tuple[tuple[str, ...], ...] = setting(
        (),
        help="PART.SETTING=VALUE,VALUE for task, agent or teacher; several numbers: 0.2:0.1",
    )
    halve: float | None = setting(
        None,
        help="share of the settings that goes on at each rung; the others stop (default: all go on)",
    )
    every: int | None = setting(
        None, help="iterations between rungs, with --halve (default: 50)"
    )


@dataclasses.dataclass(frozen=True)
class ResumeFlags(Part):
    """How to show a run that goes on."""

    kind: ClassVar[str] = "command"

    folder: Path = setting(help="the run folder")
    iterations: int | None = setting(
        None,
        help="in all, to make the run longer or shorter (default: as many as it was started with)",
    )
    lanes_at_once: int | None = setting(
        None,
        least=1,
        help="runs worked on together before they are saved (default: what fits into memory)",
    )
    engine: str | None = setting(
        None,
        help="ray: the nodes of a Ray cluster; jax: the processes of a launcher (default: this process)",
    )
    address: str | None = setting(
        None,
        help="of the Ray cluster (default: auto, the one that this machine is part of)",
    )
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="accept the run's own files as they are now"
    )
    quiet: bool = setting(False, help="show no progress")
    plots: bool = setting(True, help="draw the pictures, or do not")
