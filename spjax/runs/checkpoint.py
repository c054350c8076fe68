"""Checkpoints of the whole state, by Orbax: written under a temporary name and renamed, so they are there or they are not."""

import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

logging.getLogger("absl").setLevel(logging.CRITICAL)  # Orbax reports every save, and what it raises a second time


class Checkpoints:
    """The checkpoints of one run folder, named by the iterations completed; the newest two stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._saver = ocp.StandardCheckpointer()

    def save(self, iteration: int, state: Any) -> None:
        """Writes the state (host arrays) in the background; an earlier save is finished first."""
        self.wait()
        for old in self.iterations()[:-1]:
            shutil.rmtree(self._folder / f"{old:06d}", ignore_errors=True)
        with _system_errors():
            self._saver.save(self._folder / f"{iteration:06d}", state, force=True)

    def wait(self) -> None:
        """Returns when everything is on disk; raises what a save in the background met, OSError for a full disk."""
        with _system_errors():
            self._saver.wait_until_finished()

    def close(self) -> None:
        """Finishes and releases the writer."""
        self._saver.close()

    def iterations(self) -> list[int]:
        """Returns the iterations with a complete checkpoint, oldest first."""
        if not self._folder.is_dir():
            return []
        return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdigit())

    def discard_after(self, iteration: int) -> None:
        """Removes what is newer, so that the newest one is one that can be read."""
        for newer in self.iterations():
            if newer > iteration:
                shutil.rmtree(self._folder / f"{newer:06d}", ignore_errors=True)

    def restore(self, iteration: int, like: Any) -> Any:
        """Returns the state as host arrays with the structure, shapes and dtypes of `like`.

        Raises:
            ValueError: the checkpoint does not fit, or cannot be read.
        """
        path = self._folder / f"{iteration:06d}"
        blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
        try:
            return self._saver.restore(path, target=blank)
        except Exception as error:
            raise ValueError(f"checkpoint {path} cannot be read: {str(error).splitlines()[0]}") from error


@contextmanager
def _system_errors() -> Iterator[None]:
    """Raises as OSError what the storage below Orbax reports as ValueError with the number of a system error."""
    try:
        yield
    except ValueError as error:
        if not (code := re.search(r"os_error_code='(\d+)'", str(error))):
            raise
        number = int(code.group(1))
        raise OSError(number, os.strerror(number), "a checkpoint") from error
