"""Cells, tables and pictures of the episodic learners, from made-up run folders; and the gate's rewards."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from benchmarks.paper import (
    figure_gate,
    figure_gate_reward_landscape,
    figure_gate_success,
    figure_sprl_point_mass,
)
from benchmarks.paper.blocks import blocks_of
from benchmarks.paper.figure_gate import CELLS
from benchmarks.paper.pictures.episodic import (
    context_distribution,
    returns_over_steps,
    rollout_iterations,
)
from benchmarks.paper.records import Runs, finished_runs, settings_of
from benchmarks.paper.runner import Plan
from spjax.analysis.curves import learning_curve
from spjax.runs.read import load_run
from spjax.runs.results import read_records

MakeCell = Callable[..., Path]
BY_NAME = {cell.name: cell for cell in (*CELLS, *figure_sprl_point_mass.CELLS)}


@pytest.fixture
def runs_of(tmp_path: Path) -> Callable[..., Runs]:
    """Returns a function that reads the finished run folders of cells below tmp_path."""
    return lambda *names: finished_runs(
        block for name in names for block in blocks_of(BY_NAME[name], tmp_path, 1)
    )


def rows(text: str) -> dict[tuple[str, str], list[str]]:
    """Returns the cells of a table by its first two columns."""
    lines = [
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("|")
    ][2:]
    return {
        (line[0].strip(), line[1].strip()): [cell.strip() for cell in line[2:]]
        for line in lines
    }


def test_five_methods_have_forty_seeds_in_both_settings(tmp_path: Path) -> None:
    names = {
        *(
            "sprl_self-paced-joint",
            "c-reps_default",
            "c-reps_goal-gan-episodic",
            "c-reps_sagg-riac",
        ),
        "cma-es_target-mean",
    }
    assert {cell.name for cell in CELLS} == {
        f"gate-{s}_{name}" for s in ("precision", "global") for name in names
    }
    blocks = Plan(CELLS, tmp_path, None).blocks()
    assert {block.seeds for block in blocks} == {tuple(range(1, 41))}
    assert {block.seeds for block in Plan(CELLS, tmp_path, 3).blocks()} == {(1, 2, 3)}


def test_all_methods_share_an_axis_of_hundred_rollouts(make_cell: MakeCell) -> None:
    sprl = load_run(make_cell(BY_NAME["gate-precision_sprl_self-paced-joint"], [109.0]))
    assert rollout_iterations(sprl, np.array([0, 350])).tolist() == [0.0, 350.0]
    cma_es = load_run(make_cell(BY_NAME["gate-precision_cma-es_target-mean"], [100.0]))
    np.testing.assert_allclose(
        rollout_iterations(cma_es, np.array([0, 75, 100, 2991])), [0, 0, 3, 349.92]
    )
    other = load_run(
        make_cell(BY_NAME["point-mass-2d_trpo_self-paced_proportion"], [7.0])
    )
    with pytest.raises(ValueError, match="not a run of an episodic learner"):
        rollout_iterations(other, np.array([0]))


def test_the_table_has_medians_quantiles_and_iterations_to_the_best_methods_reward(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    make_cell(
        BY_NAME["gate-global_sprl_self-paced-joint"],
        [100.0, 110.0, 90.0],
        wall=60.2,
        success_rates=[1.0, 0.5, 0.9],
    )
    make_cell(BY_NAME["gate-global_c-reps_default"], [80.0, 100.0, 190.0])
    text = figure_gate.report(
        runs_of("gate-global_sprl_self-paced-joint", "gate-global_c-reps_default"),
        tmp_path / "results",
    )
    found = rows(text)
    # the return rises linearly over 600 iterations: 95 of 100 at 570, of 110 at 518, of 90 never
    assert found["global", "SPRL"] == [
        "3",
        "100.0 [92.0, 108.0]",
        "90 [58, 98]",
        "570 (1 never)",
        "60",
    ]
    assert found["global", "C-REPS"][1:4] == [
        "100.0 [84.0, 172.0]",
        "100 [100, 100]",
        "570 (1 never)",
    ]
    records = read_records(tmp_path / "results" / "figure-gate.json")
    assert {(record["agent"], record["metric"]) for record in records} == {
        (agent, metric)
        for agent in ("sprl", "c-reps")
        for metric in ("discounted_return", "success_rate")
    }
    assert (tmp_path / "results" / "pictures" / "figure-gate" / "rewards.png").is_file()
    assert (
        tmp_path / "results" / "pictures" / "figure-gate" / "contexts.png"
    ).is_file()
    figure_gate_success.report(
        runs_of("gate-global_sprl_self-paced-joint"), tmp_path / "results"
    )
    assert (
        tmp_path / "results" / "pictures" / "figure-gate-success" / "success.png"
    ).is_file()


def test_an_episodic_learner_has_a_reward_and_iterations_without_a_number_of_steps(
    make_cell: MakeCell,
) -> None:
    run = load_run(make_cell(BY_NAME["gate-precision_sprl_self-paced-joint"], [109.0]))
    (axes,) = learning_curve([run], ["SPRL"]).axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == (
        "reward on target tasks",
        "iterations",
    )


def test_nothing_is_drawn_before_something_is_finished(tmp_path: Path) -> None:
    assert (
        figure_gate.report({}, tmp_path)
        == figure_gate_success.report({}, tmp_path)
        == "nothing is finished yet"
    )
    assert not list(tmp_path.iterdir())


def test_the_context_distribution_is_that_of_the_first_lane_and_the_asked_iteration(
    make_cell: MakeCell,
) -> None:
    run = load_run(
        make_cell(BY_NAME["gate-precision_sprl_self-paced-joint"], [109.0, 108.0])
    )
    mean, covariance = context_distribution(run, 20)
    np.testing.assert_allclose(mean, [-4.0, 0.2])
    np.testing.assert_allclose(covariance, np.diag([0.1, 0.001]), rtol=1e-6)
    with pytest.raises(ValueError, match="has no iteration 351"):
        context_distribution(run, 351)


def test_sprl_and_spdl_share_an_axis_of_environment_steps(
    make_cell: MakeCell, runs_of: Callable[..., Runs], tmp_path: Path
) -> None:
    name = "point-mass-2d_sprl_self-paced-joint"
    folder = make_cell(BY_NAME[name], [6.0, 4.0])
    places, returns = returns_over_steps(load_run(folder))
    end = (
        load_run(folder).config.num_iterations / 2
    )  # 1,024 steps an iteration, in units of 2,048
    assert (places[0], places[-1]) == (
        end / 2,
        end,
    )  # evaluated in the middle and at the end
    np.testing.assert_allclose(returns[:, [0, -1]], [[3.0, 6.0], [2.0, 4.0]])
    found = rows(figure_sprl_point_mass.report(runs_of(name), tmp_path / "results"))
    # one seed gets to 5 after five sixths of the steps, the other never, and counts as the end; the mean ends at 5 exactly
    crossing = f"{11 / 12 * end:.0f} ± {end / 12 / np.sqrt(2):.0f}"
    assert found["point-mass-2d", "SPRL"] == [
        "2",
        f"{end:.0f}",
        "5.00 ± 0.71",
        "",
        crossing,
        "1",
        f"{end:.0f}",
    ]


def test_spdl_is_compared_with_sprl_with_the_presets_network_and_with_one_of_its_size() -> (
    None
):
    cells = {cell.name: cell for cell in figure_sprl_point_mass.CELLS}
    assert len(cells) == len(figure_sprl_point_mass.CELLS) == 2 * 5
    for env in ("point-mass-3d", "point-mass-2d"):
        for agent in ("trpo", "ppo"):
            name = f"{env}_{agent}_self-paced_proportion"
            usual, small = (
                cells[cell].config((1,)) for cell in (name, f"{name}_hidden-21")
            )
            assert (usual.agent.hidden, usual.num_iterations) == ((64, 64), 400)
            assert (small.agent.hidden, small.num_iterations) == ((21,), 800)
            assert dataclasses.replace(small.agent, hidden=(64, 64)) == usual.agent
            assert small.teacher == usual.teacher
            settings = settings_of(cells[f"{name}_hidden-21"])
            assert settings == {"agent.hidden": (21,)}


@pytest.mark.parametrize(
    ("spdl", "sentence"),
    [
        ([5.5, 4.6], "it ends above SPDL, PPO, 21 units on point-mass-2d."),
        ([9.0, 8.0], "So chosen, SPRL leaves it that way."),
    ],
)
def test_returns_are_tested_against_sprls_and_between_the_tasks_and_the_order_is_said(
    spdl: list[float],
    sentence: str,
    make_cell: MakeCell,
    runs_of: Callable[..., Runs],
    tmp_path: Path,
) -> None:
    small = "_ppo_self-paced_proportion_hidden-21"
    finals = {
        "point-mass-2d_sprl_self-paced-joint": [6.0, 5.0],
        f"point-mass-2d{small}": spdl,
        f"point-mass-3d{small}": [8.0, 6.0],
    }
    for name, final in finals.items():
        make_cell(BY_NAME[name], final)
    text = figure_sprl_point_mass.report(runs_of(*finals), tmp_path / "results")
    found = rows(text)

    def p(*samples: list[float]) -> str:
        return f"{ttest_ind(*samples, equal_var=False).pvalue:.3f}"

    row = found["point-mass-2d", "SPDL, PPO, 21 units"]
    assert row[1:4] == [
        "800",
        f"{np.mean(spdl):.2f} ± {np.std(spdl) / np.sqrt(2):.2f}",
        p(spdl, [6.0, 5.0]),
    ]
    assert found["point-mass-3d", "SPDL, PPO, 21 units"][3] == ""  # without SPRL there
    dimensions = found["SPDL, PPO, 21 units", "7.00 ± 0.71"]
    assert dimensions[1] == p([8.0, 6.0], spdl)
    assert sentence in text
    records = read_records(tmp_path / "results" / "figure-sprl-point-mass.json")
    assert [record["settings"] for record in records if record["agent"] == "ppo"] == [
        {"agent.hidden": [21]}
    ] * 4


@pytest.mark.slow
def test_a_narrow_gate_leaves_a_local_optimum_at_the_wall_and_a_peak_at_the_gate() -> (
    None
):
    wide, _, narrow = (
        figure_gate_reward_landscape.slice_of(size)
        for size in figure_gate_reward_landscape.SIZES
    )
    means = narrow.rewards.mean(axis=1)
    inside = np.abs(narrow.places - 4.0) < 0.04
    outside = np.abs(narrow.places - 4.0) > 0.1
    assert means[inside].min() > 109
    assert means[outside].max() == pytest.approx(100.8, abs=0.1)
    assert abs(narrow.places[outside][means[outside].argmax()]) < 0.3
    assert wide.rewards.min() > 108.5
    assert narrow.paths[4.0][-1] == pytest.approx([0, 0], abs=0.1)
    assert narrow.paths[0.0][-1][1] == pytest.approx(2.5)
