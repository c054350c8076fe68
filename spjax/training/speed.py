"""How fast this machine trained a program before, so that the time of a sweep is said before it compiles.

Kept beside the compiled programs, in `speeds.json`: seconds that a core, or a device, takes for a lane and iteration, evaluation
included. It is a convenience: where it cannot be read or written, nothing is said.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import jax

from spjax.runs.files import write_json
from spjax.runs.provenance import device
from spjax.training.program import Program

_FILE = "speeds.json"
_MOST = 200  # programs, of which the oldest are forgotten


def known_seconds(program: Program, length: int) -> float | None:
    """Returns the seconds of a core or device for a lane and iteration, in chunks of this length; None where it never ran."""
    seconds = _speeds().get(_name(program, length))
    return seconds if isinstance(seconds, int | float) and seconds > 0 else None


def remember(program: Program, length: int, seconds: float) -> None:
    """Keeps them."""
    with suppress(OSError, RuntimeError, ValueError):
        name = _name(program, length)
        speeds = {other: kept for other, kept in _speeds().items() if other != name}
        newest = list(speeds.items())[1 - _MOST :]
        write_json(_file(), dict([*newest, (name, float(f"{seconds:.3g}"))]))


def _speeds() -> dict[str, object]:
    with suppress(OSError, RuntimeError, ValueError):
        found = json.loads(_file().read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _name(program: Program, length: int) -> str:
    """Returns what tells programs and machines apart; traced settings and seeds do not."""
    lane = program.layout.one(program.experiments, 0)
    shapes = [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(lane)]
    text = f"{jax.tree.structure(lane)} {shapes} {length} {device()}"
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _file() -> Path:
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if not folder:
        raise OSError("compiled programs are not kept")
    return Path(folder) / _FILE
