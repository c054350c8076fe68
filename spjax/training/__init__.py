"""Experiments, sweeps over seeds and settings, run folders."""

from spjax.training.experiment import Experiment, RunState

__all__ = ["Experiment", "RunState"]
