"""The command line: train, sweep, resume, evaluate, plot, render, list."""

from spjax.cli.app import main

__all__ = ["main"]
