"""The host loop: run a chunk, write what came out, save, show; and the same from where a run folder stops."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
from rich.console import Console

from spjax.runs import files
from spjax.runs import folder as layout
from spjax.runs.checkpoint import Checkpoints
from spjax.runs.schema import Frozen, Summary
from spjax.training.config import RunConfig
from spjax.training.experiment import Metrics
from spjax.training.lanes import Lanes
from spjax.training.program import Chunk, Program, Snapshot
from spjax.training.progress import SweepProgress, count
from spjax.training.run_folder import read_config, write_config
from spjax.training.trajectories import trajectories


class Interrupted(Exception):
    """Ctrl-C was pressed; the run is saved and can be resumed, or it has just finished."""


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    progress: bool = True,
    command: str = "spjax.train",
) -> Path:
    """Trains every lane of a sweep and returns its run folder.

    Raises:
        ValueError: the configuration is wrong, the folder exists and is not empty, or another process is training in it.
        Interrupted: Ctrl-C; the run folder holds everything up to the last chunk.
        OSError: the run folder cannot be written, for example because the disk is full; what was saved before stays.
    """
    folder = Path(folder)
    config.check()
    layout.check_free(folder)
    program = Program.of(config.experiments())
    with (
        _claimed(folder),
        _shown(config, 0, progress) as bar,
        _first_interrupt() as interrupted,
    ):
        writer = _Writer(folder, config)
        chunk = writer.compile(program, bar)
        write_config(folder, config, command)
        states = writer.begin(chunk)
        _run(chunk, writer, states, bar, interrupted)
    return folder


def resume(
    folder: str | Path, *, progress: bool = True, accept_changes: bool = False
) -> Path:
    """Continues a run from its newest checkpoint; a finished run is left as it is.

    The resumed run ends with the same bits as an undisturbed one on the same kind of device.

    Args:
        folder: the run folder.
        progress: whether to show how far it is.
        accept_changes: whether the user's own files may be others than those that the run began with.

    Raises:
        ValueError: the folder is missing, half-written or from another version.
        Interrupted, OSError: as for `train`.
    """
    folder = Path(folder)
    config = read_config(folder, accept_changes)
    config.check()
    if not layout.is_finished(folder):
        program = Program.of(config.experiments())
        with layout.locked(folder):
            writer = _Writer(folder, config)
            states = writer.restore(program)
            with (
                _shown(config, writer.iteration, progress) as bar,
                _first_interrupt() as interrupted,
            ):
                chunk = writer.compile(program, bar)
                if states is None:
                    states = writer.begin(chunk)
                _run(chunk, writer, states, bar, interrupted)
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
    state = _newest(Checkpoints(folder / layout.CHECKPOINTS), program)
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
    writer: "_Writer",
    states: Lanes,
    bar: SweepProgress,
    interrupted: threading.Event,
) -> None:
    """Trains from these states to the end; the caller holds the folder."""
    num_iterations, evaluate_every = (
        writer.config.num_iterations,
        writer.config.evaluate_every,
    )
    while writer.iteration < num_iterations:
        length = min(evaluate_every, num_iterations - writer.iteration)
        states, metrics, snapshot = chunk(states, length)
        writer.chunk(writer.iteration + length, metrics, snapshot)
        writer.save(writer.iteration + length, chunk.program, states)
        bar.update(writer.iteration, metrics, snapshot)
        if interrupted.is_set() and writer.iteration < num_iterations:
            raise Interrupted(
                f"stopped at iteration {writer.iteration}; continue with: spjax resume {writer.folder}"
            )
    writer.finish(chunk.program, states)
    if (
        interrupted.is_set()
    ):  # what comes after the run, such as the next one, should not start
        raise Interrupted(f"{writer.folder} is finished")


def _newest(checkpoints: Checkpoints, program: Program) -> Lanes | None:
    """Returns the newest state that can be read, on the devices; a damaged checkpoint falls back to the one before."""
    error: ValueError | None = None
    for iteration in reversed(checkpoints.iterations()):
        try:
            return program.from_arrays(checkpoints.restore(iteration, program.kinds()))
        except ValueError as unreadable:
            error = unreadable
    if error is not None:
        raise error
    return None


class _Writer:
    """Writes a run folder, in an order in which a kill at any moment loses at most one chunk."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder = folder
        self.config = config
        self.iteration = 0  # with a checkpoint
        self._compile_seconds = 0.0
        self._lanes = config.lanes()
        self._checkpoints = Checkpoints(folder / layout.CHECKPOINTS)
        self._start = time.perf_counter()
        self._resumed = False

    def restore(self, program: Program) -> Lanes | None:
        """Returns the states to go on from, None where there are none yet, and removes what was written after them.

        Raises:
            ValueError: checkpoints are there or were there, and none can be read.
        """
        states = _newest(self._checkpoints, program)
        if states is None and any((self.folder / "metrics").glob("*.parquet")):
            raise ValueError(
                f"{self.folder} has no checkpoint that this spjax reads; train again in another folder"
            )
        self._resumed = states is not None
        self.iteration = -1 if states is None else program.iteration(states)
        layout.discard_after(self.folder, self.iteration)
        self._checkpoints.discard_after(self.iteration)
        self.iteration = max(self.iteration, 0)
        return states

    def compile(self, program: Program, bar: SweepProgress) -> Chunk:
        """Returns the compiled iterations between two evaluations."""
        bar.note(
            f"{count(len(self._lanes), 'run')} on {count(*program.layout.workers)}; compiling"
        )
        chunk, self._compile_seconds = program.compile(
            min(self.config.evaluate_every, self.config.num_iterations)
        )
        bar.note(f"compiled in {self._compile_seconds:.0f} s")
        return chunk

    def begin(self, chunk: Chunk) -> Lanes:
        """Returns the states before the first iteration, evaluated and saved."""
        states = chunk.program.init([lane.seed for lane in self._lanes])
        states, _, snapshot = chunk(states, 0)
        self.evaluation(0, snapshot)
        self.save(0, chunk.program, states)
        return states

    def chunk(self, iteration: int, metrics: Metrics, snapshot: Snapshot) -> None:
        count = metrics.frozen.shape[1]
        numbers = np.tile(
            np.arange(iteration - count + 1, iteration + 1, dtype=np.int32),
            len(self._lanes),
        )
        columns = {
            **layout.lane_columns(self._lanes, count),
            "iteration": numbers,
            **layout.tidy(metrics),
        }
        if metrics.environment_steps is None:
            columns["environment_steps"] = numbers.astype(np.int64) * (
                self.config.steps_per_iteration or 0
            )
        files.write_table(
            layout.part(self.folder, layout.METRICS, iteration), pa.table(columns)
        )
        self.evaluation(iteration, snapshot)

    def evaluation(self, iteration: int, snapshot: Snapshot) -> None:
        columns = {
            **layout.lane_columns(self._lanes, 1),
            "iteration": np.full(len(self._lanes), iteration, np.int32),
            **layout.tidy(
                jax.tree.map(lambda leaf: leaf[:, None], snapshot.evaluation)
            ),
            "contexts": layout.column(np.asarray(snapshot.contexts)[:, None]),
        }
        files.write_table(
            layout.part(self.folder, layout.EVALUATION, iteration), pa.table(columns)
        )

    def save(self, iteration: int, program: Program, states: Lanes) -> None:
        self._checkpoints.save(iteration, program.to_arrays(states))
        self.iteration = iteration

    def finish(self, program: Program, states: Lanes) -> None:
        """Writes trajectories and the summary; a resumed run has no wall time of its own."""
        files.write_table(
            self.folder / layout.TRAJECTORIES,
            trajectories(program, states, self._lanes),
        )
        frozen_at = program.to_host(
            program.layout.part(states, lambda state: state.frozen_at)
        )
        frozen = [
            Frozen(lane, self._lanes[lane].seed, int(iteration))
            for lane, iteration in enumerate(frozen_at)
            if iteration >= 0
        ]
        summary = Summary(
            finished=True,
            wall_seconds=None
            if self._resumed
            else round(time.perf_counter() - self._start, 3),
            compile_seconds=round(self._compile_seconds, 3),
            frozen=tuple(frozen),
        )
        layout.write_summary(self.folder, summary)


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
