"""What the ant and its wall do, measured: ``python -m benchmarks.ant walls`` and ``python -m benchmarks.ant ablation``."""
