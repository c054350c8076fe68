"""Checkpoints of the whole state, one file each: written under a temporary name and renamed, so it is there or it is not.

A file is NumPy's .npz, arrays by name. Its parts carry checksums, so that damage is found when it is read. Nothing here is
shared between two folders: trainings in threads of one process do not meet.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from spjax.runs.files import write_atomically

Kind = tuple[tuple[int, ...], np.dtype]  # shape and dtype of an array


class Checkpoints:
    """The checkpoints of one run folder, named by the iterations completed; the newest two stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, iteration: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes the arrays of a state; when this returns, they are in the folder.

        Raises:
            OSError: they cannot be written, for example because the disk is full; the earlier ones stay.
        """

        def write(temporary: Path) -> None:
            with zipfile.ZipFile(temporary, "w") as file:
                for name, array in arrays.items():
                    with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                        np.lib.format.write_array(part, array, allow_pickle=False)

        write_atomically(self._path(iteration), write)
        for old in self.iterations()[:-2]:
            self._path(old).unlink(missing_ok=True)

    def iterations(self) -> list[int]:
        """Returns the iterations with a checkpoint, oldest first."""
        names = [path.stem for path in self._folder.glob("*.npz")]
        return sorted(int(name) for name in names if name.isdigit())

    def discard_after(self, iteration: int) -> None:
        """Removes what is newer, so that the newest one is one that can be read."""
        for newer in self.iterations():
            if newer > iteration:
                self._path(newer).unlink(missing_ok=True)

    def restore(
        self, iteration: int, kinds: Mapping[str, Kind]
    ) -> dict[str, np.ndarray]:
        """Returns the arrays of a state, in the order of `kinds`.

        Raises:
            ValueError: the checkpoint is damaged, or its arrays are not of these kinds.
        """
        path = self._path(iteration)
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except Exception as error:  # there is no end to what damage may raise
            raise ValueError(f"checkpoint {path} cannot be read: {error}") from error
        has = {name: (array.shape, array.dtype) for name, array in found.items()}
        for name in [*kinds, *has]:
            if has.get(name) != kinds.get(name):
                is_, should_be = _words(has.get(name)), _words(kinds.get(name))
                raise ValueError(
                    f"checkpoint {path} is of another program: {name} is {is_} and should be {should_be}"
                )
        return {name: found[name] for name in kinds}

    def _path(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.npz"


def _words(kind: Kind | None) -> str:
    if kind is None:
        return "missing"
    shape, dtype = kind
    return f"{dtype}{list(shape)}"
