"""Run folders of cells as training would leave them, with made-up numbers."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.paper.cells import Cell
from spjax.training import run_folder

EVALUATED = (0, 200, 400)


@pytest.fixture
def make_cell(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes the run folder of a cell below tmp_path."""

    def make(cell: Cell, final: Sequence[float], *, first_seed: int = 1, suffix: str = "", **how: object) -> Path:
        return write_cell(tmp_path / f"{cell.name}{suffix}", cell, final, first_seed, **how)

    return make


def write_cell(
    folder: Path, cell: Cell, final: Sequence[float], first_seed: int, iteration: int = 400, wall: float | None = 80.0
) -> Path:
    """Writes a run up to an iteration; the return of each seed rises linearly from 0 to its final one at iteration 400."""
    config = cell.config(tuple(range(first_seed, first_seed + len(final))))
    folder.mkdir(parents=True)
    run_folder.write_config(folder, config, "python -m benchmarks.paper made-up")
    lanes, count = config.lanes(), len(final)
    for k in filter(lambda k: k <= iteration, EVALUATED):
        columns = run_folder.lane_columns(lanes, 1) | {
            "iteration": [k] * len(lanes),
            "discounted_return": [final[index % count] * k / 400 for index in range(len(lanes))],
            "success_rate": [1.0] * len(lanes),
            "contexts": [[0.1] * (20 * config.env.dimensions)] * len(lanes),
        }
        run_folder.write_table(folder / "evaluation" / f"{k:06d}.parquet", pa.table(columns))
    columns = run_folder.lane_columns(lanes, 1) | {"iteration": [iteration] * len(lanes)}
    run_folder.write_table(folder / "metrics" / f"{iteration:06d}.parquet", pa.table(columns))
    if iteration == 400:
        path = {"x": [[0.0, 2.5, 0.0]] * len(lanes), "y": [[3.0, 0.0, -3.0]] * len(lanes)}
        columns = (
            run_folder.lane_columns(lanes, 1) | path | {"episode": [0] * len(lanes), "success": [True] * len(lanes)}
        )
        run_folder.write_table(folder / "trajectories.parquet", pa.table(columns))
        summary = {"finished": True, "wall_seconds": wall, "compile_seconds": 9.0, "frozen": []}
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder
