"""A run that gets another length, finished or not; it goes on with the bits of a run that was as long from the start."""

import dataclasses
from pathlib import Path

from spjax.runs import folder as layout
from spjax.runs.checkpoint import Checkpoints
from spjax.runs.provenance import device
from spjax.runs.read import read_record, read_summary


def check_extension(folder: Path, num_iterations: int) -> None:
    """Checks that a run can go on to so many iterations.

    Raises:
        ValueError: it has more behind it, or it is finished and has lost its checkpoints.
    """
    done = layout.last_iteration(folder)
    if num_iterations < done:
        raise ValueError(
            f"{folder} has {done} iterations behind it; iterations must be at least {done}, got {num_iterations}"
        )
    if (
        layout.is_finished(folder)
        and not Checkpoints(folder / layout.CHECKPOINTS).iterations()
    ):
        raise ValueError(
            f"{folder} is finished but has no checkpoints, from which it could go on"
        )


def extend(folder: Path, num_iterations: int) -> None:
    """Makes the run one of so many iterations, unfinished; killed at any moment it is the one or the other."""
    record, done = read_record(folder), layout.last_iteration(folder)
    (folder / layout.TRAJECTORIES).unlink(missing_ok=True)
    (folder / layout.SUMMARY).unlink(missing_ok=True)
    layout.write_record(
        folder, dataclasses.replace(record, num_iterations=num_iterations)
    )

    # an evaluation that was due because the run ended there
    if done % record.evaluate_every and done < num_iterations:
        layout.part(folder, layout.EVALUATION, done).unlink(missing_ok=True)


def time_left(folder: Path, num_iterations: int) -> str | None:
    """Returns one sentence about how long the new iterations of a finished run take; None where nothing is known of it.

    Known is the time of a run that was never interrupted, on a device like this one.
    """
    record, summary = read_record(folder), read_summary(folder)
    if summary is None or summary.wall_seconds is None or record.device != device():
        return None
    new = num_iterations - record.num_iterations
    training = summary.wall_seconds - (summary.compile_seconds or 0.0)
    seconds = new * training / record.num_iterations
    return f"{new} iterations more, about {duration(seconds)} at the speed of the ones before, compiling apart"


def duration(seconds: float) -> str:
    """Returns for example "40 s", "12 min" or "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
