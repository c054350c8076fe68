"""The study of the critic's value: what is measured, and what is read again."""

import json

import numpy as np
import pytest

from benchmarks.critic import SOURCES, TASKS, config_of, numbers_of, read_rows


def test_mean_values_mean_returns_and_the_spread_of_what_is_between():
    found = numbers_of(np.array([3.0, 5.0, 7.0]), np.array([2.0, 4.0, 0.0]))
    assert float(found["value"]) == 5.0
    assert float(found["return"]) == 2.0
    # errors 1, 1, 7; returns 2, 4, 0
    assert float(found["spread"]) == pytest.approx(np.sqrt(8) / np.sqrt(8 / 3))


def test_what_was_measured_twice_counts_once_and_what_is_missing_is_nan(tmp_path):
    file = tmp_path / "rows.jsonl"
    numbers = {"return": 0.5, "spread": 1.0}
    rows = [
        {"lane": 0, "iteration": 20, "value": 1.0, **numbers},
        {"lane": 1, "iteration": 20, "value": 2.0, **numbers},
        {"lane": 0, "iteration": 40, "value": 3.0, **numbers},
        {"lane": 0, "iteration": 40, "value": 4.0, **numbers},  # after a cut
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_rows(file, lanes=2)
    np.testing.assert_array_equal(found["value"], [[1.0, 4.0], [2.0, np.nan]])
    np.testing.assert_array_equal(found["iteration"], [20, 40])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_training_asks_the_source_it_is_about(task, source):
    config = config_of(task, source, 3, iterations=20)
    config.check()
    assert config.teacher.value_source == source
    assert (config.seeds, config.num_iterations) == ((1, 2, 3), 20)
