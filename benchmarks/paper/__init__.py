"""The published tables and figures, made again: ``python -m benchmarks.paper NAME``."""
