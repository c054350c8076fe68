"""The layouts of slots: same steps, same minibatches; and their table, from made-up run folders."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.paper import figure_slots
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.cells import Cell
from benchmarks.paper.records import finished_runs, settings_of
from spjax.runs.results import read_records

MakeCell = Callable[..., Path]


def test_layouts_are_the_preset_but_for_its_slots_with_as_many_steps() -> None:
    preset = Cell("ball-catching", "ppo", figure_slots.CURRICULA[0]).config((1,))
    layouts = []
    for cell in figure_slots.CELLS:
        config = cell.config((1,))
        config.check()
        agent = config.agent
        assert agent.steps_per_iteration == preset.agent.steps_per_iteration == 5000
        same = agent.replace(num_envs=20, num_steps=250)
        assert (same, config.teacher, config.task) == (
            preset.agent,
            preset.teacher,
            preset.task,
        )
        assert (config.num_iterations, cell.num_seeds) == (500, 5)
        layouts.append((agent.num_envs, agent.num_steps))
        assert settings_of(cell) == dict(
            zip(("agent.num_envs", "agent.num_steps"), layouts[-1], strict=True)
        )
    assert layouts == [(20, 250), (4, 1250), (1, 5000)]


@pytest.fixture
def two_iterations(make_cell: MakeCell) -> Callable[[Cell], Path]:
    """Returns a function that writes a cell of two seeds with the episodes and shares of two iterations."""

    def write(cell: Cell) -> Path:
        folder = make_cell(cell, [50.0, 40.0], success_rates=[0.5, 0.7])
        (file,) = (folder / "metrics").iterdir()
        table = pq.read_table(file)
        assert table["iteration"].to_pylist() == [250, 500] * 2
        columns = {
            "episodes": [30, 10, 0, 40],
            "borders.crossed_fraction": [0.2, 0.6, None, 0.25],
            "borders.stale_fraction": [0.3, 0.7, None, 0.5],
            "borders.cut_fraction": [1.0, 0.5, 1.0, 0.0],
        }
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        pq.write_table(table, file)
        return folder

    return write


def test_the_table_counts_shares_by_episodes_and_slots_by_iterations(
    two_iterations: Callable[[Cell], Path], tmp_path: Path
) -> None:
    cell = figure_slots.CELLS[1]
    two_iterations(cell)
    runs = finished_runs(blocks_of(cell, tmp_path, 2))
    # first seed: 30 episodes with 0.2 and 10 with 0.6; the second has episodes in the last iteration alone
    shares = {
        "borders.crossed_fraction": [0.3, 0.25],
        "borders.stale_fraction": [0.4, 0.5],
        "borders.cut_fraction": [0.75, 0.5],
    }
    for metric, expected in shares.items():
        found = figure_slots.share(runs[cell.name], metric)
        np.testing.assert_allclose(found, expected)

    text = figure_slots.report(runs, tmp_path / "results")
    (row,) = [line for line in text.splitlines() if line.startswith("| 4 x 1,250")]
    cells = [part.strip() for part in row.strip("|").split("|")]
    error = 5 / np.sqrt(2)
    assert cells[1:3] == ["2", f"45.0 ± {error:.1f}"]
    assert cells[3].startswith("53.9 ± 0.4 (p ")
    assert cells[4:] == ["60.0 ± 7.1", "27.5 ± 1.8", "45.0 ± 3.5", "62.5 ± 8.8"]
    assert (tmp_path / "results/pictures/figure-slots/returns.png").is_file()

    records = read_records(tmp_path / "results" / "figure-slots.json")
    by_metric = {record["metric"]: record for record in records}
    assert by_metric["borders.crossed_fraction"]["values"] == pytest.approx([0.3, 0.25])
    assert {str(record["settings"]) for record in records} == {
        str({"agent.num_envs": 4, "agent.num_steps": 1250})
    }


def test_nothing_is_written_before_something_is_finished(tmp_path: Path) -> None:
    assert figure_slots.report({}, tmp_path) == "nothing is finished yet"
    assert not list(tmp_path.iterdir())
