"""Files that are there whole or not at all: written under a temporary name, then renamed."""

import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Gives a hidden path beside `path`, ending in ".tmp", that takes its place at the end.

    After an error nothing is left of it, and an older file stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill a temporary file, and renames it."""
    with whole(path) as temporary:
        write(temporary)


def write_json(path: Path, content: object, sort_keys: bool = False) -> None:
    """Writes JSON that every reader accepts.

    Raises:
        ValueError: a number is infinite or NaN, which JSON does not know.
    """
    text = json.dumps(content, indent=1, sort_keys=sort_keys, allow_nan=False)
    write_atomically(
        path, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8")
    )


def write_table(path: Path, table: pa.Table) -> None:
    """Writes Parquet."""
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))
