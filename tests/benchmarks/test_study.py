"""The study of alpha schedules: how many runs, and what halving would have chosen."""

import numpy as np
import pytest

from benchmarks.study import (
    MAX_KL,
    RETURN,
    SWEEPS,
    Curves,
    config_of,
    count_of,
    halved,
    halving_outcomes,
)
from spjax.training.halving import Halving

ITERATIONS = np.arange(0, 401, 50)
SETTINGS = tuple({"teacher.schedule.zeta": zeta} for zeta in (0.1, 0.2, 0.4, 0.8))


def curves(*finals_and_dips: tuple[float, float]) -> Curves:
    """Returns straight lines to each final return, the same for 8 seeds, lowered by the dip up to iteration 100."""
    lines = [
        final * ITERATIONS / 400 - dip * (ITERATIONS <= 100)
        for final, dip in finals_and_dips
    ]
    returns = np.repeat(np.array(lines)[:, None], 8, axis=1)
    return Curves(SETTINGS, ITERATIONS, returns)


def test_the_whole_study_has_at_least_2_000_runs():
    configs = [config_of(name, "point-mass-3d", 20) for name in SWEEPS]
    for config in configs:
        config.check()
    assert sum(len(config.lanes()) for config in configs) == 2_100


@pytest.mark.parametrize("name", [name for name in SWEEPS if name != "bound"])
def test_a_sweep_has_its_own_trust_region(name):
    config = config_of(name, "point-mass-2d", 2, iterations=5)
    assert config.teacher.max_kl == SWEEPS[name].settings[MAX_KL]
    assert (config.seeds, config.num_iterations) == ((1, 2), 5)


def test_halving_stops_half_at_every_rung_and_counts_what_was_trained():
    grid = curves((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0))
    chosen = halved(grid, [0, 1], Halving(0.5, 100))
    assert chosen.settings == (3,)
    # four settings up to 100, two up to 200, one up to 400
    assert chosen.share_of_iterations == (4 * 100 + 2 * 100 + 200) / (4 * 400)


def test_only_the_seeds_that_choose_are_looked_at():
    grid = curves((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0))
    grid.returns[0, 5] = 100.0
    assert halved(grid, [5], Halving(0.5, 100)).settings == (0,)
    assert halved(grid, [0, 1, 2], Halving(0.5, 100)).settings == (3,)


def test_who_pays_late_is_lost_by_an_early_rung_and_kept_by_a_later_one():
    grid = curves((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 9.0))
    found = halving_outcomes(grid)
    loss, share = (
        "return below the whole grid's choice",
        "share of the grid's iterations",
    )
    assert found[f"halving every 50: {loss}"] == [1.0] * 4
    assert found[f"halving every 200: {loss}"] == [0.0] * 4
    assert found[f"halving every 200: {share}"] == [0.75] * 4


def test_runs_are_counted_once_whatever_is_measured_of_them():
    of_runs = {"metric": RETURN, "seeds": [1, 2, 3]}
    others = {"metric": "iterations_to_threshold", "seeds": [1, 2, 3]}
    (value,) = count_of([of_runs, of_runs, others], "")["values"]
    assert value == 6
