"""Sweeps in several processes that a launcher started with the same command, joined by `jax.distributed`.

Each process has the lanes of a share, on its own devices; nothing goes between devices. Process 0 leads, the others follow: they
wait for what to do in the key-value store of JAX's coordination service. Unlike on a Ray cluster nobody takes over from a process
that is lost: the run ends there and is resumed.
"""

import atexit
import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from spjax.catalogue import Use
from spjax.runs import folder as layout
from spjax.runs.lock import Holder
from spjax.training.engines.base import Chunk, Engine, Work, Workers, with_devices
from spjax.training.engines.share import About, Share, Taken, digest_of, fitting
from spjax.training.stopping import first_interrupt

_LOOK = 1_000  # milliseconds of waiting, between looks at the signals
_END: dict[str, Any] = {}  # what is told to those who follow when there is no more
_KINDS = {kind.__name__: kind for kind in (ValueError, OSError, MemoryError, Exception)}
_HOW = (
    "processes that a launcher started, such as SLURM's srun or Open MPI's mpirun, or the environment variables "
    "JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID"
)
_numbers = itertools.count()  # of runs


@dataclasses.dataclass(frozen=True)
class Processes(Engine):
    """The processes of a launcher, of which this one has a number."""

    number: int
    of: int

    @classmethod
    def joined(cls) -> "Processes":
        """Returns those that this process belongs to; joins them the first time.

        Raises:
            ValueError: nothing says which they are, or JAX computes already, after which it is too late.
        """
        if not jax.distributed.is_initialized():
            _join()
        return cls(jax.process_index(), jax.process_count())

    @property
    def follows(self) -> bool:
        """Says whether another process leads."""
        return self.number > 0

    def follow(self) -> Path:
        """Does this process's share of the next run until that ends; returns its folder.

        Raises:
            ValueError: the process that leads has ended without one.
        """
        run = next(_numbers)
        with first_interrupt():  # who leads is asked to stop too, and says when
            told = _heard(f"{run}/work")
            if told == _END:
                raise ValueError("the process that leads ended without a run")
            share = Share(
                told["folder"],
                Holder(*told["holder"]),
                [Use(**use) for use in told["uses"]],
                told["lanes_at_once"],
                None,
            )
            _do(f"{run}/about/{self.number}", share.about)
            for chunk in itertools.count():
                todo = _heard(f"{run}/{chunk}")
                if todo == _END:
                    break
                lanes, digest = todo["shares"][self.number], todo["digest"]
                if lanes:
                    where = Chunk(*todo["chunk"])
                    _do(
                        f"{run}/{chunk}/{self.number}", share.take, digest, where, lanes
                    )
        return Path(told["folder"])

    @contextmanager
    def on(
        self, run: Work, say: Callable[[str], object], asked: Callable[[], bool]
    ) -> Iterator["Leader"]:
        """Says what there is to do, and makes sure that the others can do it."""
        leader = Leader(next(_numbers), self.of, run)
        try:
            leader.meet()
            yield leader
        finally:
            leader.end()


class Leader(Workers):
    """Shares chunks with the processes that follow."""

    def __init__(self, number: int, of: int, run: Work) -> None:
        self._number, self._of, self._run = number, of, run
        self._chunks = itertools.count()
        self._share = Share(
            str(run.folder), run.holder, run.uses, run.lanes_at_once, None
        )
        self._about: list[About] = []

    @property
    def workers(self) -> tuple[int, str]:
        """Cores or accelerators of all processes."""
        return sum(about.workers for about in self._about), (
            "core" if jax.default_backend() == "cpu" else "device"
        )

    @property
    def place(self) -> str:
        """Processes."""
        return f"{self._of} processes"

    @property
    def device(self) -> str:
        """What each process computes on."""
        return with_devices(
            "process", "processes", (about.device for about in self._about)
        )

    def meet(self) -> None:
        """Tells the others about the run.

        Raises:
            ValueError: one of them does not see the folder or computes otherwise.
        """
        run = self._run
        _tell(
            f"{self._number}/work",
            {
                "folder": str(run.folder),
                "holder": run.holder,
                "uses": [dataclasses.asdict(use) for use in run.uses],
                "lanes_at_once": run.lanes_at_once,
            },
        )
        self._about = [fitting(self._share.about())]
        for other in range(1, self._of):
            self._about += [fitting(About(*self._answer(f"about/{other}")))]

    def take(
        self,
        chunk: Chunk,
        lanes: Sequence[int],
        *,
        told: Callable[[int], object],
        say: Callable[[str], object],
        between: Callable[[], object],
    ) -> None:
        """Takes an equal share of the lanes, and waits for the others."""
        number, shares = next(self._chunks), _shared(lanes, self._of)
        digest = digest_of(self._run.folder / layout.CONFIG)
        todo = {"digest": digest, "chunk": chunk, "shares": shares}
        _tell(f"{self._number}/{number}", todo)
        taken = [self._share.take(digest or "", chunk, shares[0])] if shares[0] else []
        told(len(shares[0]))
        for other in range(1, self._of):
            if shares[other]:
                taken.append(Taken(*self._answer(f"{number}/{other}")))
                told(len(shares[other]))
        for one in taken:
            self.compile_seconds = max(self.compile_seconds, one.compile_seconds)
            for sentence in one.said:
                say(sentence)

    def end(self) -> None:
        """Lets the others go."""
        _tell(f"{self._number}/{next(self._chunks)}", _END)

    def _answer(self, what: str) -> Any:
        """Returns what another process answers, or raises what it raised."""
        answer = _heard(f"{self._number}/{what}")
        if "raised" in answer:
            raise _KINDS[answer["raised"]](answer["why"])
        return answer["result"]


def _join() -> None:
    numbers = {
        name: os.environ.get(f"JAX_{name.upper()}")
        for name in ("num_processes", "process_id")
    }
    try:
        known = {name: int(text) for name, text in numbers.items() if text is not None}
        jax.distributed.initialize(**known)  # type: ignore[arg-type]
        jax.devices()  # where the processes wait for each other
    except ValueError as error:
        raise ValueError(f"the engine jax needs {_HOW}: {error}") from error
    except RuntimeError as error:
        raise ValueError(
            f"the processes of the engine jax cannot be joined: {' '.join(str(error).split())}"
        ) from error
    if jax.process_index() == 0:
        atexit.register(lambda: _tell(f"{next(_numbers)}/work", _END))


def _shared(lanes: Sequence[int], of: int) -> list[list[int]]:
    """Returns the lanes in so many shares, the first ones larger by one where they do not divide."""
    ends = [-(-len(lanes) * number // of) for number in range(of + 1)]
    return [list(lanes[start:end]) for start, end in itertools.pairwise(ends)]


def _do(name: str, work: Callable[..., Any], *arguments: Any) -> None:
    """Does a piece of work and tells what it returns or, in one sentence, why it failed."""
    try:
        answer = {"result": work(*arguments)}
    except Exception as error:
        kind = next(name for name, one in _KINDS.items() if isinstance(error, one))
        answer = {"raised": kind, "why": str(error)}
    _tell(name, answer)


def _tell(name: str, what: Any) -> None:
    _store().key_value_set(f"spjax/{name}", json.dumps(what))


def _heard(name: str) -> Any:
    """Returns what is told under a name, once it is.

    Raises:
        OSError: the process that leads is gone.
    """
    while True:
        try:
            return json.loads(_store().blocking_key_value_get(f"spjax/{name}", _LOOK))
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise OSError(f"another process is gone: {error}") from error


def _store() -> Any:
    """Returns the key-value store that the processes share."""
    from jax._src.distributed import global_state

    return global_state.client
