"""The part of a run that one worker does: blocks of its lanes, from the run folder and back into it."""

import hashlib
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from spjax import catalogue
from spjax.cache import keep_compiled_programs
from spjax.catalogue import Use
from spjax.cores import use_at_most
from spjax.runs import folder as layout
from spjax.runs.checkpoint import Checkpoints
from spjax.runs.lock import LOCK, Holder
from spjax.runs.provenance import cpu_model, device, versions
from spjax.training.engines.base import Chunk
from spjax.training.footprint import MOST_AT_ONCE
from spjax.training.program import layout_here
from spjax.training.rounds import BEFORE, Rounds
from spjax.training.run_folder import read_config

_UNTIL_SEEN = 5.0  # seconds for a folder
_UNTIL_READ = 60.0  # seconds for a file, which a shared file system may show late


class About(NamedTuple):
    """What a worker is."""

    host: str
    device: str
    workers: int  # lanes that it computes at a time
    processor: str
    platform: str  # of JAX
    versions: dict[str, str | None]


class Taken(NamedTuple):
    """What a worker says once it took a block through a chunk."""

    seconds: float  # compiling apart
    compile_seconds: float
    said: tuple[str, ...]  # sentences


class Share:
    """One worker; what it compiled stays for the next block, and so do the states of the last one."""

    def __init__(
        self,
        folder: str,
        holder: Holder,
        uses: Sequence[Use],
        lanes_at_once: int | None,
        cores: int | None,
    ) -> None:
        self._folder, self._holder, self._uses = Path(folder), holder, uses
        self._at_once, self._cores = lanes_at_once, cores
        self._rounds: Rounds | None = None

    def about(self) -> About:
        """Returns what this worker is.

        Raises:
            ValueError: it does not see the run folder.
        """
        lock = self._folder / LOCK
        if not _within(_UNTIL_SEEN, lambda: Holder.read(lock) == self._holder):
            raise ValueError(
                f"{platform.node()} does not see {self._folder}; put the run folder where every node has it under this path"
            )
        if self._cores is not None:
            use_at_most(self._cores)
        return About(
            platform.node(),
            device(),
            layout_here()(MOST_AT_ONCE).workers[0],
            cpu_model(),
            jax.default_backend(),
            versions(),
        )

    def take(self, digest: str, chunk: Chunk, lanes: Sequence[int]) -> Taken:
        """Takes lanes through a chunk and saves them.

        Args:
            digest: of config.json.
            chunk: where the lanes are and where they go.
            lanes: by number.

        Raises:
            ValueError: the run folder is not what it should be.
            OSError: it cannot be written.
            MemoryError: there is not enough for a single lane.
        """
        checkpoints = Checkpoints(self._folder / layout.CHECKPOINTS)
        if self._rounds is None:
            self._rounds = self._opened(digest, checkpoints)
        if chunk.iteration != BEFORE:
            checkpoints.wait_for(chunk.iteration, lanes, _UNTIL_READ)
        _, compile_seconds = self._rounds.compile(lanes)
        said: list[str] = []
        start = time.perf_counter()
        self._rounds.share(chunk, lanes, said.append)
        return Taken(time.perf_counter() - start, compile_seconds, tuple(said))

    def _opened(self, digest: str, checkpoints: Checkpoints) -> Rounds:
        config = self._folder / layout.CONFIG
        if not _within(_UNTIL_READ, lambda: digest_of(config) == digest):
            raise ValueError(f"{platform.node()} does not see the {config} of this run")
        keep_compiled_programs()
        catalogue.load(self._uses)  # as they are now, which who leads has accepted
        return Rounds(read_config(self._folder, True), checkpoints, self._at_once)


def fitting(about: About) -> About:
    """Returns what a worker is, if it computes what this process would.

    Raises:
        ValueError: it has other versions, or another kind of device.
    """
    here = versions()
    for name, version in about.versions.items():
        if version != here.get(name):
            raise ValueError(
                f"{about.host} has {name} {version} and this machine {here.get(name)}; every node needs the same versions"
            )
    if about.platform != jax.default_backend():
        raise ValueError(
            f"{about.host} computes on {about.platform} and this machine on {jax.default_backend()}; "
            "start it on a node like the others"
        )
    return about


def digest_of(file: Path) -> str | None:
    """Returns what tells contents apart; None where there is no file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _within(seconds: float, seen: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
