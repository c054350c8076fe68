"""Tables that come in and go out as files: contexts, and the episodes that were played in them."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spjax.cli.errors import Failure, UsageError
from spjax.runs import files

Rows = list[tuple[float, ...]]
Numbers = Sequence[Sequence[float]]  # rows of any length


def read_contexts(path: Path, names: Sequence[str]) -> Rows:
    """Returns the contexts that a file holds, a row each; whether they lie inside their bounds is not asked here.

    A CSV file may begin with the names of its columns, which then may stand in any order; so may the objects of a JSON file.

    Raises:
        UsageError: there is no such file, or it holds no rows of as many numbers as there are names.
    """
    if path.suffix not in _READERS:
        raise UsageError(
            f"--contexts needs a file that ends in {_listed(_READERS)}, got {path}"
        )
    if not path.is_file():
        raise UsageError(f"there is no file {path} with contexts")
    try:
        rows = _READERS[path.suffix](path, names)
    except (ValueError, TypeError, EOFError) as error:
        raise UsageError(
            f"{path} holds no contexts that can be read: {error}"
        ) from None
    if not rows:
        raise UsageError(f"{path} holds no contexts")
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise UsageError(
                f"{path}, context {number}: {len(names)} numbers are needed ({', '.join(names)}), got {len(row)}"
            )
    return [tuple(map(float, row)) for row in rows]


def check_file(flag: str, path: Path, suffixes: Sequence[str]) -> None:
    """Checks that a file of one of these suffixes can be written, before the work that it is for.

    Raises:
        UsageError: it has another suffix.
        Failure: it cannot be written.
    """
    if path.suffix not in suffixes:
        raise UsageError(
            f"{flag} needs a file that ends in {_listed(suffixes)}, got {path}"
        )
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise Failure(f"{path} cannot be written")


def write_table(path: Path, table: pa.Table) -> None:
    """Writes rows as JSON, CSV or Parquet, by the suffix of the file."""
    WRITERS[path.suffix](path, table)


def _write_json(path: Path, table: pa.Table) -> None:
    files.write_json(path, table.to_pylist())


def _write_csv(path: Path, table: pa.Table) -> None:
    for number, field in enumerate(table.schema):
        if pa.types.is_list(field.type):  # a swept setting of several numbers
            texts = [" ".join(map(str, row)) for row in table[field.name].to_pylist()]
            table = table.set_column(number, field.name, pa.array(texts))
    files.write_atomically(
        path, lambda temporary: pyarrow.csv.write_csv(table, temporary)
    )


WRITERS: Mapping[str, Callable[[Path, pa.Table], None]] = {
    ".json": _write_json,
    ".csv": _write_csv,
    ".parquet": files.write_table,
}


def _read_csv(path: Path, names: Sequence[str]) -> Numbers:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [
        [word.strip() for word in line.split(",")] for line in lines if line.strip()
    ]
    if not rows or _are_numbers(rows[0]):
        return [[float(word) for word in row] for row in rows]
    header, *body = rows
    places = _places(header, names)
    for row in body:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(header)} numbers is {','.join(row)}")
    return [[float(row[place]) for place in places] for row in body]


def _read_npy(path: Path, names: Sequence[str]) -> Numbers:
    array = np.load(path, allow_pickle=False)
    if array.ndim != 2:
        raise ValueError(f"an array [row, context] is needed, got {list(array.shape)}")
    return [tuple(row) for row in array.astype(float).tolist()]


def _read_json(path: Path, names: Sequence[str]) -> Numbers:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, list):
        raise ValueError(f"a list of rows is needed, got {type(content).__name__}")
    rows = []
    for row in content:
        if isinstance(row, dict):
            keys = list(row)
            row = [list(row.values())[place] for place in _places(keys, names)]
        if not isinstance(row, list):
            raise ValueError(f"a row is a list of numbers, got {row!r}")
        rows.append([float(number) for number in row])
    return rows


_READERS: Mapping[str, Callable[[Path, Sequence[str]], Numbers]] = {
    ".csv": _read_csv,
    ".npy": _read_npy,
    ".json": _read_json,
}


def _places(header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Returns where each context stands; raises ValueError where the columns are not the contexts."""
    if sorted(header) != sorted(names):
        raise ValueError(
            f"its columns must be {', '.join(names)}, got {', '.join(header)}"
        )
    return [list(header).index(name) for name in names]


def _are_numbers(words: Sequence[str]) -> bool:
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return True


def _listed(suffixes: Iterable[str]) -> str:
    *most, last = suffixes
    return f"{', '.join(most)} or {last}" if most else last
