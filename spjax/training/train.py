"""The host loop: run a chunk, write what came out, save, show; and the same from where a run folder stops."""

import dataclasses
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from spjax.cache import keep_compiled_programs
from spjax.runs import folder as layout
from spjax.runs.checkpoint import Checkpoints
from spjax.training.config import RunConfig
from spjax.training.extension import check_extension, extend, time_left
from spjax.training.following import Callback, Followers, Report
from spjax.training.lanes import Lanes
from spjax.training.program import Chunk, Program
from spjax.training.progress import SweepProgress, standstill
from spjax.training.run_folder import read_config, write_config
from spjax.training.writer import Writer, newest_state


class Interrupted(Exception):
    """Ctrl-C was pressed; the run is saved and can be resumed, or it has just finished."""


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    progress: bool = True,
    command: str = "spjax.train",
    callback: Callback | Sequence[Callback] | None = None,
) -> Path:
    """Trains every lane of a sweep and returns its run folder.

    Args:
        config: what to train.
        folder: the run folder to make.
        progress: whether to show how far it is.
        command: what the run folder says that it was made by.
        callback: called with a `Report` after each chunk of iterations, once it is saved; it may stop the run. One or several.

    Raises:
        ValueError: the configuration is wrong, the folder exists and is not empty, or another process is training in it.
        Interrupted: Ctrl-C; the run folder holds everything up to the last chunk.
        OSError: the run folder cannot be written, for example because the disk is full; what was saved before stays.
    """
    folder, followers = Path(folder), Followers.of(callback)
    config.check()
    layout.check_free(folder)
    keep_compiled_programs()
    program = Program.of(config.experiments())
    with (
        _claimed(folder),
        _shown(config, 0, progress) as bar,
        _first_interrupt() as interrupted,
    ):
        writer = Writer(folder, config)
        chunk = writer.compile(program, bar)
        write_config(folder, config, command)
        states = writer.begin(chunk)
        _run(chunk, writer, states, bar, interrupted, followers)
    return folder


def resume(
    folder: str | Path,
    *,
    progress: bool = True,
    accept_changes: bool = False,
    iterations: int | None = None,
    callback: Callback | Sequence[Callback] | None = None,
) -> Path:
    """Continues a run from its newest checkpoint; a finished run is left as it is, or extended.

    The resumed run ends with the same bits as an undisturbed one on the same kind of device, and so does an extended one.

    Args:
        folder: the run folder.
        progress: whether to show how far it is.
        accept_changes: whether the user's own files may be others than those that the run began with.
        iterations: how long the run is from now on; None for as long as it was meant to be.
        callback: as for `train`.

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
    if config.num_iterations == meant and layout.is_finished(folder):
        return folder
    check_extension(folder, config.num_iterations)
    keep_compiled_programs()
    program = Program.of(config.experiments())
    with layout.locked(folder):
        estimate = time_left(folder, config.num_iterations)
        if config.num_iterations != meant:
            extend(folder, config.num_iterations)
        writer = Writer(folder, config)
        states = writer.restore(program)
        with (
            _shown(config, writer.iteration, progress) as bar,
            _first_interrupt() as interrupted,
        ):
            if estimate is not None:
                bar.note(estimate)
            chunk = writer.compile(program, bar)
            if states is None:
                states = writer.begin(chunk)
            _run(chunk, writer, states, bar, interrupted, followers)
    return folder


def restore(
    folder: str | Path, accept_changes: bool = False
) -> tuple[RunConfig, Program, Lanes]:
    """Returns a run's configuration, its program and its newest state, on the devices.

    Raises:
        ValueError: no run folder, or no checkpoint that can be read.
    """
    folder = Path(folder)
    config = read_config(folder, accept_changes)
    program = Program.of(config.experiments())
    state = newest_state(Checkpoints(folder / layout.CHECKPOINTS), program)
    if state is None:
        if layout.is_finished(folder):
            raise ValueError(
                f"{folder} is finished but has no checkpoints, which its policies would be in"
            )
        raise ValueError(f"{folder} has no checkpoint yet; resume it first")
    return config, program, state


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Holds the folder of a new run; a folder that was made for a run that never began goes again."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with layout.locked(folder):
            layout.check_free(folder)
            yield
    finally:
        if made:
            with suppress(OSError):  # not empty: a run
                folder.rmdir()


def _shown(config: RunConfig, start: int, progress: bool) -> SweepProgress:
    return SweepProgress(config.num_iterations, start, Console(), progress)


def _run(
    chunk: Chunk,
    writer: Writer,
    states: Lanes,
    bar: SweepProgress,
    interrupted: threading.Event,
    followers: Followers,
) -> None:
    """Trains from these states to the end; the caller holds the folder."""
    config = writer.config
    num_iterations, every = config.num_iterations, config.evaluate_every
    lanes, watched = config.lanes(), bar.shown
    while writer.iteration < num_iterations:
        # up to the next multiple: an extended run may begin between two of them
        length = min(
            every - writer.iteration % every, num_iterations - writer.iteration
        )
        states, metrics, snapshot = chunk(states, length)
        writer.chunk(writer.iteration + length, metrics, snapshot)
        writer.save(writer.iteration + length, chunk.program, states)
        bar.update(writer.iteration, metrics, snapshot)
        if watched:
            returns = metrics.discounted_return
            seen = np.asarray(returns.value)[:, -1], np.asarray(returns.present)[:, -1]
            teachers = (config.experiment(lane).teacher for lane in lanes)
            if why := standstill(teachers, writer.iteration, *seen):
                bar.note(why)
                watched = False  # it is said
        stopped = False
        if followers.callbacks:
            stopped = followers.told(
                Report(
                    writer.folder,
                    config,
                    writer.iteration,
                    metrics,
                    snapshot,
                    chunk.program,
                    states,
                )
            )
        if writer.iteration < num_iterations:
            where = f"stopped at iteration {writer.iteration}; continue with: spjax resume {writer.folder}"
            if interrupted.is_set():
                raise Interrupted(where)
            if stopped:
                bar.note(where)
                return
    writer.finish(chunk.program, states)
    if (
        interrupted.is_set()
    ):  # what comes after the run, such as the next one, should not start
        raise Interrupted(f"{writer.folder} is finished")


@contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """Yields an event that the first Ctrl-C sets; a second one raises KeyboardInterrupt at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()
        Console(stderr=True).print(
            "stopping after this chunk; press Ctrl-C again to stop at once"
        )

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
