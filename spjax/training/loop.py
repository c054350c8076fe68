"""The host loop of one run: a chunk of all lanes, what came out of it, whom to tell, and when to stop."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from spjax.runs import cuts as cut_lanes
from spjax.runs import folder as layout
from spjax.runs.checkpoint import Checkpoints, DamagedCheckpoint
from spjax.runs.read import read_returns
from spjax.training import halving
from spjax.training.config import RunConfig
from spjax.training.engines.base import Workers
from spjax.training.extension import duration
from spjax.training.following import Followers, Report
from spjax.training.footprint import amount
from spjax.training.lanes import Lanes
from spjax.training.newest import newest, unreadable_after
from spjax.training.program import Program
from spjax.training.progress import (
    SweepProgress,
    count,
    ended_at_a_standstill,
    newly_frozen,
    newly_stopped,
    standstill,
)
from spjax.training.rounds import BEFORE, Results, Rounds
from spjax.training.stopping import Interrupted, StopRequest
from spjax.training.writer import Writer


class Training:
    """One run, in the process that trains it; the caller holds the folder."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        bar: SweepProgress,
        lanes_at_once: int | None,
        workers: Workers | None = None,
    ) -> None:
        self.folder, self.config = folder, config
        self._bar, self._lanes = bar, config.lanes()
        self._writer = Writer(folder, config)
        self._checkpoints = Checkpoints(folder / layout.CHECKPOINTS)
        self._workers = workers
        self._rounds = Rounds(config, self._checkpoints, lanes_at_once, workers)
        self._cuts: list[cut_lanes.Cut] = []
        self._watched = bar.shown  # whether a standstill is still to be said
        self._frozen: set[int] = set()  # lanes, as far as they are said

    def restore(self) -> None:
        """Goes back to the newest states that can be read, and removes what was written after them.

        Raises:
            ValueError: checkpoints are there or were there, and none can be read.
        """
        self._cuts = list(cut_lanes.read_cuts(self.folder))
        written = layout.written(self.folder)
        problems = self._rounds.restore(self._active, written)
        at = self._rounds.iteration
        if at == BEFORE and written - {0}:
            raise ValueError(
                f"{self.folder} has no checkpoint that this spjax reads; train again in another folder"
            )
        where = "begins anew" if at == BEFORE else f"goes on from iteration {at}"
        for problem in problems:
            self._bar.note(f"{problem}; the run {where}")
        self._writer.resumed = at != BEFORE
        layout.discard_after(self.folder, at)
        cut_lanes.discard_after(self.folder, at)
        self._cuts = [cut for cut in self._cuts if cut.iteration <= at]
        self._rounds.discard_after(self._next())

    def compile(self) -> None:
        """Compiles, and says how the sweep is worked on."""
        seconds = self._rounds.seconds_left(
            self._active(self._next()), self.config.num_iterations
        )
        time_known = [] if seconds is None else [duration(seconds)]
        on = f"{count(len(self._lanes), 'run')} on {count(*self._rounds.workers)}"
        if self._workers is not None:  # which compile themselves
            about = "".join(f", about {time}" for time in time_known)
            self._bar.note(f"{on} of {self._workers.place}{about}")
            return
        plan = self._rounds.plan
        if plan.why:
            self._bar.note(plan.why)
        about = " and ".join([f"{amount(plan.memory)} of memory", *time_known])
        self._bar.note(f"{on}, about {about}; compiling")
        _, seconds = self._rounds.compile(self._active(self._next()))
        self._writer.compile_seconds = seconds
        self._bar.note(f"compiled in {seconds:.0f} s")

    def go(self, interrupted: StopRequest, followers: Followers) -> None:
        """Trains to the end, or until someone stops it.

        Raises:
            Interrupted: by the user; everything up to the last chunk is saved.
        """
        num_iterations, rounds = self.config.num_iterations, self._rounds

        def between_blocks() -> None:
            if not interrupted.is_set():
                return
            where = (
                "before the first evaluation"
                if rounds.iteration == BEFORE
                else f"between iterations {rounds.iteration} and {self._next()}"
            )
            raise Interrupted(
                f"stopped {where}; continue with: spjax resume {self.folder}",
                interrupted.number,
            )

        if rounds.iteration == BEFORE:
            self._advance(0, between_blocks)
            between_blocks()
        while rounds.iteration < num_iterations:
            self._cut()
            results = self._advance(self._next(), between_blocks)
            self._show(results)
            stopped = followers.callbacks and followers.told(self._report(results))
            if rounds.iteration < num_iterations:
                where = f"stopped at iteration {rounds.iteration}; continue with: spjax resume {self.folder}"
                if interrupted.is_set():
                    raise Interrupted(where, interrupted.number)
                if stopped:
                    self._bar.note(where)
                    return
        rounds.remember_speed()
        if self._workers is not None:
            self._writer.compile_seconds = self._workers.compile_seconds
        self._writer.finish(self._last_states())
        if (
            interrupted.is_set()
        ):  # what comes after the run, such as the next one, should not start
            raise Interrupted(f"{self.folder} is finished", interrupted.number)

    def _advance(self, target: int, between: Callable[[], object]) -> Results:
        results = self._rounds.advance(
            target,
            self._active(target),
            lambda results: self._writer.chunk(target, results),
            told=lambda done, of: self._bar.part(target, done, of),
            say=self._bar.note,
            between=between,
        )
        stopped: dict[int, set[int]] = defaultdict(set)
        for cut in self._cuts:
            stopped[cut.iteration] |= set(cut.lanes)
        self._checkpoints.prune(stopped)
        return results

    def _cut(self) -> None:
        """Stops the settings that are behind, where this iteration is a rung and it has not been done."""
        at, how = self._rounds.iteration, self.config.halving
        done = any(cut.iteration == at for cut in self._cuts)
        if how is None or done or not how.is_rung(at, self.config.num_iterations):
            return
        left = set(self._active(at))
        returns = read_returns(layout.part(self.folder, layout.EVALUATION, at))
        here = {lane: value for lane, value in returns.items() if lane in left}
        new = halving.cuts(how, at, self._lanes, here)
        if not new:
            return
        self._cuts += new
        cut_lanes.write_cuts(self.folder, self._cuts)
        self._bar.note(newly_stopped(new, self._lanes))

    def _next(self) -> int:
        """Returns where the next chunk ends: the next multiple, since an extended run may begin between two of them."""
        if self._rounds.iteration == BEFORE:
            return 0
        every, at = self.config.evaluate_every, self._rounds.iteration
        return min(at - at % every + every, self.config.num_iterations)

    def _active(self, iteration: int) -> list[int]:
        return cut_lanes.active(self._cuts, len(self._lanes), iteration)

    def _show(self, results: Results) -> None:
        metrics = results.metrics
        self._bar.update(self._rounds.iteration, metrics, results.snapshot)
        frozen = np.asarray(results.lanes)[metrics.frozen[:, -1]].tolist()
        if said := newly_frozen(frozen, self._frozen, self._lanes):
            self._bar.note(said)
        self._frozen |= set(frozen)
        if not self._watched:
            return
        returns = metrics.discounted_return
        seen = np.asarray(returns.value)[:, -1], np.asarray(returns.present)[:, -1]
        lanes = [self._lanes[lane] for lane in results.lanes]
        teachers = (self.config.experiment(lane).teacher for lane in lanes)
        at = self._rounds.iteration
        last = at == self.config.num_iterations
        ask = ended_at_a_standstill if last else standstill
        if why := ask(teachers, at, *seen):
            self._bar.note(why)
            self._watched = False  # it is said

    def _report(self, results: Results) -> Report:
        return Report(
            self.folder,
            self.config,
            self._rounds.iteration,
            results,
            lambda: self._rounds.states(results.lanes),
        )

    def _last_states(self) -> Iterator[tuple[Sequence[int], Program, Lanes]]:
        """Yields blocks of lanes with their last states, those of stopped ones too."""
        end = self._rounds.iteration
        at = {lane: cut.iteration for cut in self._cuts for lane in cut.lanes}
        for iteration in sorted({end, *at.values()}):
            lanes = [
                lane
                for lane in range(len(self._lanes))
                if at.get(lane, end) == iteration
            ]
            for block in self._rounds.blocks(lanes):
                yield block, *self._rounds.states(block, iteration)


def newest_states(
    folder: Path, program: Program, lanes: Sequence[int]
) -> dict[str, np.ndarray] | None:
    """Returns the newest states of these lanes, those of stopped ones from where they stopped; None before there are any.

    Warns where newer ones are damaged.

    Raises:
        ValueError: there are checkpoints, and none can be read.
    """
    checkpoints, kinds = Checkpoints(folder / layout.CHECKPOINTS), program.kinds()
    cuts = cut_lanes.read_cuts(folder)
    stopped = {lane: cut.iteration for cut in cuts for lane in cut.lanes}
    going_on = [lane for lane in lanes if lane not in stopped]
    at = newest(checkpoints, kinds, lambda _: going_on, layout.written(folder))
    if at is None:
        return None
    for problem in unreadable_after(checkpoints, at, kinds):
        warnings.warn(
            DamagedCheckpoint(f"{problem}; iteration {at} takes its place"),
            stacklevel=3,
        )
    last = [min(stopped.get(lane, at), at) for lane in lanes]
    arrays = {
        name: np.empty((len(lanes), *shape), dtype)
        for name, (shape, dtype) in kinds.items()
    }
    for iteration in set(last):
        rows = [row for row in range(len(lanes)) if last[row] == iteration]
        found = checkpoints.restore(iteration, kinds, [lanes[row] for row in rows])
        for name, array in found.items():
            arrays[name][rows] = array
    return arrays
