"""The contract of engines: other processes that take blocks of lanes through a chunk and save them in the run folder.

The process that was started leads: it holds the folder, says which lanes go where, writes the tables once all of them
are through, and shows how far the run is.
"""

import abc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from spjax.catalogue import Use
from spjax.runs.lock import Holder
from spjax.training.config import RunConfig


class Chunk(NamedTuple):
    """From an iteration to the next evaluation."""

    iteration: int
    target: int


class Work(NamedTuple):
    """A run that workers share."""

    folder: Path  # which they all must see
    holder: Holder  # who leads
    uses: Sequence[Use]  # the user's files that it needs
    num_lanes: int
    lanes_at_once: int | None  # what the user wants a block to be at most

    @classmethod
    def of(
        cls,
        folder: Path,
        holder: Holder,
        config: RunConfig,
        lanes_at_once: int | None,
    ) -> "Work":
        """Returns that of a configuration."""
        uses, num_lanes = config.uses(), len(config.lanes())
        return cls(folder.absolute(), holder, uses, num_lanes, lanes_at_once)


class Workers(abc.ABC):
    """The processes of an engine while a run goes on."""

    compile_seconds: float = 0.0  # the longest that one of them compiled

    @property
    @abc.abstractmethod
    def workers(self) -> tuple[int, str]:
        """How many lanes run at the same time, and what a lane runs on."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """For example "2 nodes"."""

    @property
    @abc.abstractmethod
    def device(self) -> str:
        """What they compute on, as a run folder keeps it."""

    @abc.abstractmethod
    def take(
        self,
        chunk: Chunk,
        lanes: Sequence[int],
        *,
        told: Callable[[int], object],
        say: Callable[[str], object],
        between: Callable[[], object],
    ) -> None:
        """Takes lanes through a chunk; their blocks are in the run folder when it returns.

        Args:
            chunk: where they are and where they go.
            lanes: by number.
            told: is told how many lanes more are there.
            say: is told in a sentence what happens.
            between: called between two blocks, where it may raise; what runs then is saved first.

        Raises:
            OSError: something cannot be written or reached; what was saved before stays.
            MemoryError: there is not enough for a single lane.
        """


class Engine(abc.ABC):
    """Chooses other processes to work on a run."""

    @property
    def follows(self) -> bool:
        """Says whether this process is one of the others, and does its share by `follow`."""
        return False

    def follow(self) -> Path:
        """Does this process's share of a run that another one leads, to its end; returns the folder."""
        raise NotImplementedError

    @abc.abstractmethod
    def on(
        self,
        run: Work,
        say: Callable[[str], object],
        asked: Callable[[], bool],
    ) -> AbstractContextManager[Workers]:
        """Gives the workers of a run folder.

        Args:
            run: what there is to work on.
            say: is told in a sentence what happens.
            asked: says whether somebody has asked for the end, whereupon nobody is waited for.

        Raises:
            ValueError, OSError: they cannot be had, or do not fit to this process.
        """


NAMES = ("ray", "jax")


def with_devices(noun: str, plural: str, devices: Iterable[str]) -> str:
    """Returns for example "2 workers with 8 CPU cores (AMD EPYC)", from the devices of all."""
    return ", ".join(
        f"{number} {noun if number == 1 else plural} with {kind}"
        for kind, number in Counter(devices).items()
    )


def engine_of(name: str | None, address: str | None) -> Engine | None:
    """Returns the engine of a name; None for this process alone.

    Raises:
        ValueError: there is none, its package is not installed, or it has no address.
    """
    if name not in (None, *NAMES):
        raise ValueError(f"engine must be {' or '.join(NAMES)}, got {name!r}")
    if address is not None and name != "ray":
        raise ValueError(
            f"an address is for the engine ray, got {address!r} without it"
        )
    if name is None:
        return None
    if name == "jax":
        from spjax.training.engines.processes import Processes

        return Processes.joined()
    from spjax.training.engines.ray_engine import Ray

    return Ray.at(address)


def started(
    engine: Engine | None,
    run: Work,
    say: Callable[[str], object],
    asked: Callable[[], bool],
) -> AbstractContextManager[Workers | None]:
    """Gives the workers of an engine; None where there is none."""
    if engine is None:
        return nullcontext()
    return engine.on(run, say, asked)
