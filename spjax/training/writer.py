"""Writes a run folder, in an order in which a kill at any moment loses at most one chunk."""

import time
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa

from spjax.runs import files
from spjax.runs import folder as layout
from spjax.runs.checkpoint import Checkpoints
from spjax.runs.schema import Frozen, Summary
from spjax.training.config import RunConfig
from spjax.training.experiment import Metrics
from spjax.training.lanes import Lanes
from spjax.training.program import Chunk, Program, Snapshot
from spjax.training.progress import SweepProgress, count
from spjax.training.trajectories import trajectories


class Writer:
    """The folder of one run."""

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
        states = newest_state(self._checkpoints, program)
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
        """Writes the metrics of a chunk that ends with this iteration, and the evaluation there."""
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
        """Writes an evaluation."""
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
        """Writes a checkpoint."""
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


def newest_state(checkpoints: Checkpoints, program: Program) -> Lanes | None:
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
