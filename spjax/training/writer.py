"""Writes a run folder, in an order in which a kill at any moment loses at most one chunk."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa

from spjax.runs import files
from spjax.runs import folder as layout
from spjax.runs.schema import Frozen, Lane, Summary
from spjax.training.config import RunConfig
from spjax.training.lanes import Lanes
from spjax.training.program import Program
from spjax.training.rounds import Results
from spjax.training.trajectories import trajectories


class Writer:
    """The tables and the summary of one run."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder = folder
        self.config = config
        self.compile_seconds = 0.0
        self.resumed = False
        self._lanes = config.lanes()
        self._start = time.perf_counter()

    def chunk(self, iteration: int, results: Results) -> None:
        """Writes the evaluation at an iteration, and the metrics of the chunk that ends there, if it has any.

        The metrics come last: where they are, the chunk is written.
        """
        self._evaluation(iteration, results)
        metrics = results.metrics
        count = metrics.frozen.shape[1]
        if not count:
            return
        lanes = self._of(results.lanes)
        numbers = np.tile(
            np.arange(iteration - count + 1, iteration + 1, dtype=np.int32), len(lanes)
        )
        columns = {
            **layout.lane_columns(lanes, count, results.lanes),
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

    def finish(self, blocks: Iterable[tuple[Sequence[int], Program, Lanes]]) -> None:
        """Writes trajectories and the summary; a resumed run has no wall time of its own.

        Args:
            blocks: lanes with their program and their last states, in order.
        """
        tables, frozen = [], []
        for numbers, program, states in blocks:
            tables.append(trajectories(program, states, self._of(numbers), numbers))
            at = program.to_host(
                program.layout.part(states, lambda state: state.frozen_at)
            )
            frozen += [
                Frozen(lane, self._lanes[lane].seed, int(iteration))
                for lane, iteration in zip(numbers, at, strict=True)
                if iteration >= 0
            ]
        table = pa.concat_tables(tables)
        if len(tables) > 1:  # blocks need not be in order
            table = table.sort_by("lane")
        files.write_table(self.folder / layout.TRAJECTORIES, table)
        summary = Summary(
            finished=True,
            wall_seconds=None
            if self.resumed
            else round(time.perf_counter() - self._start, 3),
            compile_seconds=round(self.compile_seconds, 3),
            frozen=tuple(sorted(frozen, key=lambda one: one.lane)),
        )
        layout.write_summary(self.folder, summary)

    def _evaluation(self, iteration: int, results: Results) -> None:
        lanes = self._of(results.lanes)
        snapshot = results.snapshot
        columns = {
            **layout.lane_columns(lanes, 1, results.lanes),
            "iteration": np.full(len(lanes), iteration, np.int32),
            **layout.tidy(
                jax.tree.map(lambda leaf: leaf[:, None], snapshot.evaluation)
            ),
            "contexts": layout.column(np.asarray(snapshot.contexts)[:, None]),
        }
        files.write_table(
            layout.part(self.folder, layout.EVALUATION, iteration), pa.table(columns)
        )

    def _of(self, numbers: Sequence[int]) -> list[Lane]:
        return [self._lanes[number] for number in numbers]
