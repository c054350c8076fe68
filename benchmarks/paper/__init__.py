"""The published tables, made again: ``python -m benchmarks.paper NAME``."""
