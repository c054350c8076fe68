"""All pictures of one run folder: the table of what there is to draw."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from spjax.analysis.arrival import KL_TO_TARGET
from spjax.analysis.curves import ALPHA, alpha_curve, kl_to_target_curve, learning_curve
from spjax.analysis.snapshots import context_snapshots, trajectory_picture
from spjax.analysis.style import save
from spjax.analysis.text import setting_text
from spjax.runs.read import Run, load_run


class Picture(NamedTuple):
    """One kind of picture."""

    draw: Callable[[Run], Figure | None]  # None where the run has nothing of this kind to show
    apart: bool = False  # whether each value of a sweep has a picture of its own


def plot_run(path: str | Path) -> list[Path]:
    """Draws what the run folder holds and writes pictures/*.png into it.

    Returns:
        The files written.

    Raises:
        ValueError: what `load_run` raises.
    """
    run = load_run(path)
    return [save(figure, run.path / "pictures" / f"{name}.png") for name, figure in _drawn(run)]


def _drawn(run: Run) -> Iterator[tuple[str, Figure]]:
    """Yields every picture that the run has something for, with its name."""
    parts = [(_suffix(run.only(group)), run.only(group)) for group in run.groups()]
    whole = [("", run)]
    for name, picture in PICTURES.items():
        for suffix, part in parts if picture.apart else whole:
            figure = picture.draw(part)
            if figure is not None:
                yield f"{name}{suffix}", figure


def _suffix(run: Run) -> str:
    """Returns the swept settings that the lanes share."""
    settings = run.config.lanes[0].settings
    return "".join(f"-{name}-{setting_text(value)}" for name, value in settings.items())


def _label(run: Run) -> str:
    schedule = run.config.schedule
    return run.config.teacher + (f" ({schedule})" if schedule else "")


def _learning_curve(run: Run) -> Figure:
    return learning_curve([run], [_label(run)])


def _success_rate(run: Run) -> Figure:
    return learning_curve([run], [_label(run)], metric="success_rate")


def _kl_to_target(run: Run) -> Figure | None:
    return kl_to_target_curve([run], [_label(run)]) if run.has_metric(KL_TO_TARGET) else None


def _alpha(run: Run) -> Figure | None:
    return alpha_curve([run], [_label(run)]) if run.has_metric(ALPHA) else None


def _contexts(run: Run) -> Figure | None:
    return context_snapshots(run) if len(run.config.context_space.names) > 1 else None


def _trajectories(run: Run) -> Figure | None:
    return None if run.trajectories is None else trajectory_picture(run)


PICTURES: Mapping[str, Picture] = {
    "learning_curve": Picture(_learning_curve),
    "success_rate": Picture(_success_rate),
    "kl_to_target": Picture(_kl_to_target),
    "alpha": Picture(_alpha),
    "contexts": Picture(_contexts, apart=True),
    "trajectories": Picture(_trajectories, apart=True),
}
