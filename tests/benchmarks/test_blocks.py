import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.paper.blocks import (
    Block,
    Timing,
    blocks_of,
    duration,
    seeds_label,
    time_left,
)
from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.records import finished_runs

MakeCell = Callable[..., Path]
RANDOM = Cell("point-mass-2d", "ppo", CURRICULA[4])
SPDL = Cell("point-mass-2d", "ppo", CURRICULA[0])
PRINTED = Cell(
    "point-mass-2d", "ppo", CURRICULA[0], "printed", {"teacher.schedule.zeta": 0.8}
)


def test_a_cell_without_a_folder_is_to_be_trained_with_all_seeds(
    tmp_path: Path,
) -> None:
    (block,) = blocks_of(RANDOM, tmp_path, 3)
    assert (block.folder, block.seeds) == (
        tmp_path / "point-mass-2d_ppo_random",
        (1, 2, 3),
    )
    assert (block.state, block.left) == ("to be trained", 1.0)


def test_a_finished_cell_with_enough_seeds_needs_nothing(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    make_cell(RANDOM, [1.0, 2.0, 3.0])
    (block,) = blocks_of(RANDOM, tmp_path, 2)
    assert (block.state, block.seeds, block.left, block.wall_seconds) == (
        "finished",
        (1, 2, 3),
        0.0,
        80.0,
    )


def test_missing_seeds_get_a_folder_of_their_own(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    make_cell(RANDOM, [1.0, 2.0])
    finished, more = blocks_of(RANDOM, tmp_path, 5)
    assert (finished.state, more.state, more.seeds) == (
        "finished",
        "to be trained",
        (3, 4, 5),
    )
    assert more.folder.name == "point-mass-2d_ppo_random_seeds-3-5"
    make_cell(RANDOM, [1.0, 2.0, 3.0], first_seed=3, suffix="_seeds-3-5")
    assert [block.seeds for block in blocks_of(RANDOM, tmp_path, 5)] == [
        (1, 2),
        (3, 4, 5),
    ]
    assert [block.seeds for block in blocks_of(RANDOM, tmp_path, 6)] == [
        (1, 2),
        (3, 4, 5),
        (6,),
    ]


def test_a_cut_run_is_resumed_where_it_stopped(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    make_cell(RANDOM, [1.0], iteration=200)
    (block,) = blocks_of(RANDOM, tmp_path, 1)
    assert (block.state, block.iteration, block.num_iterations, block.left) == (
        "to be resumed",
        200,
        400,
        0.5,
    )


def test_a_folder_that_training_never_began_is_trained(tmp_path: Path) -> None:
    (tmp_path / RANDOM.name).mkdir()
    (block,) = blocks_of(RANDOM, tmp_path, 1)
    assert (block.state, block.folder.name) == ("to be trained", RANDOM.name)


def test_printed_hyperparameters_are_another_cell(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    make_cell(PRINTED, [1.0])
    make_cell(PRINTED, [1.0], first_seed=2, suffix="_seeds-2-2")
    assert [block.state for block in blocks_of(SPDL, tmp_path, 2)] == ["to be trained"]
    assert [block.state for block in blocks_of(PRINTED, tmp_path, 2)] == [
        "finished",
        "finished",
    ]


def test_a_folder_from_before_a_setting_was_there_counts_and_its_seeds_are_pooled(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    old = make_cell(SPDL, [1.0])
    make_cell(SPDL, [2.0], first_seed=2, suffix="_seeds-2-2")
    file = old / "config.json"
    config = json.loads(file.read_text())
    added = ("normalize_observations", "normalize_rewards", "clip_value")
    values = [config["config"]["agent"].pop(name) for name in added]
    assert values == [False, False, None]

    file.write_text(json.dumps(config))
    blocks = blocks_of(SPDL, tmp_path, 2)
    assert [block.state for block in blocks] == ["finished", "finished"]
    assert finished_runs(blocks)[SPDL.name].config.seeds == (1, 2)

    config["config"]["agent"]["normalize_rewards"] = True
    file.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"other settings \(agent\)"):
        blocks_of(SPDL, tmp_path, 2)


def test_a_folder_of_other_settings_is_refused_by_name(
    make_cell: MakeCell, tmp_path: Path
) -> None:
    folder = make_cell(SPDL, [1.0])
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config["config"]["teacher"]["schedule"]["zeta"] = 9.0
    config["config"]["num_iterations"] = 300
    file.write_text(json.dumps(config))
    message = r"ppo_self-paced_proportion was trained with other settings \(teacher, num_iterations\); move it away"
    with pytest.raises(ValueError, match=message):
        blocks_of(SPDL, tmp_path, 1)


def test_a_sweep_counts_its_lanes(make_cell: MakeCell, tmp_path: Path) -> None:
    sweep = Cell(
        "point-mass-2d",
        "ppo",
        CURRICULA[0],
        "sweep",
        over={"teacher.schedule.zeta": (0.4, 0.8, 1.6)},
    )
    make_cell(sweep, [1.0, 2.0])
    (block,) = blocks_of(sweep, tmp_path, 2)
    assert (block.state, block.lane_iterations) == ("finished", 2 * 3 * 400)


def block(
    agent: str,
    state: str,
    seeds: int = 10,
    iteration: int = 0,
    wall: float | None = None,
    env: str = "point-mass-3d",
) -> Block:
    cell = Cell(env, agent, CURRICULA[4])
    return Block(
        cell, Path("x"), tuple(range(seeds)), state, 400, iteration, wall_seconds=wall
    )


def test_what_is_left_takes_as_long_as_the_learner_took_before() -> None:
    finished = [
        block("ppo", "finished", wall=100.0),
        block("ppo", "finished", seeds=20, wall=500.0),
    ]
    finished += [
        block("trpo", "finished", wall=40.0),
        block("trpo", "finished", wall=None),
    ]
    left = [
        block("ppo", "to be trained", seeds=5),
        block("trpo", "to be resumed", seeds=20, iteration=300),
    ]
    # 20 s a PPO seed, 4 s a TRPO seed
    estimate = time_left(left, [*finished, *left])
    assert estimate.seconds == pytest.approx(5 * 20 + 20 * 4 / 4, rel=1e-12)
    assert str(estimate) == "about 2 min left"


def test_a_learner_that_was_never_measured_on_a_task_is_named() -> None:
    other = block("ppo", "to be trained", env="ball-catching")
    blocks = [
        block("ppo", "finished", wall=100.0),
        block("ppo", "to be trained"),
        other,
    ]
    estimate = time_left(blocks[1:], blocks)
    assert (estimate.seconds, estimate.unknown) == (100.0, ("ball-catching ppo",))
    assert str(estimate) == "about 2 min left and unknown time for ball-catching ppo"
    assert str(time_left([other], blocks)) == "unknown time for ball-catching ppo"


def test_records_tell_the_time_of_what_is_not_finished_here() -> None:
    blocks = [
        block("ppo", "finished", wall=100.0),
        block("ppo", "to be trained"),
        block("sac", "to be trained"),
    ]
    recorded = [
        Timing("point-mass-3d ppo", 9e9, 1),
        Timing("point-mass-3d sac", 60.0, 20 * 400),
    ]
    assert time_left(blocks[1:], blocks, recorded).seconds == pytest.approx(
        100.0 + 30.0
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 min"), (61, "2 min"), (3600, "1 h 00 min"), (11_101, "3 h 06 min")],
)
def test_durations_are_rounded_up_to_minutes(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seeds", "text"), [((1, 2, 3), "1-3"), ((4,), "4"), ((1, 3, 4), "1, 3, 4")]
)
def test_seeds_are_written_short(seeds: tuple[int, ...], text: str) -> None:
    assert seeds_label(seeds) == text
