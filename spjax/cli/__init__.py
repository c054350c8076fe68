"""The command line: train, sweep, resume, evaluate, plot, list."""

from spjax.cli.app import main

__all__ = ["main"]
