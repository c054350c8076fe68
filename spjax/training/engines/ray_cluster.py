"""The workers of a run on a Ray cluster: an actor wherever there is room for one, to which blocks of lanes go as tasks.

What a lost node was doing goes to another one, from the checkpoints in the run folder; nodes that join get blocks from then on.
An actor, and no bare task, since it keeps its accelerator, what it compiled and the states of its last block.
"""

import dataclasses
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from spjax.runs import folder as layout
from spjax.runs.provenance import cpu_model
from spjax.training.engines.base import Chunk, Work, Workers, with_devices
from spjax.training.engines.share import About, Share, Taken, digest_of, fitting
from spjax.training.footprint import MOST_AT_ONCE, MOST_ON_DEVICE
from spjax.training.progress import count
from spjax.training.rounds import BEFORE
from spjax.training.stopping import Interrupted

_STARTING = 120.0  # seconds for the first workers
_LOOK = 1.0  # seconds between looks at the signals and at the nodes
_LONG_ENOUGH = 10.0  # seconds of a block, beside which going to and fro is nothing
_MOST_LOSSES = 5  # of a lane in one chunk, or of workers that start


@dataclasses.dataclass(eq=False)
class _Worker:
    """An actor and what it is doing."""

    actor: Any
    doing: Any  # what the call that it works on will return; None while it is free
    about: About | None = None  # once it has started
    block: tuple[int, ...] = ()  # lanes that it works on, or had last


class Cluster(Workers):
    """The workers of a run on the nodes of a cluster."""

    def __init__(self, ray: ModuleType, run: Work, variables: dict[str, str]) -> None:
        self._ray, self._run = ray, run
        self._needs = _needs(self._nodes())
        self._new = ray.remote(Share).options(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs.get("GPU", 0),
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": variables},
        )
        self._pool: list[_Worker] = []
        self._seconds: float | None = None  # of a lane and chunk on a worker
        self._failed = 0  # starts, since one went well

    @property
    def workers(self) -> tuple[int, str]:
        """Cores of all workers, or accelerators."""
        if "GPU" in self._needs:
            return len(self._about), "device"
        return len(self._about) * self._needs["CPU"], "core"

    @property
    def place(self) -> str:
        """Nodes with room for a worker."""
        number = sum(self._room(node) > 0 for node in self._nodes())
        return f"{number} node{'' if number == 1 else 's'}"

    @property
    def device(self) -> str:
        """Kinds of devices, and how many workers have them."""
        return with_devices(
            "Ray worker", "Ray workers", (about.device for about in self._about)
        )

    def start(self, say: Callable[[str], object], asked: Callable[[], bool]) -> None:
        """Starts a worker wherever there is room for one.

        Raises:
            ValueError: there is no room, or a worker does not fit to this process.
            OSError: workers do not start.
        """
        if not self._slots:
            raise ValueError("the Ray cluster has no node with a processor core")
        number = min(self._slots, self._run.num_lanes)
        late = time.monotonic() + _STARTING
        while len(self._about) < number and not asked():
            self._fill(number)
            for worker in self._answering():
                self._settle(worker)
            if time.monotonic() > late:
                if self._about:
                    break  # what is missing comes later
                say("waiting for a node of the Ray cluster that is free")
                late = math.inf
        others = {about.processor for about in self._about} - {cpu_model()}
        if others and "GPU" not in self._needs:
            say(
                f"nodes have other processors than this machine ({', '.join(sorted(others))}), "
                "on which rounding may differ"
            )

    def end(self) -> None:
        """Ends the workers, whatever they do."""
        for worker in self._pool:
            with suppress(Exception):  # the cluster may be gone
                self._ray.kill(worker.actor)

    def take(
        self,
        chunk: Chunk,
        lanes: Sequence[int],
        *,
        told: Callable[[int], object],
        say: Callable[[str], object],
        between: Callable[[], object],
    ) -> None:
        """Gives each free worker the next block, and the block of a lost worker to another one."""
        todo = deque(self._blocks(lanes))
        losses: Counter[int] = Counter()  # by lane

        def look() -> None:
            for worker in self._answering():
                taken = self._settle(worker)
                if taken is not None:
                    self._learn(chunk, len(worker.block), taken, say)
                    told(len(worker.block))
                elif worker not in self._pool and worker.block:
                    todo.extendleft(_once_more(worker.block, losses))
                    say(_lost(worker, chunk))

        try:
            while todo or self._busy:
                if todo:
                    self._fill(min(self._slots, len(todo) + len(self._busy)))
                self._give(todo, chunk)
                look()
                if todo:
                    between()
        except Interrupted:
            while self._busy:  # what runs is saved first
                look()
            raise

    @property
    def _about(self) -> list[About]:
        return [worker.about for worker in self._pool if worker.about is not None]

    @property
    def _busy(self) -> list[_Worker]:
        return [one for one in self._pool if one.about and one.doing is not None]

    @property
    def _slots(self) -> int:
        """How many workers the cluster has room for now, without other programs."""
        return sum(map(self._room, self._nodes()))

    def _nodes(self) -> list[Mapping[str, float]]:
        """Returns the resources of the nodes."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _room(self, node: Mapping[str, float]) -> int:
        return min(int(node.get(name, 0) // need) for name, need in self._needs.items())

    def _fill(self, number: int) -> None:
        """Asks for workers until there are so many, free or not."""
        run = self._run
        while len(self._pool) < number:
            actor = self._new.remote(
                str(run.folder),
                run.holder,
                run.uses,
                run.lanes_at_once,
                self._needs["CPU"],
            )
            self._pool.append(_Worker(actor, actor.about.remote()))

    def _blocks(self, lanes: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the lanes in blocks: one for each worker, or more where a block is long enough all the same."""
        cores = self._needs["CPU"]
        size = -(-len(lanes) // max(1, self._slots))
        if self._seconds:
            enough = math.ceil(_LONG_ENOUGH / self._seconds / cores) * cores
            size = min(size, enough)
        most = MOST_ON_DEVICE if "GPU" in self._needs else MOST_AT_ONCE
        size = max(1, min(size, self._run.lanes_at_once or most))
        return [tuple(lanes[i : i + size]) for i in range(0, len(lanes), size)]

    def _give(self, todo: deque[tuple[int, ...]], chunk: Chunk) -> None:
        """Gives free workers blocks, the ones that they had before if possible."""
        free = [one for one in self._pool if one.about and one.doing is None]
        if not (free and todo):
            return
        digest = digest_of(self._run.folder / layout.CONFIG)
        free.sort(key=lambda worker: worker.block not in todo)
        for worker in free[: len(todo)]:
            if worker.block in todo:
                todo.remove(worker.block)
            else:
                worker.block = todo.popleft()
            worker.doing = worker.actor.take.remote(digest, chunk, worker.block)

    def _answering(self) -> list[_Worker]:
        """Returns workers whose call has ended; waits for one, but not for long."""
        calls = [worker.doing for worker in self._pool if worker.doing is not None]
        if not calls:
            time.sleep(_LOOK)  # for a node
            return []
        ended, _ = self._ray.wait(calls, timeout=_LOOK)
        return [worker for worker in self._pool if worker.doing in ended]

    def _settle(self, worker: _Worker) -> Taken | None:
        """Returns what a worker says about its block; None if it has only started, or is lost and not in the pool any more.

        Raises:
            ValueError, OSError, MemoryError: what the worker raised.
            OSError: one worker after the other is lost before it has started.
        """
        call, worker.doing = worker.doing, None
        errors = self._ray.exceptions
        try:
            result = self._ray.get(call)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            self._drop(worker, error)
            return None
        if worker.about is None:
            worker.about, self._failed = fitting(result), 0
            return None
        taken: Taken = result
        return taken

    def _drop(self, worker: _Worker, error: Exception) -> None:
        self._pool.remove(worker)
        with suppress(Exception):
            self._ray.kill(worker.actor)  # which may only have been out of reach
        if worker.about is None:
            self._failed += 1
            if self._failed >= _MOST_LOSSES:
                why = str(error).strip().splitlines()[0]
                raise OSError(f"workers do not start on the Ray cluster: {why}")

    def _learn(
        self, chunk: Chunk, number: int, taken: Taken, say: Callable[[str], object]
    ) -> None:
        """Takes note of how long a block of so many lanes took."""
        self.compile_seconds = max(self.compile_seconds, taken.compile_seconds)
        if chunk.iteration != BEFORE:
            self._seconds = taken.seconds / number
        for sentence in taken.said:
            say(sentence)


def _needs(nodes: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """Returns what a worker needs of a node: an accelerator, or as many cores as the smallest node has."""
    with_gpu = [node for node in nodes if node.get("GPU", 0) >= 1]
    if with_gpu:
        share = min(node.get("CPU", 1) // node["GPU"] for node in with_gpu)
        return {"GPU": 1, "CPU": max(1, int(share))}
    cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    return {"CPU": min(cores, default=1)}


def _once_more(block: tuple[int, ...], losses: Counter[int]) -> list[tuple[int, ...]]:
    """Returns a lost block, halved from the second time on: its memory may have been too much.

    Raises:
        OSError: it is lost again and again.
    """
    losses.update(block)
    times = max(losses[lane] for lane in block)
    if times >= _MOST_LOSSES:
        raise OSError(
            f"the workers that went through the runs {block[0]} to {block[-1]} were lost {times} times; "
            "Ray's log files say why"
        )
    half = len(block) // 2
    if times < 2 or not half:
        return [block]
    return [block[:half], block[half:]]


def _lost(worker: _Worker, chunk: Chunk) -> str:
    where = "" if worker.about is None else f" on {worker.about.host}"
    since = "the start" if chunk.iteration == BEFORE else f"iteration {chunk.iteration}"
    return f"a worker{where} was lost; done again from {since}: {count(len(worker.block), 'run')}"
