"""Timings of the peer and how their records are named."""

from pathlib import Path

import pytest

from benchmarks.speed.peers.timing import PeerTiming, metric_names
from spjax.runs.results import read_records

RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "peer-ppo.json"


@pytest.fixture
def timing() -> PeerTiming:
    """Returns four iterations of 3 s, 2 s of which are the learner's."""
    return PeerTiming(
        seed=7,
        agent_seconds=(2.0, 2.0, 1.5, 2.5),
        teacher_seconds=(1.0, 1.0, 1.0, 1.0),
        total_seconds=12.0,
        mean_returns=(0.5, 1.0, 1.5, 2.0),
    )


def test_a_whole_run_counts_as_it_was_measured(timing: PeerTiming) -> None:
    assert (timing.seconds(4), timing.seconds_of_agent(4)) == (12.0, 8.0)


def test_a_shorter_run_is_scaled_by_its_mean_seconds_an_iteration(
    timing: PeerTiming,
) -> None:
    assert (timing.seconds(400), timing.seconds_of_agent(400)) == (1200.0, 800.0)


def test_the_report_has_a_line_for_each_iteration_and_the_sums(
    timing: PeerTiming,
) -> None:
    lines = timing.report("Stable-Baselines3 SAC").splitlines()
    assert lines[0] == "seed 7, Stable-Baselines3 SAC on one thread"
    assert lines[4].split() == ["2", "1.500", "1.000", "1.50"]
    assert lines[-1] == "total 12.00 s: agent 8.00 s, teacher 4.00 s"
    assert len(lines) == 7


def test_an_extrapolated_metric_says_from_how_many_iterations() -> None:
    peer, agent, ratio = metric_names(peer_iterations=100, iterations=400)
    assert peer == "stable-baselines3 + scipy: seconds an iteration (first 100) x 400"
    assert agent == "stable-baselines3 alone: seconds an iteration (first 100) x 400"
    assert ratio == "ratio, peer's seconds an iteration (first 100) x 400"


def test_metrics_of_whole_runs_are_named_as_in_the_committed_records() -> None:
    committed = {entry["metric"] for entry in read_records(RECORDS)}
    assert set(metric_names(peer_iterations=400, iterations=400)) == committed - {
        "spjax: wall seconds a seed"
    }
