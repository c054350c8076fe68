"""How many small faults the tests notice: see `benchmarks.mutants.__main__`."""
