"""Checkpoints of the whole state: each file written under a temporary name and renamed, so it is there or it is not.

    000010.npz           all lanes after ten iterations
    000010/000256.npz    or a block of them, by the number of its first lane; it says which lanes it holds

A file is NumPy's .npz, arrays by name, a row a lane. Its parts carry checksums, so that damage is found when it is read. Nothing
here is shared between two folders: trainings in threads of one process do not meet.
"""

import time
import zipfile
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from spjax.runs.files import write_atomically

Kind = tuple[tuple[int, ...], np.dtype]  # shape and dtype of a row of an array
_LOOK_AGAIN = 0.05  # seconds
LANES = "lanes"  # the array that says which lanes a block holds


class DamagedCheckpoint(UserWarning):
    """A newer checkpoint cannot be read, and an older one takes its place."""


class Checkpoints:
    """The checkpoints of one run folder, named by the iterations completed; the newest two stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, iteration: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes the arrays of all lanes' states; when this returns, they are in the folder.

        Raises:
            OSError: they cannot be written, for example because the disk is full; the earlier ones stay.
        """
        _write(self._path(iteration), arrays)
        self.prune()

    def save_block(
        self, iteration: int, lanes: Sequence[int], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Writes the arrays of some lanes, which this iteration does not have yet; earlier iterations stay.

        Raises:
            OSError: as for `save`.
        """
        path = self._block_folder(iteration) / f"{lanes[0]:06d}.npz"
        _write(path, {LANES: np.asarray(lanes, np.int32), **arrays})

    def iterations(self) -> list[int]:
        """Returns the iterations with a checkpoint, of whatever lanes, oldest first."""
        found = {int(path.stem) for path in self._files("*.npz")}
        found |= {int(path.parent.name) for path in self._files("*/*.npz")}
        return sorted(found)

    def is_whole(self, iteration: int) -> bool:
        """Says whether all lanes of an iteration are in one file, whatever it is worth."""
        return self._path(iteration).is_file()

    def lanes(self, iteration: int) -> dict[int, tuple[Path, int]]:
        """Returns in which file and row each lane is that has a checkpoint there; unreadable files are left out."""
        found = {}
        for path in self._of(iteration):
            with suppress(ValueError):
                for row, lane in enumerate(_lanes_of(path)):
                    found[lane] = path, row
        return found

    def wait_for(self, iteration: int, lanes: Collection[int], seconds: float) -> None:
        """Waits until lanes are there that another machine has saved: a shared file system may show them late.

        Raises:
            OSError: after so many seconds they are not.
        """
        end = time.monotonic() + seconds
        while missing := set(lanes) - self.lanes(iteration).keys():
            if time.monotonic() > end:
                raise OSError(
                    f"{self._folder} does not show {len(missing)} runs that were saved there at iteration {iteration}"
                )
            time.sleep(_LOOK_AGAIN)

    def restore(
        self,
        iteration: int,
        kinds: Mapping[str, Kind],
        lanes: Sequence[int] | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns the arrays of states, a row a lane, in the order of `kinds`.

        Args:
            iteration: of the checkpoint.
            kinds: shape and dtype of a row of each array.
            lanes: which ones, in this order; None for all that are there.

        Raises:
            ValueError: the checkpoint is damaged or lacks a lane, or its arrays are not of these kinds.
        """
        for path in self._of(iteration):
            _lanes_of(path)  # says what is wrong with it
        places = self.lanes(iteration)
        lanes = sorted(places) if lanes is None else lanes
        by_file: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        for number, lane in enumerate(lanes):
            if lane not in places:
                raise ValueError(
                    f"checkpoint {self._path(iteration)} has no lane {lane}"
                )
            path, row = places[lane]
            by_file[path].append((number, row))
        states = {
            name: np.empty((len(lanes), *shape), dtype)
            for name, (shape, dtype) in kinds.items()
        }
        for path, rows in by_file.items():
            found = _states(path, kinds)
            numbers, from_rows = np.array(rows).T
            for name in kinds:
                states[name][numbers] = found[name][from_rows]
        return states

    def beside(
        self, iteration: int, names: Sequence[str]
    ) -> tuple[list[int], dict[str, np.ndarray]]:
        """Returns lanes that were saved in blocks, in order, and arrays of these names that were saved beside their states.

        Raises:
            ValueError: a file is damaged or has no array of a name.
        """
        lanes: list[int] = []
        rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for path in self._of(iteration):
            lanes += _lanes_of(path)
            with _opened(path) as file:
                for name in names:
                    rows[name].append(file[name])
        # a worker that was taken for lost may have saved a lane once more, with the same bits
        found, places = np.unique(lanes, return_index=True)
        joined = {name: np.concatenate(rows[name])[places] for name in names}
        return found.tolist(), joined

    def unreadable(self, iteration: int, kinds: Mapping[str, Kind]) -> dict[Path, str]:
        """Returns the files of an iteration that hold no states of these kinds, and what is wrong with each."""
        found = {}
        for path in self._of(iteration):
            try:
                _lanes_of(path), _states(path, kinds)
            except ValueError as problem:
                found[path] = str(problem)
        return found

    def discard_unreadable(self, iteration: int, kinds: Mapping[str, Kind]) -> None:
        """Removes those files."""
        for path in self.unreadable(iteration, kinds):
            path.unlink(missing_ok=True)

    def discard_after(self, iteration: int, but: int | None = None) -> None:
        """Removes what is newer, so that the newest one is one that can be read; not what belongs to iteration `but`."""
        for newer in self.iterations():
            if newer > iteration and newer != but:
                self._discard(newer)

    def prune(self, stopped: Mapping[int, Container[int]] | None = None) -> None:
        """Removes all but the newest two, and files with lanes that stopped at that iteration."""
        for old in self.iterations()[:-2]:
            self._discard(old, (stopped or {}).get(old, ()))

    def _discard(self, iteration: int, needed: Container[int] = ()) -> None:
        for path in self._of(iteration):
            if not (needed and any(lane in needed for lane in _lanes_of(path))):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # none, or not empty
            self._block_folder(iteration).rmdir()

    def _of(self, iteration: int) -> list[Path]:
        whole = [self._path(iteration)] if self._path(iteration).is_file() else []
        return whole + sorted(self._files(f"{iteration:06d}/*.npz"))

    def _files(self, pattern: str) -> list[Path]:
        return [
            path
            for path in self._folder.glob(pattern)
            if path.stem.isdigit()
            and (path.parent == self._folder or path.parent.name.isdigit())
            and path.is_file()
        ]

    def _path(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.npz"

    def _block_folder(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}"


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    def write(temporary: Path) -> None:
        with zipfile.ZipFile(temporary, "w") as file:
            for name, array in arrays.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                    np.lib.format.write_array(part, array, allow_pickle=False)

    write_atomically(path, write)


def _lanes_of(path: Path) -> list[int]:
    """Returns the lanes of a file, in the order of its rows; raises ValueError where it is damaged."""
    with _opened(path) as file:
        if LANES in file.files:
            return [int(lane) for lane in file[LANES]]
        return list(range(len(file[file.files[0]])))


def _states(path: Path, kinds: Mapping[str, Kind]) -> dict[str, np.ndarray]:
    """Returns the arrays of a file, checked; beside the states a block may have other ones."""
    with _opened(path) as file:
        block = LANES in file.files
        found = {name: file[name] for name in file.files if not block or name in kinds}
    has = {name: (array.shape[1:], array.dtype) for name, array in found.items()}
    for name in [*kinds, *has]:
        if has.get(name) != kinds.get(name):
            is_, should_be = _words(has.get(name)), _words(kinds.get(name))
            raise ValueError(
                f"checkpoint {path} is of another program: {name} is {is_} and should be {should_be}"
            )
    return found


@contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    """Gives the arrays of a file by name; raises ValueError where it is damaged, also from inside the context."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            yield file
    except Exception as error:  # there is no end to what damage may raise
        raise ValueError(f"checkpoint {path} cannot be read: {error}") from error


def _words(kind: Kind | None) -> str:
    if kind is None:
        return "missing"
    shape, dtype = kind
    return f"{dtype}{list(shape)}"
