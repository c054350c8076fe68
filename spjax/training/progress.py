"""What the terminal shows while a sweep trains."""

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta

import numpy as np
from jaxtyping import Bool, Float, PyTree
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from spjax.runs.cuts import Cut
from spjax.runs.schema import Lane
from spjax.teachers.base import Teacher
from spjax.training.experiment import Metrics
from spjax.training.program import Snapshot

_MOST_NAMED = 4  # lanes in a line
PATIENCE = 20.0  # seconds, after which something is to be seen
WIDE = 110  # columns, from which on there is room for a bar and the time elapsed


class SweepProgress:
    """A line with ETA, and the current return, KL to the target and alpha, as medians over the lanes.

    In a narrow terminal the latter are cut, never iteration and ETA. Where the output is no terminal a line is printed now and
    then instead.
    """

    def __init__(
        self, num_iterations: int, start: int, console: Console, shown: bool
    ) -> None:
        self.shown = shown
        self._total, self._console = num_iterations, console
        self._lines = shown and not console.is_terminal
        self._next_line = start
        wide = console.width >= WIDE
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn(
                "iteration {task.completed:.0f}/{task.total:.0f}", table_column=_whole()
            ),
            *(
                [BarColumn(20), TimeElapsedColumn(table_column=_whole())]
                if wide
                else []
            ),
            _ETA(table_column=_whole()),
            _Numbers(),
            console=console,
            disable=not shown or self._lines,
            speed_estimate_period=math.inf,  # seconds; a chunk may take longer than any shorter period
        )
        self._task = self._bar.add_task("", total=num_iterations, completed=start)
        self._start, self._said = start, time.monotonic()

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
                f"iteration {iteration}/{self._total}  {eta(self._bar.tasks[0])}  {text}",
                highlight=False,
                soft_wrap=True,
            )
            self._next_line = iteration + max(1, self._total // 20)
            self._said = time.monotonic()
        self._start = iteration

    def part(self, target: int, done: int, of: int) -> None:
        """Shows that so many lanes have got to the target, the iteration after the last one that was shown.

        Without a terminal that is a line after the first `PATIENCE` seconds without one.
        """
        way = (target - self._start) * done / of
        self._bar.update(self._task, completed=self._start + way)
        if self._lines and done < of and time.monotonic() - self._said > PATIENCE:
            self._console.print(
                f"iteration {self._start}/{self._total}  {eta(self._bar.tasks[0])}  "
                f"{done} of {count(of, 'run')} at iteration {target}",
                highlight=False,
                soft_wrap=True,
            )
            self._said = time.monotonic()

    def note(self, text: str) -> None:
        """Prints a line above the bar."""
        if self.shown:
            self._bar.console.print(text, highlight=False, soft_wrap=True)


class _ETA(ProgressColumn):
    """The time left."""

    def render(self, task: Task) -> Text:
        return Text(eta(task))


class _Numbers(ProgressColumn):
    """The numbers, which give way where the line is too long."""

    def render(self, task: Task) -> Text:
        text = Text.from_markup(task.description)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def _whole() -> Column:
    """Returns a column that is never cut."""
    return Column(no_wrap=True)


def eta(task: Task) -> str:
    """Returns "ETA 0:12:40"; without a number until two chunks are done."""
    left = None if task.finished else task.time_remaining
    known = "-:--:--" if left is None else str(timedelta(seconds=int(left)))
    return f"ETA {'0:00:00' if task.finished else known}"


def count(number: int, noun: str) -> str:
    """Returns "1 run", "2 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def standstill(
    teachers: Iterable[Teacher],
    iteration: int,
    returns: Float[np.ndarray, " lane"],
    present: Bool[np.ndarray, " lane"],
) -> str | None:
    """Returns one sentence where no curriculum of the run moves, for one reason, in the last iteration; None elsewhere.

    Args:
        teachers: one a lane, with the settings of the lane; asked for one by one, up to the first that may move.
        iteration: the last one.
        returns: mean discounted return of its episodes.
        present: whether there were any.
    """
    said: str | None = None
    for why in _reasons(teachers, iteration, returns, present):
        if why is None or said not in (None, why):
            return None
        said = why
    return said


def ended_at_a_standstill(
    teachers: Iterable[Teacher],
    iteration: int,
    returns: Float[np.ndarray, " lane"],
    present: Bool[np.ndarray, " lane"],
) -> str | None:
    """Returns one sentence about the lanes whose curriculum does not move at the end, None where each may; as `standstill`."""
    every = list(_reasons(teachers, iteration, returns, present))
    still = [why for why in every if why is not None]
    if not still:
        return None
    commonest, number = Counter(still).most_common(1)[0]
    of = f"{len(still)} of {count(len(every), 'run')} ended at a standstill"
    return f"{of}: {commonest}" + ("" if number == len(still) else f" ({number} runs)")


def _reasons(
    teachers: Iterable[Teacher],
    iteration: int,
    returns: Float[np.ndarray, " lane"],
    present: Bool[np.ndarray, " lane"],
) -> Iterator[str | None]:
    for teacher, value, known in zip(teachers, returns, present, strict=True):
        yield teacher.still(iteration, float(value)) if known else None


def newly_frozen(
    frozen: Collection[int], said: Collection[int], lanes: Sequence[Lane]
) -> str | None:
    """Returns one sentence about lanes that are frozen and were not before, None where there are none."""
    new = [lane for lane in frozen if lane not in said]
    if not new:
        return None
    return (
        f"frozen, because the parameters became non-finite: {_some(new, lanes)}; "
        "it stays as it was before, the others go on"
        if len(new) == 1
        else f"frozen, because their parameters became non-finite: {_some(new, lanes)}; "
        "they stay as they were before, the others go on"
    )


def newly_stopped(cuts: Sequence[Cut], lanes: Sequence[Lane]) -> str:
    """Returns one sentence about the settings that stop at a rung."""
    left = cuts[0].of - len(cuts)
    best = max(cuts, key=lambda cut: -cut.rank)
    kept, mean = (
        "not finite" if value is None else f"{value:.2f}"
        for value in (best.kept, best.mean)
    )
    return (
        f"iteration {best.iteration}: {count(len(cuts), 'setting')} of {best.of} "
        f"stopped, {left} go on; the last of these has a return of {kept}, the first that stopped {mean}"
    )


def _some(numbers: Sequence[int], lanes: Sequence[Lane]) -> str:
    """Returns seeds and settings of lanes, of many those of the first."""
    names = []
    for number in numbers[:_MOST_NAMED]:
        lane = lanes[number]
        swept = "".join(
            f", {name.rpartition('.')[2]} = {value}"
            for name, value in lane.settings.items()
        )
        names.append(f"seed {lane.seed}{swept}")
    more = len(numbers) - len(names)
    return "; ".join(names) + (f" and {count(more, 'run')} more" if more else "")


def describe(metrics: Metrics, snapshot: Snapshot) -> str:
    """Returns the numbers of a progress line; metrics [lane, iteration], snapshot [lane]."""
    frozen = int(metrics.frozen[:, -1].sum())
    parts = [f"[red]{frozen} frozen[/red]"] if frozen else []
    parts += [
        f"return on target {np.median(snapshot.evaluation.discounted_return):.2f}"
    ]
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
    return "  ".join(parts)
