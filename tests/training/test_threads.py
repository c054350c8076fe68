"""Trainings in threads of one process do not meet."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import spjax
from spjax.cores import num_cores, share_of_cores, working
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run


@pytest.mark.slow
def test_two_trainings_in_threads_end_with_the_bits_of_one_alone(finished, tmp_path):
    together = threading.Barrier(2, timeout=60)

    def train(name):
        together.wait()
        return spjax.train(tiny(), tmp_path / name, progress=False)

    with ThreadPoolExecutor(2) as threads:
        for folder in threads.map(train, ("one", "other")):
            assert_same_run(finished, folder)


def test_lanes_that_compute_at_the_same_time_share_the_cores(monkeypatch):
    monkeypatch.setattr(
        "os.sched_getaffinity", lambda process: set(range(12)), raising=False
    )
    assert share_of_cores() == num_cores() == 12
    with working(2):
        assert share_of_cores() == 6
        with working(1):  # of another training
            assert share_of_cores() == 4
        with working(20):
            assert share_of_cores() == 1
        assert share_of_cores() == 6
    assert share_of_cores() == 12
