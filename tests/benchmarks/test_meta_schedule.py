"""The command that holds a learned schedule against constants: what is trained, and what is compared."""

import numpy as np

from benchmarks.meta_schedule import (
    GRID,
    ZETA,
    config_of_grid,
    config_of_learned,
    records_of,
)
from spjax.runs.read import load_run
from spjax.self_paced.smooth import SmoothProportion

LEARNED = SmoothProportion(1.5, 2.5, 3.0)


def test_both_trainings_differ_from_the_preset_in_the_schedule_alone():
    grid = config_of_grid(2, iterations=7)
    learned = config_of_learned(LEARNED, 2, iterations=7)
    for config in (grid, learned):
        config.check()
        assert (config.seeds, config.num_iterations) == ((1, 2), 7)
    assert len(grid.lanes()) == 2 * len(GRID) == 40
    assert learned.teacher.schedule == LEARNED
    assert learned.teacher.changed(schedule=grid.teacher.schedule) == grid.teacher


def test_the_learned_schedule_is_compared_with_the_best_constant_seed_by_seed(make_run):
    swept = tuple({ZETA: zeta} for zeta in (0.4, 1.6))
    grid = load_run(make_run(swept=swept, num_iterations=100))
    learned = load_run(make_run(num_iterations=100))
    learned.config.settings["teacher"]["schedule"] |= {"offset": 2.5, "width": 3.0}
    records = {record["metric"]: record for record in records_of(grid, learned)}
    for metric in ("return at the end", "return, mean over a training"):
        constant = records[f"{metric}, constant zeta"]  # the last one
        found = records[f"{metric}, learned schedule"]
        less = records[f"{metric}, learned less the best constant"]
        assert constant["settings"] == {ZETA: 1.6}
        assert less["settings"] == {"constants": 2}
        assert found["settings"]["teacher.schedule.offset"] == 2.5
        difference = np.subtract(found["values"], constant["values"])
        np.testing.assert_allclose(less["values"], difference)
    assert len(records_of(grid, learned)) == 8
