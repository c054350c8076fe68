import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spjax.analysis.records import records_of_run
from spjax.runs.pool import pool
from spjax.runs.read import load_run
from spjax.runs.schema import FORMAT_VERSION, Lane
from tests.runs.test_read import edit_config

CELLS = Path(__file__).parents[2] / "benchmarks" / "results" / "cells"
MakeRun = Callable[..., Path]


def test_pooled_seeds_are_one_run_with_the_values_of_each(make_run: MakeRun) -> None:
    first, second = (
        load_run(make_run(seeds=(1, 2))),
        load_run(make_run(seeds=(7, 8, 9), frozen=(1,))),
    )
    pooled = pool([first, second])
    (group,) = pooled.groups()
    assert pooled.seeds(group) == [1, 2, 7, 8, 9]
    for read in ("evaluation_curves", "metric_curves"):
        parts = [
            getattr(run, read)("discounted_return", run.groups()[0]).values
            for run in (first, second)
        ]
        np.testing.assert_array_equal(
            getattr(pooled, read)("discounted_return", group).values,
            np.concatenate(parts),
        )
    assert pooled.trajectories is not None
    assert set(
        zip(
            *(pooled.trajectories[name].to_pylist() for name in ("lane", "seed")),
            strict=True,
        )
    ) == set(enumerate([1, 2, 7, 8, 9]))
    assert pooled.summary is not None
    assert (pooled.summary.wall_seconds, pooled.summary.compile_seconds) == (
        162.0,
        18.0,
    )
    assert [(lane.lane, lane.seed) for lane in pooled.summary.frozen] == [(3, 8)]


def test_a_run_alone_is_itself(make_run: MakeRun) -> None:
    run = load_run(make_run())
    assert pool([run]) is run


def test_a_sweep_is_pooled_value_by_value(make_run: MakeRun) -> None:
    swept = ({"teacher.schedule.zeta": 0.8}, {"teacher.schedule.zeta": 1.6})
    pooled = pool(
        [load_run(make_run(seeds=seeds, swept=swept)) for seeds in ((1, 2), (3,))]
    )
    assert [pooled.seeds(group) for group in pooled.groups()] == [[1, 2, 3], [1, 2, 3]]
    assert [group.lanes for group in pooled.groups()] == [(0, 1, 4), (2, 3, 5)]


def test_records_of_pooled_seeds_name_both_commits_and_no_version_that_changed(
    make_run: MakeRun,
) -> None:
    folders = [make_run(seeds=(1, 2)), make_run(seeds=(3, 4))]
    edit_config(folders[1], commit="4567def", versions={"jax": "0.11.0"})
    record = records_of_run(pool([load_run(folder) for folder in folders]), "table-1")[
        0
    ]
    assert (record["commit"], record["command"]) == ("0123abc; 4567def", "spjax train")
    assert record["versions"] == {"jax": None}
    assert (record["seeds"], record["wall_seconds"]) == ([1, 2, 3, 4], 162.0)


def test_what_one_folder_does_not_know_is_unknown(make_run: MakeRun) -> None:
    folders = [make_run(seeds=(1, 2)), make_run(seeds=(3, 4), finished=False)]
    edit_config(folders[0], commit=None)
    pooled = pool([load_run(folder) for folder in folders])
    assert (pooled.config.commit, pooled.summary, pooled.trajectories) == (
        None,
        None,
        None,
    )


def test_other_experiments_are_not_pooled(make_run: MakeRun) -> None:
    runs = [
        load_run(make_run(seeds=(1,))),
        load_run(make_run(seeds=(2,), num_iterations=25, agent="sac")),
    ]
    different = "differ in agent, num_iterations, settings, so they cannot be pooled"
    with pytest.raises(ValueError, match=different):
        pool(runs)


def test_a_seed_counts_once(make_run: MakeRun) -> None:
    with pytest.raises(
        ValueError, match=r"each seed may be pooled once, got \[2\] twice"
    ):
        pool([load_run(make_run(seeds=(1, 2))), load_run(make_run(seeds=(2, 3)))])


def test_seeds_of_both_formats_are_pooled_although_they_spell_settings_in_different_ways(
    make_run: MakeRun,
) -> None:
    kept = load_run(CELLS / "ball-catching_trpo_default")
    settings = {**kept.config.settings, "teacher": {"spelled": "in another way"}}
    lanes = tuple(Lane(lane.seed + 100, lane.settings) for lane in kept.config.lanes)
    newer = dataclasses.replace(
        kept.config, lanes=lanes, settings=settings, format_version=FORMAT_VERSION
    )
    pooled = pool([kept, dataclasses.replace(kept, config=newer)])
    assert len(pooled.config.lanes) == 2 * len(lanes)
    newer = dataclasses.replace(newer, format_version=kept.config.format_version)
    with pytest.raises(
        ValueError, match="differ in settings, so they cannot be pooled"
    ):
        pool([kept, dataclasses.replace(kept, config=newer)])
