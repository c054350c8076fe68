"""What is measured of the ant: crossings of the wall, the table of the ablation, figure and table row, from made-up runs."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spjax
from benchmarks.ant import ablation, walls
from benchmarks.paper import figure_ant, table_2
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.kept import keep
from benchmarks.paper.pictures import ant as ant_pictures
from benchmarks.paper.records import Runs, finished_runs
from spjax.analysis.statistics import welch_against_paper
from spjax.analysis.tables import p_text
from spjax.envs.ant import Ant
from spjax.runs.results import read_records

MakeCell = Callable[..., Path]
GATE = (-8.0, 3.0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((2.9, -8.0, 0.6), (3.1, -8.0, 0.6), "gate"),
        ((2.9, -7.0, 0.6), (3.1, -6.4, 0.6), "gate"),  # at x = 3 it is still inside
        ((2.9, -6.6, 0.6), (3.1, -6.2, 0.6), "through"),
        ((2.0, 0.0, 0.6), (5.0, 0.0, 0.6), "through"),
        ((2.0, 0.0, 4.0), (4.0, 0.0, 4.2), "over"),
        ((2.0, -8.0, 4.0), (4.0, -8.0, 4.2), "over"),
        ((3.1, 0.0, 0.6), (2.9, 0.0, 0.6), ""),  # back again
        ((2.0, 0.0, 0.6), (2.9, 0.0, 0.6), ""),
        ((3.1, 0.0, 0.6), (3.1, 0.0, 0.6), ""),
    ],
)
def test_a_crossing_is_through_the_gate_through_the_wall_or_over_it(
    before: tuple, after: tuple, expected: str
) -> None:
    places = (jnp.asarray(before), jnp.asarray(after), jnp.asarray(GATE))
    names = ("gate", "through", "over")
    found = zip(names, walls.crossing(*places), strict=True)
    assert [name for name, yes in found if yes] == ([expected] if expected else [])


@pytest.mark.slow
def test_launched_ants_are_watched_until_they_explode(key) -> None:
    env = Ant(engine="native")
    contexts = jnp.tile(jnp.asarray([[0.0, 13.0], [-10.0, 3.0]]), (2, 1))
    keys = jax.random.split(jax.random.fold_in(key, 0), 4)
    states = jax.vmap(env.reset)(keys, contexts)
    now = states.physics
    qvel = now.qvel.at[:2, 0].set(12.0).at[2:, 0].set(500.0)
    states = states.replace(
        physics=now.replace(qpos=now.qpos.at[:, 0].set(1.5), qvel=qvel)
    )
    seen = jax.jit(
        lambda key: walls.watch(
            env, key, states, lambda *_: jnp.zeros((4, 8)), horizon=20
        )
    )(jax.random.fold_in(key, 1))
    np.testing.assert_array_equal(seen.gate, [True, False, False, False])
    np.testing.assert_array_equal(seen.exploded, [False, False, True, True])
    np.testing.assert_array_equal(seen.arrived, [True, True, False, False])
    assert not (seen.through | seen.over).any()
    assert 0.4 < float(seen.highest[0]) < 2.0


def test_every_variant_of_the_ablation_is_a_training_that_can_start() -> None:
    cells = ablation.cells_of(7)
    configs = {
        cell.suffix.removeprefix("wide-gate_"): cell.config((1, 2)) for cell in cells
    }
    assert len({repr(config.spelled()) for config in configs.values()}) == len(cells)
    for config in configs.values():
        config.check()
        assert config.num_iterations == 7
        mean = config.resolved.teacher.aims_at.settings()["mean"]
        assert mean == ablation.GATE
    article = spjax.preset("ant", "ppo", "default", variant="article")
    assert configs["printed"].agent == article.agent
    assert configs["printed"].task == article.task


def test_the_table_of_the_ablation_has_both_rules_of_success_and_explosions(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    cells = ablation.cells_of(8)[:2]
    for cell, final in zip(cells, (100.0, 50.0), strict=True):
        folder = make_cell(cell, [final, final], success_rates=[0.5])
        _with_columns(folder)
    runs = finished_runs(b for c in cells for b in blocks_of(c, tmp_path, 2))
    text = ablation.report(runs, cells, tmp_path / "results")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()[2:4]]
    assert lines[0] == [
        *("nothing", "2", "8", "100 ± 0", "200 ± 0"),
        *("75 ± 18", "50 ± 0", "5.00 ± 0.00"),
    ]
    assert lines[1][0] == "armature 0 (printed)"
    records = read_records(tmp_path / "results" / "ant-ablation.json")
    assert {entry["metric"] for entry in records} >= {
        ablation.AT_THE_GOAL,
        ablation.BEHIND_THE_WALL,
        ablation.EXPLODED,
        ablation.UNDISCOUNTED,
    }
    assert len(records) == 2 * 6


def _with_columns(folder: Path) -> None:
    """Adds what the runs of a step-based learner have beside what `make_cell` writes; two lanes of two episodes."""
    for file in (folder / "evaluation").glob("*.parquet"):
        table = pq.read_table(file)
        twice = [2 * value for value in table["discounted_return"].to_pylist()]
        pq.write_table(table.append_column("episode_return", [twice]), file)
    for file in (folder / "metrics").glob("*.parquet"):
        table = pq.read_table(file)
        count = len(table)
        table = table.append_column("episodes", [[20.0] * count])
        pq.write_table(table.append_column("agent.num_failed", [[1.0] * count]), file)
    ends = {0: (5.0, 4.0), 1: (4.6, 2.0)}
    rows = [(lane, x) for lane, both in ends.items() for x in both]
    columns = {
        "lane": [lane for lane, _ in rows],
        "x": [[0.0, x] for _, x in rows],
        "y": [[0.0, -8.0] for _ in rows],
        "episode": [0, 1, 0, 1],
        "success": [True] * 4,
    }
    pq.write_table(pa.table(columns), folder / "trajectories.parquet")


@pytest.fixture
def ants(make_cell: MakeCell, tmp_path: Path) -> Runs:
    """Both schedules of SPDL: discounted returns of 300 and 400 at the end, and twice as much without discount."""
    for cell, final in zip(figure_ant.CELLS[:2], (300.0, 400.0), strict=True):
        _with_columns(make_cell(cell, [final, final]))
    return finished_runs(
        b for cell in figure_ant.CELLS[:2] for b in blocks_of(cell, tmp_path, 2)
    )


@pytest.mark.slow
def test_the_figure_compares_the_return_without_discount_with_print(
    ants: Runs, tmp_path: Path
) -> None:
    text = figure_ant.report(ants, tmp_path / "results")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()[2:8]]
    p = welch_against_paper([600.0, 600.0], 1371.0, 23.0)
    assert lines[0] == [
        *("SPDL (ζ)", "2", "600 ± 0", f"1371 ± 23 (p {p_text(p)})", "300 ± 0"),
        "100 ± 0",
    ]
    assert [line[0] for line in lines[2:]] == [
        "ALP-GMM",
        "GoalGAN",
        "Random",
        "Default",
    ]
    assert lines[2][1:4] == ["…", "…", "–"]
    assert "maximum is\n4,500" in text
    assert "allow is 1,172" in text
    records = read_records(tmp_path / "results" / "figure-ant.json")
    compared = {e["metric"] for e in records if e["paper_mean"] is not None}
    assert compared == {"episode_return"}
    assert len(records) == 2 * 3
    pictures = sorted((tmp_path / "results" / "pictures" / "figure-ant").glob("*.png"))
    assert [picture.stem for picture in pictures] == [
        *("contexts_bound", "contexts_proportion", "discounted_returns", "fans"),
        "returns",
    ]


def test_table_2_takes_the_ants_threshold_from_returns_without_discount(
    ants: Runs, tmp_path: Path
) -> None:
    pair = table_2.pair_of(figure_ant.CELLS[:2], ants)
    assert [entry["metric"] for entry in pair.returns] == ["episode_return"] * 2
    assert [entry["paper_mean"] for entry in pair.returns] == [1371.0, 1305.0]
    assert [entry["threshold"] for entry in pair.crossings] == [480.0, 480.0]
    assert [entry["values"] for entry in pair.crossings] == [[320.0] * 2, [240.0] * 2]
    assert [entry["paper_mean"] for entry in pair.crossings] == [131.0, 131.0]
    text = table_2.report(ants, tmp_path / "results")
    line = text.splitlines()[2].strip("| ").split(" | ")
    assert line[:6] == ["ant", "PPO", "SPDL (ζ)", "2", "600 ± 0", "1371 ± 23"]
    assert line[7] == "480"
    assert "without discount" in text


def test_the_median_of_episodes_is_over_those_that_go_on() -> None:
    paths = [np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0]), np.array([0.0, 5.0, 4.0])]
    np.testing.assert_array_equal(ant_pictures.median_over_time(paths), [0.0, 3.0, 3.0])


def test_all_episodes_of_an_ant_are_kept_and_one_of_a_point_mass(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    ant, mass = figure_ant.CELLS[0], table_2.CELLS[0]
    for cell in (ant, mass):
        _with_columns(make_cell(cell, [1.0, 2.0]))
        keep(blocks_of(cell, tmp_path, 2), tmp_path / "kept")
    counts = [
        len(pq.read_table(tmp_path / "kept" / cell.name / "trajectories.parquet"))
        for cell in (ant, mass)
    ]
    assert counts == [4, 2]
