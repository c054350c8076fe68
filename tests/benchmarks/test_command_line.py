import shlex
import sys
from pathlib import Path

from benchmarks import command_line
from spjax.runs.results import read_records

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_records_name_the_flags_that_a_measurement_ran_with(monkeypatch):
    monkeypatch.setattr(
        sys,
        "argv",
        ["/somewhere/benchmarks/engines.py", "--throws", "20", "--results", "a b.json"],
    )
    assert (
        command_line("benchmarks.engines")
        == "python -m benchmarks.engines --throws 20 --results 'a b.json'"
    )


def test_records_name_runs_as_they_are_called_on_every_machine(monkeypatch):
    words = [
        "replay",
        "/here/clone/runs/paper/a",
        "runs/b",
        "--results",
        "/there/c.json",
    ]
    monkeypatch.setattr(sys, "argv", ["ball_in_a_cup.py", *words])
    said = command_line("benchmarks.ball_in_a_cup")
    assert said.endswith(" replay runs/paper/a runs/b --results c.json")


def test_no_record_names_a_folder_of_the_machine_that_made_it():
    commands = [
        (file.name, word)
        for file in RESULTS.glob("*.json")
        for record in read_records(file)
        for word in shlex.split(record["command"] or "")
    ]
    assert len(commands) > 1000
    assert [one for one in commands if Path(one[1]).is_absolute()] == []
