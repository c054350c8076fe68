"""The command for wide tasks: what is trained, and how fresh episodes are held against what was kept."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.wide_tasks import METHODS, config_of, kept_constraint
from spjax.runs.read import Curves

NAN = np.nan
COLUMNS = {
    "constraint_kept": [[NAN, NAN, 1.0, 0.0], [NAN] * 4],
    "observed_success": [[NAN, 0.6, 0.7, 0.4], [NAN, 0.1, NAN, 0.2]],
    "kl_to_target": [[5.0, 5.0, 4.0, 3.0], [5.0] * 4],
}


def test_the_means_are_over_the_updates_after_one_that_kept_the_rate():
    run = SimpleNamespace(
        groups=lambda: ["all"],
        metric_curves=lambda column, group: Curves(
            np.arange(1, 5), np.array(COLUMNS[column.removeprefix("teacher.")])
        ),
        config=SimpleNamespace(settings={"teacher": {"success_rate": 0.5}}),
    )
    kept, margin, distance = kept_constraint(run).values()
    np.testing.assert_array_equal(kept, [0.5, NAN])
    np.testing.assert_allclose(margin, [0.05, NAN])
    np.testing.assert_array_equal(distance, [3.0, 5.0])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_measured_on_the_uniform_distribution(method):
    config = config_of("point-mass-3d", method, 2, iterations=7)
    config.check()
    assert (config.seeds, config.num_iterations) == ((1, 2), 7)
    target = config.resolved.teacher.aims_at
    np.testing.assert_array_equal([target.a, target.b], np.ones((2, 3)))
