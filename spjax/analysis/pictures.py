"""Pictures of one run folder, as parts: what `spjax plot` draws, a user's own too.

@part("picture", "mine")
class Mine(Picture):
def draw(self, run):
figure = Figure()
...
return figure
"""

import abc
import dataclasses
from collections.abc import Iterator, Sequence
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
from spjax.analysis.style import save
from spjax.analysis.text import setting_text
from spjax.catalogue import part
from spjax.runs.read import Run, load_run
from spjax.settings import Part


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


@part("picture", "learning-curve")
class LearningCurve(Picture):
    """The discounted return on the target tasks."""

    def draw(self, run: Run) -> Figure:
        """Draws it beside what is published about the run."""
        return learning_curve([run], [_label(run)])


@part("picture", "success-rate")
class SuccessRate(Picture):
    """The success rate on the target tasks."""

    def draw(self, run: Run) -> Figure:
        """Draws it."""
        return learning_curve([run], [_label(run)], metric="success_rate")


@part("picture", "kl-to-target")
class KLToTarget(Picture):
    """How far the contexts are from the target, of teachers that move a distribution."""

    def draw(self, run: Run) -> Figure | None:
        """Draws it where it was recorded."""
        return (
            kl_to_target_curve([run], [_label(run)])
            if run.has_metric(KL_TO_TARGET)
            else None
        )


@part("picture", "alpha")
class Alpha(Picture):
    """The weight of the target, of teachers that have one."""

    def draw(self, run: Run) -> Figure | None:
        """Draws it where it was ever other than zero."""
        return alpha_curve([run], [_label(run)]) if run.has_metric(ALPHA) else None


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


def plot_run(path: str | Path, only: Sequence[str] = ()) -> list[Path]:
    """Draws what the run folder holds and writes ``pictures/*.png`` into it.

    Args:
        path: the run folder.
        only: names of pictures; none for all that the catalogue has.

    Returns:
        The files written.

    Raises:
        ValueError: what `load_run` raises, or there is no picture of a name.
    """
    pictures = {
        name: catalogue.make("picture", name)
        for name in only or catalogue.names("picture")
    }
    run = load_run(path)
    return [
        save(figure, run.path / "pictures" / f"{name.replace('-', '_')}{suffix}.png")
        for name, picture in pictures.items()
        for suffix, figure in _drawn(picture, run)
    ]


def _drawn(picture: Picture, run: Run) -> Iterator[tuple[str, Figure]]:
    """Yields the picture of the run, or of each value of its sweep, with what its name ends in."""
    for part_of_run in map(run.only, run.groups()) if picture.apart else [run]:
        figure = picture.draw(part_of_run)
        if figure is not None:
            yield _suffix(part_of_run) if picture.apart else "", figure


def _suffix(run: Run) -> str:
    """Returns the swept settings that the lanes share."""
    settings = run.config.lanes[0].settings
    return "".join(f"-{name}-{setting_text(value)}" for name, value in settings.items())


def _label(run: Run) -> str:
    schedule = run.config.schedule
    return run.config.teacher + (f" ({schedule})" if schedule else "")
