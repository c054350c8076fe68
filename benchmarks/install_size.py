"""How large an installation is, and what for: ``python -m benchmarks.install_size``.

Installs the package with nothing but what it requires into a fresh environment, and adds up the files of every distribution
there, byte code too. The table goes from row to row: each says what comes on top of the rows above it, so that they sum up to
the whole. Writes ``benchmarks/results/install.json`` and ``install.md``.
"""

import dataclasses
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

import tyro
from packaging.requirements import Requirement

from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.runs.results import Record, write_records

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "install.json"
OURS = "spjax"
REASONS: Mapping[tuple[str, ...], str] = {  # what is required -> why it stays
    ("jax", "numpy", "scipy"): "every program; JAX itself requires SciPy",
    ("flax", "optax"): "states, networks and Adam; Flax brings Orbax and TensorStore",
    ("pyarrow",): "run folders are Parquet, which every training writes",
    ("mujoco", "mujoco-mjx"): "the physics of all tasks but the point mass and gate",
    ("matplotlib", "pillow"): "every training ends with its pictures",
    ("tyro", "rich", "jaxtyping"): "flags, progress, shapes",
    (OURS,): "the package itself",
}


@dataclasses.dataclass(frozen=True)
class Installed:
    """A distribution in an environment."""

    megabytes: float  # of 10^6 bytes, all its files
    requires: tuple[Requirement, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """What some requirements bring on top of others."""

    names: tuple[str, ...]
    brought: Mapping[str, float]  # distribution -> megabytes
    reason: str

    @property
    def megabytes(self) -> float:
        """The sum."""
        return sum(self.brought.values())


def main(results: Path = RESULTS) -> None:
    """Installs, measures, and writes record and table.

    Args:
        results: file to write; the table goes beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = installed(_installation(Path(folder)))
    rows = rows_of(found)
    write_records(results, records_of(rows))
    text = table(rows)
    results.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def installed(packages: Path) -> dict[str, Installed]:
    """Returns the distributions in a folder of packages by their names."""
    found = {}
    for distribution in metadata.distributions(path=[str(packages)]):
        files = {Path(str(file.locate())) for file in distribution.files or ()}
        found[_name(distribution.name)] = Installed(
            megabytes=sum(f.stat().st_size for f in files if f.is_file()) / 1e6,
            requires=tuple(map(Requirement, distribution.requires or ())),
        )
    return found


def rows_of(
    found: Mapping[str, Installed],
    reasons: Mapping[tuple[str, ...], str] = REASONS,
    ours: str = OURS,
) -> list[Row]:
    """Returns what the requirements of a distribution bring, each row on top of those before.

    Raises:
        SystemExit: one of its requirements stands in no row.
    """
    rows, before = [], frozenset[str]()
    for names, reason in reasons.items():
        brings = frozenset(names) if ours in names else _with_all(names, found)
        new = {name: found[name].megabytes for name in sorted(brings - before)}
        rows.append(Row(names, new, reason))
        before |= brings
    asked = {_name(wanted.name) for wanted in _wanted(found[ours], "")}
    without = asked - before
    if without:
        raise SystemExit(
            f"say in benchmarks/install_size.py why this stays: {', '.join(sorted(without))}"
        )
    return rows


def table(rows: Iterable[Row]) -> str:
    """Returns the table in Markdown, the largest parts of each row by name."""
    rows = list(rows)
    lines = ["| required | MB | packages | above all | what for |"]
    lines.append("| --- | ---: | ---: | --- | --- |")
    for row in rows:
        largest = sorted(row.brought.items(), key=lambda one: -one[1])[:4]
        parts = ", ".join(f"{name} {size:.0f}" for name, size in largest if size >= 1)
        cells = (", ".join(row.names), f"{row.megabytes:.0f}", str(len(row.brought)))
        lines.append(f"| {' | '.join(cells)} | {parts} | {row.reason} |")
    total = sum(row.megabytes for row in rows)
    count = sum(len(row.brought) for row in rows)
    lines.append(f"| together | {total:.0f} | {count} | | |")
    return "\n".join(lines) + "\n"


def records_of(rows: Iterable[Row]) -> list[Record]:
    """Returns the record of the whole, of every row, and of every distribution of at least 1 MB."""
    rows = list(rows)
    values = {"together": sum(row.megabytes for row in rows)}
    values |= {f"row of {row.names[0]}": row.megabytes for row in rows}
    for row in rows:
        values |= {name: size for name, size in row.brought.items() if size >= 1}
    return [
        measured_here(
            experiment="install",
            env="-",
            agent="-",
            teacher="-",
            metric=f"{what}: MB installed",
            seeds=[0],
            values=[value],
            command=command_line("benchmarks.install_size"),
        )
        for what, value in values.items()
    ]


def _installation(folder: Path) -> Path:
    """Returns the packages of a fresh environment with this one alone in it, without pip."""
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    wanted = ["-c", str(ROOT / "constraints.txt"), str(ROOT)]
    subprocess.run([*pip, "install", "--quiet", *wanted], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "-y", "setuptools"], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "-y", "pip"], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    return packages


def _with_all(names: Iterable[str], found: Mapping[str, Installed]) -> frozenset[str]:
    """Returns these distributions and all that they require."""
    seen: set[tuple[str, str]] = set()
    left = [(name, "") for name in names]
    while left:
        name, extra = one = left.pop()
        if one in seen or name not in found:
            continue
        seen.add(one)
        for wanted in _wanted(found[name], extra):
            left += [(_name(wanted.name), more) for more in ("", *wanted.extras)]
    return frozenset(name for name, _ in seen)


def _wanted(one: Installed, extra: str) -> list[Requirement]:
    """Returns what a distribution requires on this machine, with one of its extras or with none."""
    return [
        wanted
        for wanted in one.requires
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra})
    ]


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    tyro.cli(main)
