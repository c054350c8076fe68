"""The comparison of Brax's PPO with and without a teacher: what is kept, resumed and recorded. Its numbers are made up."""

import pytest

from benchmarks import brax_teacher
from benchmarks.brax_teacher import Trained
from spjax.runs.results import read_records


@pytest.fixture
def trained(monkeypatch):
    """Returns the seeds that are trained, of which the third of the default curriculum is cut once."""
    started, cut = [], [("default", 3)]

    def train(name, seed, iterations, evaluations):
        started.append((name, seed))
        if (name, seed) in cut:
            cut.remove((name, seed))
            raise KeyboardInterrupt
        best = 10.0 if name == "self-paced" else 2.0
        steps = [2048 * iterations * k // evaluations for k in range(evaluations + 1)]
        curve = [best * k / evaluations + seed for k in range(evaluations + 1)]
        values = {
            "discounted_return": curve,
            "success_rate": [float(value > 8) for value in curve],
        }
        return Trained(steps, values, 60.0, "none", {"brax": "0"}, None, iterations)

    monkeypatch.setattr(brax_teacher, "_train", train)
    return started


def test_what_was_cut_goes_on_with_the_seed_that_is_missing(trained, tmp_path):
    def run():
        brax_teacher.main(
            seeds=3,
            iterations=8,
            evaluations=2,
            results=tmp_path / "results",
            runs=tmp_path / "runs",
        )

    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(trained) == 6
    assert not (tmp_path / "results").exists()
    run()
    assert trained[6:] == [("default", 3)]
    run()
    assert len(trained) == 7

    records = read_records(tmp_path / "results" / "brax-teacher.json")
    assert len(records) == 2 * 2 * 3  # teachers, metrics, evaluations
    (final,) = [
        entry
        for entry in records
        if (entry["teacher"], entry["metric"], entry["iterations"])
        == ("self-paced", "discounted_return", 8)
    ]
    assert final["values"] == [11.0, 12.0, 13.0]
    assert final["wall_seconds"] == 180.0
    picture = tmp_path / "results" / "pictures" / "brax-teacher" / "curves.png"
    assert picture.stat().st_size > 10_000


def test_evaluations_that_do_not_divide_the_iterations_are_one_sentence(tmp_path):
    with pytest.raises(SystemExit, match="evaluations must divide the 400 iterations"):
        brax_teacher.main(evaluations=7, results=tmp_path, runs=tmp_path)


def test_a_budget_of_its_own_is_not_mixed_with_another(trained, tmp_path):
    for iterations in (2, 4):
        brax_teacher.main(1, iterations, 2, tmp_path / "results", tmp_path / "runs")
    assert len(trained) == 4
