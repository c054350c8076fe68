"""What the terminal shows while a sweep trains."""

import math

import numpy as np
from jaxtyping import PyTree
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from spjax.training.experiment import Metrics
from spjax.training.program import Snapshot


class SweepProgress:
    """A bar with ETA, and the current return, KL to the target and alpha, as medians over the lanes.

    Where the output is no terminal it prints a line now and then instead.
    """

    def __init__(
        self, num_iterations: int, start: int, console: Console, shown: bool
    ) -> None:
        self._total, self._start, self._console, self._shown = (
            num_iterations,
            start,
            console,
            shown,
        )
        self._lines = shown and not console.is_terminal
        self._next_line = start
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("iteration {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.description}"),
            console=console,
            disable=not shown or self._lines,
            speed_estimate_period=math.inf,  # seconds; a chunk may take longer than any shorter period
        )
        self._task = self._bar.add_task("", total=num_iterations, completed=start)

    def __enter__(self) -> "SweepProgress":
        self._bar.start()
        return self

    def __exit__(self, *exception: PyTree) -> None:
        self._bar.stop()

    def update(self, iteration: int, metrics: Metrics, snapshot: Snapshot) -> None:
        """Shows the state after that many iterations."""
        text = describe(metrics, snapshot)
        self._bar.update(self._task, completed=iteration, description=text)
        if self._lines and (iteration >= self._next_line or iteration == self._total):
            self._console.print(
                f"iteration {iteration}/{self._total}  {text}",
                highlight=False,
                soft_wrap=True,
            )
            self._next_line = iteration + max(1, self._total // 20)

    def note(self, text: str) -> None:
        """Prints a line above the bar."""
        if self._shown:
            self._bar.console.print(text, highlight=False, soft_wrap=True)


def count(number: int, noun: str) -> str:
    """Returns "1 run", "2 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def describe(metrics: Metrics, snapshot: Snapshot) -> str:
    """Returns the numbers of a progress line; metrics [lane, iteration], snapshot [lane]."""
    parts = [f"return on target {np.median(snapshot.evaluation.discounted_return):.2f}"]
    recent = metrics.discounted_return.value[:, -1][
        metrics.discounted_return.present[:, -1]
    ]
    if recent.size:
        parts.append(f"on curriculum {np.median(recent):.2f}")
    for name, label in (("kl_to_target", "KL to target"), ("alpha", "alpha")):
        values = getattr(metrics.teacher, name, None)
        if values is not None and not math.isnan(
            value := float(np.median(values[:, -1]))
        ):
            parts.append(f"{label} {value:.3g}")
    frozen = int(metrics.frozen[:, -1].sum())
    return "  ".join(parts) + (f"  [red]{frozen} frozen[/red]" if frozen else "")
