"""Run folders of cells as training would leave them, with made-up numbers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.paper.cells import Cell
from spjax.runs.files import write_table
from spjax.runs.folder import lane_columns
from spjax.training.config import RunConfig
from spjax.training.run_folder import write_config
from tests.made_run import make_run  # noqa: F401

EVALUATED = (0.0, 0.5, 1.0)  # fractions of the iterations


@pytest.fixture
def make_cell(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes the run folder of a cell below tmp_path."""

    def make(
        cell: Cell,
        final: Sequence[float],
        *,
        first_seed: int = 1,
        suffix: str = "",
        **how: object,
    ) -> Path:
        return write_cell(
            tmp_path / f"{cell.name}{suffix}", cell, final, first_seed, **how
        )

    return make


def write_cell(
    folder: Path,
    cell: Cell,
    final: Sequence[float],
    first_seed: int,
    iteration: int | None = None,
    wall: float | None = 80.0,
    success_rates: Sequence[float] = (1.0,),
) -> Path:
    """Writes a run up to an iteration, by default the last; the return of each seed rises linearly from 0 to its final one."""
    config = cell.config(tuple(range(first_seed, first_seed + len(final))))
    last = config.num_iterations
    iteration = last if iteration is None else iteration
    folder.mkdir(parents=True)
    write_config(folder, config, "python -m benchmarks.paper made-up")
    lanes, count = config.lanes(), len(final)
    for k in (
        round(fraction * last) for fraction in EVALUATED if fraction * last <= iteration
    ):
        columns = lane_columns(lanes, 1) | {
            "iteration": [k] * len(lanes),
            "discounted_return": [
                final[index % count] * k / last for index in range(len(lanes))
            ],
            "success_rate": [
                success_rates[index % len(success_rates)] for index in range(len(lanes))
            ],
            "contexts": [[0.1] * (20 * len(config.task.context_space.names))]
            * len(lanes),
        }
        write_table(folder / "evaluation" / f"{k:06d}.parquet", pa.table(columns))
    write_table(
        folder / "metrics" / f"{iteration:06d}.parquet", _metrics(config, iteration)
    )
    if iteration == last:
        path = {
            "x": [[0.0, 2.5, 0.0]] * len(lanes),
            "y": [[3.0, 0.0, -3.0]] * len(lanes),
        }
        columns = (
            lane_columns(lanes, 1)
            | path
            | {"episode": [0] * len(lanes), "success": [True] * len(lanes)}
        )
        write_table(folder / "trajectories.parquet", pa.table(columns))
        summary = {
            "finished": True,
            "wall_seconds": wall,
            "compile_seconds": 9.0,
            "frozen": [],
        }
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def _metrics(config: RunConfig, iteration: int) -> pa.Table:
    """Returns the rows of the middle and the last iteration; the KL to the target falls linearly from 1 to 0.

    Of episodic learners every row: 1,024 steps an iteration, contexts that stay.
    """
    lanes = config.lanes()
    if config.rollouts_per_iteration is None:
        shown = sorted({min(config.num_iterations // 2, iteration), iteration})
        distances = [1 - k / config.num_iterations for k in shown]
        rows = {
            "iteration": shown * len(lanes),
            "environment_steps": [config.steps_per_iteration * k for k in shown]
            * len(lanes),
            "teacher.kl_to_target": distances * len(lanes),
        }
        return pa.table(lane_columns(lanes, len(shown)) | rows)
    target = config.task.target.summary()
    numbers = np.tile(np.arange(1, iteration + 1), len(lanes))
    columns = {
        **lane_columns(lanes, iteration),
        "iteration": numbers,
        "environment_steps": 1024 * numbers,
        "teacher.context_mean": [np.asarray(target.mean)] * len(numbers),
        "teacher.context_covariance": [np.asarray(target.covariance).ravel()]
        * len(numbers),
    }
    return pa.table(columns)
