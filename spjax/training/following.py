"""Following a run from Python: what a callback is told after each chunk of iterations, and how it stops the run."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import PyTree

from spjax.runs import folder as layout
from spjax.runs.schema import Lane
from spjax.training.config import RunConfig
from spjax.training.lanes import Lanes
from spjax.training.program import Program
from spjax.training.rounds import Results


class Report:
    """A run after a chunk of iterations, which is in its folder already."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        iteration: int,
        results: Results,
        states: Callable[[], tuple[Program, Lanes]],
    ) -> None:
        self.folder = folder
        self.config = config
        self.iteration = iteration  # iterations completed
        self.going_on = tuple(results.lanes)  # numbers of the lanes that got here
        self.metrics = (
            results.metrics
        )  # [lane that got here, iteration of the chunk, ...]
        self.evaluation = results.snapshot.evaluation  # [lane that got here]
        self.contexts = results.snapshot.contexts  # [lane that got here, sample, dim]
        self._states: Callable[[], tuple[Program, Lanes]] | None = states
        self._stopped = False

    @property
    def lanes(self) -> list[Lane]:
        """Seed and settings of each lane of the run."""
        return self.config.lanes()

    @property
    def last(self) -> bool:
        """Whether the run ends here."""
        return self._stopped or self.iteration >= self.config.num_iterations

    def stop(self) -> None:
        """Ends the run here: it is saved, and `spjax.resume` goes on with it."""
        self._stopped = True

    def agent_states(self) -> PyTree:
        """Returns the agents' states on the host, arrays [lane that got here, ...]; they are fetched when asked for.

        Raises:
            ValueError: the callback is over.
        """
        return self._on_host("agent_state")

    def teacher_states(self) -> PyTree:
        """Returns the teachers' states likewise."""
        return self._on_host("teacher_state")

    def rows(self, lane: int) -> Iterator[tuple[int, dict[str, float]]]:
        """Yields each iteration of the chunk and its numbers, by the names of the run folder's columns.

        The last one has those of the evaluation too, "evaluation.discounted_return" and so on. What is missing, such as a mean
        over no episodes, or no single number, is left out. A lane that has stopped has no rows any more.
        """
        if lane not in self.going_on:
            return
        place, num_lanes = self.going_on.index(lane), len(self.going_on)
        count = self.metrics.frozen.shape[1]
        training = _columns(self.metrics, num_lanes, count)
        evaluation = _columns(
            jax.tree.map(lambda leaf: leaf[:, None], self.evaluation), num_lanes, 1
        )
        for number in range(count):
            row = {name: values[place, number] for name, values in training.items()}
            if number == count - 1:
                row |= {
                    f"evaluation.{name}": values[place, 0]
                    for name, values in evaluation.items()
                }
            iteration = self.iteration - count + 1 + number
            if self.config.steps_per_iteration is not None:
                row["environment_steps"] = iteration * self.config.steps_per_iteration
            present = {name: float(x) for name, x in row.items() if np.isfinite(x)}
            yield iteration, present

    def close(self) -> None:
        """Lets go of the states, which the next iterations overwrite."""
        self._states = None

    def _on_host(self, part: str) -> PyTree:
        if self._states is None:
            raise ValueError(
                "the states of a run can be read during the callback only; copy what you need"
            )
        program, states = self._states()
        chosen = program.layout.part(states, lambda state: getattr(state, part))
        return program.to_host(chosen)


Callback: TypeAlias = Callable[[Report], object]


@dataclasses.dataclass(frozen=True)
class Followers:
    """The callbacks of a run."""

    callbacks: tuple[Callback, ...]

    @classmethod
    def of(cls, given: object) -> "Followers":
        """Returns those that were given, one, several or none.

        Raises:
            ValueError: one of them cannot be called.
        """
        several = given if isinstance(given, Sequence) else (given,)
        callbacks: list[Callback] = []
        for callback in several:
            if callback is None:
                continue
            if not callable(callback):
                raise ValueError(
                    f"callback needs a function of a report, or several, got {callback!r}"
                )
            callbacks.append(callback)
        return cls(tuple(callbacks))

    def told(self, report: Report) -> bool:
        """Tells everyone; says whether one of them stopped the run."""
        try:
            for callback in self.callbacks:
                callback(report)
            return report.last
        finally:
            report.close()


def _columns(tree: PyTree, lanes: int, count: int) -> dict[str, np.ndarray]:
    """Returns the numbers [lane, iteration] of metrics, NaN where one is missing; what has more axes is left out."""
    found = {}
    for name, column in layout.tidy(tree).items():
        if isinstance(column, np.ndarray):
            values = column
        elif str(column.type).startswith("list"):
            continue
        else:
            values = column.to_numpy(zero_copy_only=False)
        found[name] = np.asarray(values, float).reshape(lanes, count)
    return found
