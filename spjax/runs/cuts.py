"""Which lanes of a sweep stopped early because their settings were behind, in `cuts.json`; the file is there if any did."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spjax.runs import files

CUTS = "cuts.json"


@dataclasses.dataclass(frozen=True)
class Cut:
    """One setting of a sweep that stopped, with all its seeds."""

    iteration: int  # after which it stopped
    lanes: tuple[int, ...]
    mean: float | None  # over the seeds, return on the target there; None if not finite
    standard_error: float | None  # None for a single seed
    kept: float | None  # the same mean of the last setting that went on
    rank: int  # among the settings that were left, from 1
    of: int  # how many settings were left

    @property
    def why(self) -> str:
        """One clause, for tables and pictures."""
        return f"rank {self.rank} of {self.of} after {self.iteration} iterations"


def write_cuts(folder: Path, cuts: Sequence[Cut]) -> None:
    """Writes cuts.json."""
    content = [dataclasses.asdict(cut) for cut in cuts]
    files.write_json(folder / CUTS, content)


def read_cuts(folder: Path) -> tuple[Cut, ...]:
    """Returns what cuts.json says, nothing where there is none.

    Raises:
        ValueError: the file is damaged.
    """
    file = folder / CUTS
    if not file.is_file():
        return ()
    try:
        return tuple(_cut(entry) for entry in json.loads(file.read_text("utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{file} is damaged ({error}); delete it and resume the run, which makes it anew"
        ) from None


def discard_after(folder: Path, iteration: int) -> None:
    """Removes cuts after this iteration, which a resumed run makes again."""
    cuts = read_cuts(folder)
    kept = [cut for cut in cuts if cut.iteration <= iteration]
    if not kept:
        (folder / CUTS).unlink(missing_ok=True)
    elif len(kept) < len(cuts):
        write_cuts(folder, kept)


def active(cuts: Sequence[Cut], num_lanes: int, iteration: int) -> list[int]:
    """Returns the lanes that get to an iteration: those that did not stop before it."""
    stopped = {lane for cut in cuts if cut.iteration < iteration for lane in cut.lanes}
    return [lane for lane in range(num_lanes) if lane not in stopped]


def _cut(entry: dict[str, Any]) -> Cut:
    return Cut(**{**entry, "lanes": tuple(entry["lanes"])})
