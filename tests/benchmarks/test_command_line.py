import sys

from benchmarks import command_line


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
