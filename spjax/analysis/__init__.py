"""Statistics, tables and pictures, from run folders alone; nothing here trains, and only `device` touches JAX."""

from spjax.analysis.run import Curves, Run, RunConfig, load_run

__all__ = ["Curves", "Run", "RunConfig", "load_run"]
