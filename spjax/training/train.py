"""Training from the start, or from where a run folder stops."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from spjax.cache import keep_compiled_programs
from spjax.runs import folder as layout
from spjax.runs.lock import Holder, locked
from spjax.training.config import RunConfig
from spjax.training.engines.base import Work, engine_of, started
from spjax.training.extension import check_extension, extend, time_left
from spjax.training.following import Callback, Followers
from spjax.training.footprint import check_at_once
from spjax.training.lanes import Lanes
from spjax.training.loop import Training, newest_states
from spjax.training.program import Program
from spjax.training.progress import SweepProgress
from spjax.training.run_folder import read_config, write_config
from spjax.training.stopping import Interrupted, first_interrupt

__all__ = ["Interrupted", "restore", "resume", "train"]


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    progress: bool = True,
    command: str = "spjax.train",
    callback: Callback | Sequence[Callback] | None = None,
    lanes_at_once: int | None = None,
    engine: str | None = None,
    address: str | None = None,
) -> Path:
    """Trains every lane of a sweep and returns its run folder.

    Args:
        config: what to train.
        folder: the run folder to make.
        progress: whether to show how far it is.
        command: what the run folder says that it was made by.
        callback: called with a `Report` after each chunk of iterations, once it is saved; it may stop the run. One or several.
        lanes_at_once: how many lanes are worked on together before they are saved; None for what fits into memory. The results
            are the same; on an accelerator rounding may differ.
        engine: "ray" for the nodes of a Ray cluster, "jax" for processes that a launcher started with the same program; all must
            see the folder. None for this process alone. The results are the same, too.
        address: of the Ray cluster; None for the one that this machine belongs to.

    Raises:
        ValueError: the configuration is wrong, the folder exists and is not empty, another process is training in it, or the
            engine cannot be had.
        Interrupted: Ctrl-C or SIGTERM; the run folder holds everything up to the last chunk.
        MemoryError: there is not enough for a single lane.
        OSError: the run folder cannot be written, for example because the disk is full; what was saved before stays.
    """
    elsewhere = engine_of(engine, address)
    if elsewhere is not None and elsewhere.follows:
        return elsewhere.follow()
    folder, followers = Path(folder), Followers.of(callback)
    config.check()
    check_at_once(lanes_at_once)
    layout.check_free(folder)
    keep_compiled_programs()
    with (
        _claimed(folder) as holder,
        _shown(config, 0, progress) as bar,
        first_interrupt() as interrupted,
        started(
            elsewhere,
            Work.of(folder, holder, config, lanes_at_once),
            bar.note,
            interrupted.is_set,
        ) as workers,
    ):
        run = Training(folder, config, bar, lanes_at_once, workers)
        run.compile()
        write_config(folder, config, command, workers.device if workers else None)
        run.go(interrupted, followers)
    return folder


def resume(
    folder: str | Path,
    *,
    progress: bool = True,
    accept_changes: bool = False,
    iterations: int | None = None,
    callback: Callback | Sequence[Callback] | None = None,
    lanes_at_once: int | None = None,
    engine: str | None = None,
    address: str | None = None,
) -> Path:
    """Continues a run from its newest checkpoint; a finished run is left as it is, or extended.

    The resumed run ends with the same bits as an undisturbed one on the same kind of device, and so does an extended one.

    Args:
        folder: the run folder.
        progress: whether to show how far it is.
        accept_changes: whether the user's own files may be others than those that the run began with.
        iterations: how long the run is from now on; None for as long as it was meant to be.
        callback: as for `train`.
        lanes_at_once: as for `train`; it need not be what it was.
        engine: as for `train`; it need not be what it was.
        address: as for `train`.

    Raises:
        ValueError: the folder is missing, half-written or from another version, or more iterations are done already.
        Interrupted, OSError: as for `train`.
    """
    elsewhere = engine_of(engine, address)
    if elsewhere is not None and elsewhere.follows:
        return elsewhere.follow()
    folder, followers = Path(folder), Followers.of(callback)
    config = read_config(folder, accept_changes)
    meant = config.num_iterations
    if iterations is not None:
        config = dataclasses.replace(config, num_iterations=iterations)
    config.check()
    check_at_once(lanes_at_once)
    if config.num_iterations == meant and layout.is_finished(folder):
        return folder
    check_extension(folder, config.num_iterations)
    keep_compiled_programs()
    with locked(folder) as holder:
        estimate = time_left(folder, config.num_iterations)
        if config.num_iterations != meant:
            extend(folder, config.num_iterations)
        with (
            _shown(config, layout.last_iteration(folder), progress) as bar,
            first_interrupt() as interrupted,
            started(
                elsewhere,
                Work.of(folder, holder, config, lanes_at_once),
                bar.note,
                interrupted.is_set,
            ) as workers,
        ):
            run = Training(folder, config, bar, lanes_at_once, workers)
            run.restore()
            if estimate is not None:
                bar.note(estimate)
            run.compile()
            run.go(interrupted, followers)
    return folder


def restore(
    folder: str | Path,
    accept_changes: bool = False,
    lanes: Sequence[int] | None = None,
) -> tuple[RunConfig, Program, Lanes]:
    """Returns a run's configuration, a program and the newest states, on the devices, of all lanes or of these.

    Raises:
        ValueError: no run folder, or no checkpoint that can be read.
    """
    folder = Path(folder)
    config = read_config(folder, accept_changes)
    every = config.lanes()
    lanes = range(len(every)) if lanes is None else lanes
    program = Program.of(config.experiments([every[lane] for lane in lanes]))
    arrays = newest_states(folder, program, lanes)
    if arrays is None:
        if layout.is_finished(folder):
            raise ValueError(
                f"{folder} is finished but has no checkpoints, which its policies would be in"
            )
        raise ValueError(f"{folder} has no checkpoint yet; resume it first")
    return config, program, program.from_arrays(arrays)


@contextmanager
def _claimed(folder: Path) -> Iterator[Holder]:
    """Holds the folder of a new run; a folder that was made for a run that never began goes again."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder) as holder:
            layout.check_free(folder)
            yield holder
    finally:
        if made:
            with suppress(OSError):  # not empty: a run
                folder.rmdir()


def _shown(config: RunConfig, start: int, progress: bool) -> SweepProgress:
    return SweepProgress(config.num_iterations, start, Console(), progress)
