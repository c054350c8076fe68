"""Pictures of run folders, as parts: what `spjax plot` draws, a user's own too.

One that a user brings:

    @part("picture", "mine")
    class Mine(Picture):
        def draw(self, run):
            figure = Figure()
            ...
            return figure
"""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from matplotlib.figure import Figure

from spjax import catalogue
from spjax.analysis.arrival import KL_TO_TARGET
from spjax.analysis.curves import ALPHA, alpha_curve, kl_to_target_curve, learning_curve
from spjax.analysis.snapshots import (
    context_line,
    context_snapshots,
    trajectory_picture,
)
from spjax.analysis.style import check_format, save
from spjax.analysis.sweep import sweep_picture
from spjax.analysis.text import settings_label, settings_suffix
from spjax.catalogue import part
from spjax.runs.read import Run, load_run
from spjax.settings import Part

MOST_APART = 4  # values of a sweep that have pictures of their own unasked
MOST_TOLD = 3  # settings that tell runs apart in a legend


@dataclasses.dataclass(frozen=True)
class Picture(Part, abc.ABC):
    """The contract of every picture. Its name, with underscores, is the name of its file."""

    kind: ClassVar[str] = "picture"
    apart: ClassVar[bool] = (
        False  # whether each value of a sweep has a picture of its own
    )

    @abc.abstractmethod
    def draw(self, run: Run) -> Figure | None:
        """Returns the picture, None where the run has nothing of this kind to show."""

    def compare(self, runs: Sequence[Run], labels: Sequence[str]) -> Figure | None:
        """Returns one picture of several runs, None where there is none of this kind."""
        return None


@part("picture", "learning-curve")
class LearningCurve(Picture):
    """The discounted return on the target tasks."""

    def draw(self, run: Run) -> Figure:
        """Draws it beside what is published about the run."""
        return self.compare([run], [_label(run)])

    def compare(self, runs: Sequence[Run], labels: Sequence[str]) -> Figure:
        """Draws all of them."""
        return learning_curve(runs, labels)


@part("picture", "success-rate")
class SuccessRate(Picture):
    """The success rate on the target tasks."""

    def draw(self, run: Run) -> Figure:
        """Draws it."""
        return self.compare([run], [_label(run)])

    def compare(self, runs: Sequence[Run], labels: Sequence[str]) -> Figure:
        """Draws all of them."""
        return learning_curve(runs, labels, metric="success_rate")


@part("picture", "kl-to-target")
class KLToTarget(Picture):
    """How far the contexts are from the target, of teachers that move a distribution."""

    def draw(self, run: Run) -> Figure | None:
        """Draws it where it was recorded."""
        return self.compare([run], [_label(run)])

    def compare(self, runs: Sequence[Run], labels: Sequence[str]) -> Figure | None:
        """Draws those in which it was recorded."""
        return _of_those_with(KL_TO_TARGET, runs, labels, kl_to_target_curve)


@part("picture", "alpha")
class Alpha(Picture):
    """The weight of the target, of teachers that have one."""

    def draw(self, run: Run) -> Figure | None:
        """Draws it where it was ever other than zero."""
        return self.compare([run], [_label(run)])

    def compare(self, runs: Sequence[Run], labels: Sequence[str]) -> Figure | None:
        """Draws those in which it was ever other than zero."""
        return _of_those_with(ALPHA, runs, labels, alpha_curve)


@part("picture", "sweep")
class Sweep(Picture):
    """Final return and iterations to a threshold against the swept settings."""

    def draw(self, run: Run) -> Figure | None:
        """Draws it where something is swept."""
        return sweep_picture(run) if run.config.over else None


@part("picture", "contexts")
class Contexts(Picture):
    """Where the contexts are at several iterations."""

    apart = True

    def draw(self, run: Run) -> Figure | None:
        """Draws samples of them."""
        one = len(run.config.context_space.names) == 1
        return context_line(run) if one else context_snapshots(run)


@part("picture", "trajectories")
class Trajectories(Picture):
    """What the final policies do on the target tasks."""

    apart = True

    def draw(self, run: Run) -> Figure | None:
        """Draws them once the run has ended."""
        return None if run.trajectories is None else trajectory_picture(run)


def plot_run(
    path: str | Path,
    only: Sequence[str] = (),
    formats: Sequence[str] = ("png",),
    each: bool | None = None,
) -> list[Path]:
    """Draws what the run folder holds and writes ``pictures/*.png`` into it.

    Args:
        path: the run folder.
        only: names of pictures; none for all that the catalogue has.
        formats: png, pdf, svg.
        each: draw contexts and trajectories for every value of a sweep; None where there are at most `MOST_APART` values.

    Returns:
        The files written.

    Raises:
        ValueError: what `load_run` raises, or there is no picture or format of a name.
    """
    pictures = _named(only, formats)
    run = load_run(path)
    return [
        save(figure, run.path / "pictures" / f"{_file(name)}{suffix}.{form}")
        for name, picture in pictures.items()
        for suffix, figure in _drawn(picture, run, each)
        for form in formats
    ]


def plot_runs(
    paths: Sequence[str | Path],
    out: str | Path,
    only: Sequence[str] = (),
    formats: Sequence[str] = ("png",),
) -> list[Path]:
    """Draws several runs of one task into common pictures and writes them into a folder.

    Args:
        paths: the run folders.
        out: the folder to write into.
        only: names of pictures; none for all that can show several runs.
        formats: png, pdf, svg.

    Returns:
        The files written.

    Raises:
        ValueError: what `load_run` raises; there is no picture or format of a name; the runs are of different tasks.
    """
    pictures = _named(only, formats)
    runs = [load_run(path) for path in paths]
    check_one_task(runs)
    labels = distinct_labels(runs)
    figures = {
        name: picture.compare(runs, labels) for name, picture in pictures.items()
    }
    return [
        save(figure, Path(out) / f"{_file(name)}.{form}")
        for name, figure in figures.items()
        if figure is not None
        for form in formats
    ]


def check_one_task(runs: Sequence[Run]) -> None:
    """Raises ValueError where runs are of different tasks, whose numbers cannot be compared."""
    tasks = {run.config.task_name: run.path for run in runs}
    if len(tasks) > 1:
        (one, path), (other, other_path), *_ = tasks.items()
        raise ValueError(
            f"runs of one task can share a picture; {path} is of {one}, {other_path} of {other}"
        )


def distinct_labels(runs: Sequence[Run]) -> list[str]:
    """Returns what tells the runs apart: teacher, agent, a few settings, whichever first does, else their folders."""
    methods = [f"{run.config.agent.upper()}, {_label(run)}" for run in runs]
    for labels in (
        [_label(run) for run in runs],
        methods,
        _with_settings(runs, [_label(run) for run in runs]),
        _with_settings(runs, methods),
        [run.path.name for run in runs],
    ):
        if len(set(labels)) == len(runs):
            return labels
    return [str(run.path) for run in runs]


def _with_settings(runs: Sequence[Run], labels: Sequence[str]) -> list[str]:
    """Returns the labels with the settings in which the runs of one label differ; without, where these are many."""
    settings = [run.config.flat_settings() for run in runs]
    told = []
    for own, label in zip(settings, labels, strict=True):
        alike = [
            other for other, its in zip(settings, labels, strict=True) if its == label
        ]
        differing = {
            name: value
            for name, value in own.items()
            if len({other.get(name) for other in alike}) > 1
        }
        few = 0 < len(differing) <= MOST_TOLD
        told.append(f"{label}, {settings_label(differing)}" if few else label)
    return told


def _named(only: Sequence[str], formats: Sequence[str]) -> dict[str, Picture]:
    for form in formats:
        check_format(form)
    return {
        name: catalogue.make("picture", name)
        for name in only or catalogue.names("picture")
    }


def _of_those_with(
    metric: str,
    runs: Sequence[Run],
    labels: Sequence[str],
    draw: Callable[[Sequence[Run], Sequence[str]], Figure],
) -> Figure | None:
    """Draws the runs that have a metric."""
    pairs = [
        (run, label)
        for run, label in zip(runs, labels, strict=True)
        if run.has_metric(metric)
    ]
    if not pairs:
        return None
    return draw([run for run, _ in pairs], [label for _, label in pairs])


def _drawn(
    picture: Picture, run: Run, each: bool | None
) -> Iterator[tuple[str, Figure]]:
    """Yields the picture of the run, or of each value of its sweep, with what its name ends in."""
    groups = run.groups()
    if picture.apart and not (len(groups) <= MOST_APART if each is None else each):
        return
    for part_of_run in map(run.only, groups) if picture.apart else [run]:
        figure = picture.draw(part_of_run)
        if figure is not None:
            shared = part_of_run.config.lanes[0].settings if picture.apart else {}
            yield settings_suffix(shared), figure


def _file(name: str) -> str:
    return name.replace("-", "_")


def _label(run: Run) -> str:
    schedule = run.config.schedule
    return run.config.teacher + (f" ({schedule})" if schedule else "")
