"""Successive halving: who stops, that it is written down, and that a kill changes nothing of it."""

import dataclasses
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import spjax
from spjax.cli import main
from spjax.reports.animation import animation
from spjax.reports.series import all_series
from spjax.runs.cuts import Cut, active, read_cuts, write_cuts
from spjax.runs.read import load_run
from spjax.runs.schema import Lane
from spjax.training.halving import Halving, cuts
from spjax.training.train import restore
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run
from tests.training.test_rounds import Killed, killed_while_saving

pytestmark = pytest.mark.usefixtures("compiled_once")


def lanes(num_settings, num_seeds):
    """Returns the lanes of a sweep, seeds running fastest."""
    return [
        Lane(seed, {"agent.learning_rate": float(setting)})
        for setting in range(num_settings)
        for seed in range(1, num_seeds + 1)
    ]


def stopped(share, returns, num_seeds=1):
    """Returns the lanes that stop at a rung with these returns."""
    of = lanes(len(returns) // num_seeds, num_seeds)
    found = cuts(Halving(share, 5), 5, of, dict(enumerate(returns)))
    return sorted(lane for cut in found for lane in cut.lanes)


def test_the_lower_half_stops_by_the_mean_over_the_seeds():
    returns = [9, 0, 5, 5, 1, 1, 4, 3]  # means 4.5, 5, 1, 3.5
    assert stopped(0.5, returns, num_seeds=2) == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("share", "returns", "expected"),
    [
        (0.5, [1, 2, 3], [0]),  # of an odd number the larger half goes on
        (0.1, [1, 2, 3], [0, 1]),  # one goes on at least
        (0.5, [2, 1, 2, 2], [1]),  # a tie with the last one that goes on goes on
        (0.5, [1, 1, 1, 1], []),
        (0.5, [7], []),
        (0.5, [math.nan, 1, 2, math.inf], [0, 3]),
        (0.3, [math.nan, math.nan, 1], [0, 1]),
        (0.5, [math.nan, math.nan], []),
    ],
)
def test_who_stops(share, returns, expected):
    assert stopped(share, returns) == expected


def test_a_cut_says_how_far_behind_the_setting_was():
    returns = dict(enumerate([4.0, 6.0, 1.0, 2.0, 8.0, 8.0]))
    worst, *_ = cuts(Halving(0.6, 5), 10, lanes(3, 2), returns)
    assert worst == Cut(10, (2, 3), 1.5, pytest.approx(0.5 / math.sqrt(2)), 5.0, 3, 3)
    assert worst.why == "rank 3 of 3 after 10 iterations"


def test_cuts_come_back_from_their_file_and_a_damaged_one_is_one_sentence(tmp_path):
    assert read_cuts(tmp_path) == ()
    made = [Cut(5, (0, 1), None, None, 2.5, 4, 4), Cut(10, (4, 5), 1.0, 0.5, 2.0, 3, 3)]
    write_cuts(tmp_path, made)
    assert list(read_cuts(tmp_path)) == made
    assert active(made, 6, 5) == [0, 1, 2, 3, 4, 5]
    assert active(made, 6, 6) == [2, 3, 4, 5]
    assert active(made, 6, 11) == [2, 3]
    (tmp_path / "cuts.json").write_text("[{")
    with pytest.raises(
        ValueError, match=r"cuts.json is damaged .*delete it and resume"
    ):
        read_cuts(tmp_path)


@pytest.mark.parametrize(
    ("halving", "sentence"),
    [
        (Halving(1.0, 4), r"^halve must be a share .* between 0 and 1.* got 1.0$"),
        (Halving(0.5, 3), r"^every must be a multiple of evaluate_every, 2, .* got 3$"),
        (Halving(0.5, 0), r"^every must be a multiple of evaluate_every, 2, .* got 0$"),
        (Halving(0.5, 6), r"^every must be below num_iterations, 6, .* got 6$"),
        (0.5, r"^halving must be a Halving of spjax.training.halving, got 0.5$"),
    ],
)
def test_a_halving_that_cannot_be_is_one_sentence(halving, sentence):
    over = {"agent.learning_rate": (1e-4, 1e-3)}
    with pytest.raises(ValueError, match=sentence):
        tiny(over=over, halving=halving).check()


def test_halving_needs_something_to_choose_from():
    with pytest.raises(ValueError, match="it needs settings to choose from, got none"):
        tiny(halving=Halving(0.5, 2)).check()


SWEEP = tiny(
    seeds=(1, 2),
    over={"agent.learning_rate": (0.0, 1e-3, 1e-2)},
    halving=Halving(0.4, 2),
)


@pytest.fixture(scope="module")
def halved(tmp_path_factory):
    """The run folder of a sweep of three settings, of which two go on after two iterations, and one after four."""
    folder = tmp_path_factory.mktemp("halved") / "run"
    return spjax.train(SWEEP, folder, progress=False)


@pytest.mark.slow
def test_lanes_that_stop_have_no_rows_any_more_and_the_record_says_why(halved):
    made = read_cuts(halved)
    assert [(cut.iteration, cut.rank, cut.of) for cut in made] == [(2, 3, 3), (4, 2, 2)]
    evaluation = pq.read_table(halved / "evaluation").to_pydict()
    of_lane = {
        lane: sorted(
            iteration
            for iteration, other in zip(
                evaluation["iteration"], evaluation["lane"], strict=True
            )
            if other == lane
        )
        for lane in range(6)
    }
    last = {lane: cut.iteration for cut in made for lane in cut.lanes}
    for lane, iterations in of_lane.items():
        assert iterations == list(range(0, last.get(lane, 6) + 1, 2))
    at_rung = {
        lane: value
        for lane, iteration, value in zip(
            evaluation["lane"],
            evaluation["iteration"],
            evaluation["discounted_return"],
            strict=True,
        )
        if iteration == 2
    }
    means = [np.mean([at_rung[2 * i], at_rung[2 * i + 1]]) for i in range(3)]
    worst = int(np.argmin(means))
    assert made[0].lanes == (2 * worst, 2 * worst + 1)
    assert made[0].mean == pytest.approx(means[worst])


@pytest.mark.slow
def test_policies_of_stopped_lanes_stay_where_they_stopped(halved):
    stopped_at = {
        lane: cut.iteration for cut in read_cuts(halved) for lane in cut.lanes
    }
    _, program, states = restore(halved)
    iterations = program.to_host(program.layout.part(states, lambda s: s.iteration))
    assert iterations.tolist() == [stopped_at.get(lane, 6) for lane in range(6)]
    assert program.iteration(states) == 6
    seed, setting = SWEEP.lanes()[0].seed, SWEEP.lanes()[0].settings
    policy = spjax.load_policy(halved, seed, setting)
    assert policy.iteration == stopped_at.get(0, 6)


@pytest.mark.slow
def test_a_kill_changes_nothing_of_who_stops(halved, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    killed_while_saving(monkeypatch, 8)  # the second block on the way to iteration 4
    with pytest.raises(Killed):
        spjax.train(SWEEP, folder, progress=False, lanes_at_once=2)
    monkeypatch.undo()
    spjax.resume(folder, progress=False, lanes_at_once=1)
    assert read_cuts(folder) == read_cuts(halved)
    assert_same_run(halved, folder)


@pytest.mark.slow
def test_a_longer_run_makes_up_for_the_rung_at_its_old_end(halved, tmp_path):
    config = dataclasses.replace(SWEEP, num_iterations=4)
    folder = spjax.train(config, tmp_path / "run", progress=False)
    assert [cut.iteration for cut in read_cuts(folder)] == [2]
    spjax.resume(folder, progress=False, iterations=6)
    assert read_cuts(folder) == read_cuts(halved)
    assert_same_run(halved, folder)


@pytest.mark.slow
def test_evaluate_says_whose_policy_is_of_an_earlier_iteration(halved, capsys):
    main(["evaluate", str(halved), "--episodes", "2"])
    printed = capsys.readouterr().out
    assert "stopped" in printed
    made = read_cuts(halved)
    rows = [line.split() for line in printed.splitlines() if " all " in line]
    found = {row[1] for row in rows if row[1] != "all"}
    assert found == {str(cut.iteration) for cut in made}
    assert len(rows) == 3


@pytest.mark.slow
def test_a_report_shows_lanes_up_to_where_they_stopped(halved, tmp_path):
    file = tmp_path / "report.html"
    assert not main(["report", str(halved), "--no-film", "--out", str(file)])
    made = animation(all_series([load_run(halved)]))["lanes"]
    assert sorted(len(lane["frames"]) for lane in made) == [2, 2, 3, 3, 4, 4]
    assert file.stat().st_size > 10_000
