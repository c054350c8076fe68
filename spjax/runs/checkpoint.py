"""Checkpoints of the whole state, one file each: written under a temporary name and renamed, so it is there or it is not.

A file is NumPy's .npz, an array for each leaf under the path of its fields. Its parts carry checksums, so that damage is found
when it is read. Nothing here is shared between two folders: trainings in threads of one process do not meet.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from spjax.runs.files import write_atomically


class Checkpoints:
    """The checkpoints of one run folder, named by the iterations completed; the newest two stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, iteration: int, state: Any) -> None:
        """Writes the state, a pytree of host arrays; when this returns, it is on disk.

        Raises:
            OSError: it cannot be written, for example because the disk is full; the earlier ones stay.
        """
        leaves, _ = _by_path(state)

        def write(temporary: Path) -> None:
            with open(temporary, "wb") as file:
                np.savez(file, **leaves)

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

    def restore(self, iteration: int, like: Any) -> Any:
        """Returns the state as host arrays with the structure, shapes and dtypes of `like`.

        Raises:
            ValueError: the checkpoint is damaged, or is of another program.
        """
        path = self._path(iteration)
        expected, structure = _by_path(like)
        try:
            with np.load(path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except Exception as error:  # there is no end to what damage may raise
            raise ValueError(f"checkpoint {path} cannot be read: {error}") from error
        if _kinds(found) != _kinds(expected):
            raise ValueError(f"checkpoint {path} is of another program: {_difference(found, expected)}")
        return jax.tree.unflatten(structure, [found[name] for name in expected])

    def _path(self, iteration: int) -> Path:
        return self._folder / f"{iteration:06d}.npz"


Kind = tuple[tuple[int, ...], np.dtype]


def _by_path(tree: Any) -> tuple[dict[str, Any], Any]:
    """Returns the leaves by the path of their fields, such as "agent_state/params/0", and the structure around them."""
    leaves, structure = jax.tree.flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}, structure


def _kinds(leaves: dict[str, Any]) -> dict[str, Kind]:
    return {name: (leaf.shape, np.dtype(leaf.dtype)) for name, leaf in leaves.items()}


def _difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Returns in words the first leaf that is not as it should be."""
    has, needs = _kinds(found), _kinds(expected)
    name = next(name for name in [*needs, *has] if has.get(name) != needs.get(name))
    return f"{name} is {_words(has.get(name))} and should be {_words(needs.get(name))}"


def _words(kind: Kind | None) -> str:
    return "missing" if kind is None else f"{kind[1]}{list(kind[0])}"
