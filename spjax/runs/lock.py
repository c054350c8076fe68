"""Who trains in a run folder: one process at a time, on every file system.

The system's own lock (`flock`) ends with the process that holds it. Some file systems of clusters have none. There the lock is a
file that is created in one step, names its process and is touched every few seconds; it counts for nothing once its process is
known to be gone, or once nobody has touched it for a minute by the clock of the file system.
"""

import errno
import fcntl
import hashlib
import os
import platform
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from spjax.runs.folder import CONFIG

LOCK = ".lock"
HELD = ".lock.held"  # where the file system has no lock of its own
TOUCHED_EVERY = 10.0  # seconds
LEFT_AFTER = 60.0  # seconds without being touched

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Holder(NamedTuple):
    """The process that holds a run folder."""

    host: str
    numbering: str  # of processes: of this start of the machine, and of this container
    pid: int
    token: str  # another one each time

    @classmethod
    def here(cls) -> "Holder":
        """Returns that of this process."""
        host = platform.node() or "localhost"
        return cls(host, _numbering(), os.getpid(), uuid.uuid4().hex)

    @classmethod
    def read(cls, path: Path) -> "Holder | None":
        """Returns the one that a file names, None where there is none."""
        with suppress(OSError, ValueError):
            host, numbering, pid, token = path.read_text(encoding="utf-8").split()
            return cls(host, numbering, int(pid), token)
        return None

    def __str__(self) -> str:
        return f"{self.host} {self.numbering} {self.pid} {self.token}"

    @property
    def is_gone(self) -> bool:
        """Says whether the process is known to have ended; of other machines nothing is known."""
        if (self.host, self.numbering) != Holder.here()[:2]:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:  # it is someone else's
            pass
        return False


@contextmanager
def locked(folder: Path) -> Iterator[Holder]:
    """Holds the run folder for this process, which `.lock` names; leaves no lock file where no run has begun.

    Raises:
        ValueError: another process is training in it.
    """
    path, holder = folder / LOCK, Holder.here()
    with open(path, "a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = None
        except BlockingIOError:
            raise ValueError(f"another process is training in {folder}") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            held = _Held(folder, holder)
        try:
            _write(handle, holder)
            yield holder
        finally:
            if held is not None:
                held.give_back()
            if not (folder / CONFIG).exists():
                path.unlink(missing_ok=True)


class _Held:
    """A lock that is a file."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        self._path, self._holder = folder / HELD, holder
        while not self._created():
            self._check_left(folder)
        self._ended = threading.Event()
        threading.Thread(target=self._touch, daemon=True).start()

    def give_back(self) -> None:
        """Ends it, unless another process took it over meanwhile."""
        self._ended.set()
        if Holder.read(self._path) == self._holder:
            self._path.unlink(missing_ok=True)

    def _created(self) -> bool:
        """Creates the file, with its content in one step, and says whether it was not there."""
        ready = self._path.with_name(f"{HELD}.{self._holder.token}.tmp")
        ready.write_text(str(self._holder), encoding="utf-8")
        try:
            os.link(ready, self._path)
        except FileExistsError:
            return False
        except OSError as error:  # no hard links either: created empty, then filled
            if error.errno not in {errno.EPERM, *_NO_LOCKS}:
                raise
            return self._created_empty()
        finally:
            ready.unlink(missing_ok=True)
        return True

    def _created_empty(self) -> bool:
        try:
            with open(self._path, "x", encoding="utf-8") as handle:
                _write(handle, self._holder)
        except FileExistsError:
            return False
        return True

    def _check_left(self, folder: Path) -> None:
        """Removes a lock that its process left behind.

        Raises:
            ValueError: the process is there, or may be.
        """
        holder, age = Holder.read(self._path), self._age()
        if age is None:
            return  # it is gone meanwhile
        left = age > LEFT_AFTER or (holder is not None and holder.is_gone)
        if not left:
            who = f"process {holder.pid} on {holder.host}" if holder else "one"
            raise ValueError(
                f"another process is training in {folder}: {who} gave a sign of life {max(age, 0):.0f} s ago; "
                f"without one for {LEFT_AFTER:.0f} s the folder is free"
            )
        aside = self._path.with_name(f"{HELD}.{self._holder.token}.old.tmp")
        with suppress(FileNotFoundError):  # another process was faster
            os.rename(self._path, aside)
            if Holder.read(aside) != holder:  # and holds it now: it gets it back
                with suppress(OSError):
                    os.link(aside, self._path)
            aside.unlink()

    def _age(self) -> float | None:
        """Returns the seconds since it was touched, by the clock of the file system; None where it is gone."""
        now = self._path.with_name(f"{HELD}.{self._holder.token}.now.tmp")
        now.touch()
        try:
            return now.stat().st_mtime - self._path.stat().st_mtime
        except FileNotFoundError:
            return None
        finally:
            now.unlink(missing_ok=True)

    def _touch(self) -> None:
        while not self._ended.wait(TOUCHED_EVERY):
            with suppress(OSError):
                if Holder.read(self._path) != self._holder:
                    return
                os.utime(self._path)


def _numbering() -> str:
    """Returns what differs where the same number may mean another process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        text = boot + os.readlink("/proc/self/ns/pid")
    except OSError:
        text = str(uuid.getnode())
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _write(handle: IO[str], holder: Holder) -> None:
    """Writes who holds the folder, so that other machines see it."""
    handle.truncate(0)
    handle.write(str(holder))
    handle.flush()
    os.fsync(handle.fileno())
