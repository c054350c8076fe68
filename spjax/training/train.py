"""Training from the start, or from where a run folder stops."""

import dataclasses
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from spjax.cache import keep_compiled_programs
from spjax.runs import folder as layout
from spjax.runs.lock import locked
from spjax.training.config import RunConfig
from spjax.training.extension import check_extension, extend, time_left
from spjax.training.following import Callback, Followers
from spjax.training.footprint import check_at_once
from spjax.training.lanes import Lanes
from spjax.training.loop import Interrupted, StopRequest, Training, newest_states
from spjax.training.program import Program
from spjax.training.progress import SweepProgress
from spjax.training.run_folder import read_config, write_config

__all__ = ["Interrupted", "restore", "resume", "train"]


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    progress: bool = True,
    command: str = "spjax.train",
    callback: Callback | Sequence[Callback] | None = None,
    lanes_at_once: int | None = None,
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

    Raises:
        ValueError: the configuration is wrong, the folder exists and is not empty, or another process is training in it.
        Interrupted: Ctrl-C or SIGTERM; the run folder holds everything up to the last chunk.
        MemoryError: there is not enough for a single lane.
        OSError: the run folder cannot be written, for example because the disk is full; what was saved before stays.
    """
    folder, followers = Path(folder), Followers.of(callback)
    config.check()
    check_at_once(lanes_at_once)
    layout.check_free(folder)
    keep_compiled_programs()
    with (
        _claimed(folder),
        _shown(config, 0, progress) as bar,
        _first_interrupt() as interrupted,
    ):
        run = Training(folder, config, bar, lanes_at_once)
        run.compile()
        write_config(folder, config, command)
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

    Raises:
        ValueError: the folder is missing, half-written or from another version, or more iterations are done already.
        Interrupted, OSError: as for `train`.
    """
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
    with locked(folder):
        estimate = time_left(folder, config.num_iterations)
        if config.num_iterations != meant:
            extend(folder, config.num_iterations)
        with (
            _shown(config, layout.last_iteration(folder), progress) as bar,
            _first_interrupt() as interrupted,
        ):
            run = Training(folder, config, bar, lanes_at_once)
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
def _claimed(folder: Path) -> Iterator[None]:
    """Holds the folder of a new run; a folder that was made for a run that never began goes again."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            layout.check_free(folder)
            yield
    finally:
        if made:
            with suppress(OSError):  # not empty: a run
                folder.rmdir()


def _shown(config: RunConfig, start: int, progress: bool) -> SweepProgress:
    return SweepProgress(config.num_iterations, start, Console(), progress)


@contextmanager
def _first_interrupt() -> Iterator[StopRequest]:
    """Yields an event that the first Ctrl-C or SIGTERM sets; a second one raises KeyboardInterrupt at once.

    SIGTERM is how a cluster ends a job. Who handles it already goes on to do so.
    """
    event = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.number = number
        event.set()
        said = (
            "stopping after this chunk; press Ctrl-C again to stop at once"
            if number == signal.SIGINT
            else "asked to end; stopping after this chunk"
        )
        Console(stderr=True).print(said)

    previous = {signal.SIGINT: signal.signal(signal.SIGINT, handle)}
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, handle)
    try:
        yield event
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
