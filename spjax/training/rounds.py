"""All lanes of a run, taken together from one evaluation to the next: at once, or block by block.

A block's states go to its checkpoint with what the block wrote, so a killed run loses at most a block's chunk. Blocks are no part
of the result: they may be others after a resume, and on CPU a lane has the same bits in any of them.
"""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeAlias

import jax
import numpy as np

from spjax.runs.checkpoint import Checkpoints
from spjax.training.config import RunConfig
from spjax.training.engines.base import Chunk, Workers
from spjax.training.experiment import Metrics
from spjax.training.footprint import Plan, plan
from spjax.training.lanes import Calls, Lanes
from spjax.training.newest import newest, unreadable_after
from spjax.training.program import Program, Snapshot
from spjax.training.speed import known_seconds, remember
from spjax.trees import by_path

UNTIL_SEEN = 60.0  # seconds, until a shared file system shows what is saved
BEFORE = -1  # the iteration of a run that does not even have its first evaluation


class Results(NamedTuple):
    """What a chunk of iterations says, on the host."""

    lanes: Sequence[int]  # whose rows they are
    metrics: Metrics  # [lane, iteration, ...]
    snapshot: Snapshot  # [lane, ...]


Write: TypeAlias = Callable[[Results], object]
Told: TypeAlias = Callable[
    [int, int], object
]  # how many lanes are through, of how many


class Rounds:
    """The states of all lanes, on the devices or in checkpoints."""

    def __init__(
        self,
        config: RunConfig,
        checkpoints: Checkpoints,
        at_once: int | None,
        workers: Workers | None = None,
    ) -> None:
        self.iteration = BEFORE  # that all lanes which go on have behind them
        self._length = min(config.evaluate_every, config.num_iterations)
        self._config, self._checkpoints = config, checkpoints
        self._workers = workers  # that go through the blocks; None for this process
        self._lanes = config.lanes()
        self._on_devices: dict[tuple[int, ...], Lanes] = {}
        self._busy = [0.0, 0.0]  # seconds of workers, and lanes x iterations in them
        self._first = Program.of(config.experiments(self._lanes[:1]))
        self.plan: Plan = plan(self._first, self._length, len(self._lanes), at_once)

    def program(self, lanes: Sequence[int]) -> Program:
        """Returns the program of these lanes, which shares what is compiled with the others."""
        experiments = self._config.experiments([self._lanes[lane] for lane in lanes])
        return self._first.of_others(experiments, self._room(len(lanes)))

    def compile(self, lanes: Sequence[int]) -> tuple[Program, float]:
        """Compiles for blocks of these lanes; returns the program of the first one and the seconds that it took."""
        program = self.program(self.blocks(lanes)[0])
        _, seconds = program.compile(self._length)
        return program, seconds

    @property
    def workers(self) -> tuple[int, str]:
        """How many lanes run at the same time, and what a lane runs on."""
        if self._workers is not None:
            return self._workers.workers
        return type(self._first.layout)(self.plan.at_once).workers

    def blocks(self, lanes: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the lanes in blocks."""
        size = self.plan.at_once
        return [tuple(lanes[i : i + size]) for i in range(0, len(lanes), size)]

    def seconds_left(self, lanes: Sequence[int], num_iterations: int) -> float | None:
        """Returns how long the rest takes with these lanes, as far as the machine trained such a program before."""
        known = known_seconds(self._first, self._length)
        left = len(lanes) * (num_iterations - max(self.iteration, 0))
        return None if known is None else left * known / self.workers[0]

    def remember_speed(self) -> None:
        """Keeps the speed of what was trained here for the next time."""
        seconds, done = self._busy
        if done:
            remember(self._first, self._length, seconds / done)

    def restore(
        self, active: Callable[[int], Sequence[int]], written: Collection[int]
    ) -> list[str]:
        """Goes back to the newest iteration that all lanes have, where there is one; returns what cannot be read of newer ones.

        Args:
            active: the lanes that get to an iteration.
            written: the iterations whose results are in the tables.

        Raises:
            ValueError: there are checkpoints, and none can be read.
        """
        kinds = self._first.kinds()
        found = newest(self._checkpoints, kinds, active, written)
        self.iteration = BEFORE if found is None else found
        return unreadable_after(self._checkpoints, self.iteration, kinds)

    def discard_after(self, target: int) -> None:
        """Removes newer checkpoints than this iteration's, but for sound blocks that are on the way to the target."""
        self._checkpoints.discard_after(self.iteration, but=target)
        self._checkpoints.discard_unreadable(target, self._first.kinds())

    def advance(
        self,
        target: int,
        lanes: Sequence[int],
        write: Write,
        *,
        told: Told,
        say: Callable[[str], object],
        between: Callable[[], object],
    ) -> Results:
        """Takes these lanes to an iteration, evaluates and saves them; blocks that are there stay.

        Args:
            target: the iteration.
            lanes: those that go there.
            write: writes the results of all of them; the states are saved afterwards.
            told: is told how many lanes are there already; from any thread.
            say: is told when memory runs out and smaller blocks are tried.
            between: called between two blocks, where it may raise: the first one is saved.

        Raises:
            OSError: something cannot be written; what was saved before stays.
            MemoryError: there is not enough for a single lane.
        """
        there = self._checkpoints.lanes(target)
        todo = [lane for lane in lanes if lane not in there]
        counter = _Counter(len(lanes) - len(todo), len(lanes), told)
        if self._workers is None:
            written = self._through_all(target, todo, write, counter, say, between)
        else:
            chunk = Chunk(self.iteration, target)
            self._workers.take(chunk, todo, told=counter.more, say=say, between=between)
            self._checkpoints.wait_for(target, lanes, UNTIL_SEEN)
            written = None
        if written is None:
            written = self._together(target, lanes)
            write(written)
        self.iteration = target
        return written

    def share(
        self, chunk: Chunk, lanes: Sequence[int], say: Callable[[str], object]
    ) -> None:
        """Takes these lanes through a chunk and saves them in blocks, for another process that leads.

        Raises:
            OSError, MemoryError: as for `advance`.
        """
        if chunk.iteration != self.iteration:
            self._on_devices.clear()
        self.iteration = chunk.iteration
        counter = _Counter(0, len(lanes), lambda done, of: None)
        self._through_all(chunk.target, lanes, None, counter, say, lambda: None)
        self.iteration = chunk.target

    def _through_all(
        self,
        target: int,
        todo: Sequence[int],
        write: Write | None,
        counter: "_Counter",
        say: Callable[[str], object],
        between: Callable[[], object],
    ) -> Results | None:
        """Goes through block after block; returns the results where all lanes are one block and are written."""
        num_todo, start = len(todo), counter.done
        kept, self._on_devices = self._on_devices, {}
        written = None
        while todo:
            block = self.blocks(todo)[0]
            try:
                program, states, results = self._through(block, kept, target, counter)
            except (jax.errors.JaxRuntimeError, MemoryError) as error:
                if not _out_of_memory(error):
                    raise
                kept.clear()
                self._on_devices.clear()
                counter.done = start + num_todo - len(todo)
                say(self._smaller(block, error))
                continue
            if write is not None and len(block) == len(self._lanes):
                write(results)
                self._checkpoints.save(target, program.to_arrays(states))
                written = results
            else:
                arrays = program.to_arrays(states) | _named(results)
                self._checkpoints.save_block(target, block, arrays)
            if self.plan.resident or len(block) == num_todo:
                self._on_devices[block] = states
            todo = todo[len(block) :]
            if todo:
                between()
        return written

    def states(
        self, lanes: Sequence[int], iteration: int | None = None
    ) -> tuple[Program, Lanes]:
        """Returns the program of these lanes and their states at an iteration, the newest one if it is None."""
        program = self.program(lanes)
        if iteration in (None, self.iteration) and tuple(lanes) in self._on_devices:
            return program, self._on_devices[tuple(lanes)]
        at = self.iteration if iteration is None else iteration
        arrays = self._checkpoints.restore(at, program.kinds(), lanes)
        return program, program.from_arrays(arrays)

    def _through(
        self,
        block: tuple[int, ...],
        kept: dict[tuple[int, ...], Lanes],
        target: int,
        counter: "_Counter",
    ) -> tuple[Program, Lanes, Results]:
        """Returns a block's states at the target and what they say."""
        program = self.program(block)
        if self.iteration == BEFORE:
            states = program.init([self._lanes[lane].seed for lane in block])
        elif block in kept:
            states = kept.pop(block)
        else:
            arrays = self._checkpoints.restore(self.iteration, program.kinds(), block)
            states = program.from_arrays(arrays)
        chunk, _ = program.compile(self._length)
        start, began = counter.done, time.perf_counter()
        length = target - max(self.iteration, 0)
        states, metrics, snapshot = chunk(states, length, counter.one)
        if length == self._length:
            self._busy[0] += program.layout.workers[0] * (time.perf_counter() - began)
            self._busy[1] += length * len(block)
        counter.up_to(start + len(block))
        return program, states, Results(block, metrics, snapshot)

    def _together(self, iteration: int, lanes: Sequence[int]) -> Results:
        """Returns the results of all blocks, from their checkpoints."""
        program = self.program(self.blocks(lanes)[0])
        _, *shapes = program.trace(self._length).out_info
        names = [f"results/{name}" for name in by_path(shapes)]
        found, arrays = self._checkpoints.beside(iteration, names)
        metrics, snapshot = jax.tree.unflatten(
            jax.tree.structure(shapes), list(arrays.values())
        )
        return Results(found, metrics, snapshot)

    def _room(self, count: int) -> int | None:
        """Returns the lanes that a program for so many has room for: few sizes, so that few programs are compiled."""
        if isinstance(self._first.layout, Calls) or len(self._lanes) <= count:
            return None
        return min(self.plan.at_once, 1 << (count - 1).bit_length())

    def _smaller(self, block: tuple[int, ...], error: Exception) -> str:
        """Makes the blocks smaller; returns one sentence that says so."""
        if len(block) == 1:
            raise MemoryError(
                "memory ran out with a single run at once; make the experiment smaller, "
                "such as fewer environment slots or a smaller network"
            ) from error
        self.plan = self.plan.after_lack(len(block))
        return (
            f"memory ran out with {len(block)} runs at once; "
            f"going on with {self.plan.at_once}"
        )


class _Counter:
    """Counts lanes that are through."""

    def __init__(self, done: int, of: int, told: Told) -> None:
        self.done, self._of, self._told = done, of, told
        self._lock = threading.Lock()

    def one(self) -> None:
        """Counts one lane more."""
        with self._lock:
            self.done += 1
            self._told(self.done, self._of)

    def more(self, number: int) -> None:
        """Counts so many more."""
        self.up_to(self.done + number)

    def up_to(self, number: int) -> None:
        """Counts those that nobody has counted."""
        with self._lock:
            if self.done < number:
                self.done = number
                self._told(self.done, self._of)


def _named(results: Results) -> dict[str, np.ndarray]:
    """Returns what a block's checkpoint keeps of its results."""
    tree = [results.metrics, results.snapshot]
    return {f"results/{name}": leaf for name, leaf in by_path(tree).items()}


def _out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
