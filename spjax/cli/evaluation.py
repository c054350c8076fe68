"""`spjax evaluate`: new episodes with the newest policies of a run; nothing in the run folder changes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from spjax.cli import tables
from spjax.cli.errors import UsageError
from spjax.cli.flags import parse_command
from spjax.cli.own import load_own, words
from spjax.runs.read import read_record
from spjax.settings import Part, setting

EPISODES, EPISODES_EACH = 50, 10  # without and with several contexts
MAX_EPISODES = 100_000


@dataclasses.dataclass(frozen=True)
class EvaluateFlags(Part):
    """What to play."""

    kind: ClassVar[str] = "command"

    folder: Path = setting(help="the run folder")
    episodes: int | None = setting(
        None,
        help=f"of each policy (default: {EPISODES}; {EPISODES_EACH} in each of several contexts)",
    )
    context: tuple[float, ...] = setting(
        (), help="of all episodes (default: drawn from the target distribution)"
    )
    contexts: Path | None = setting(
        None, help="a file of contexts, a row each: .csv, .npy or .json"
    )
    grid: int | None = setting(
        None, help="values of each context, evenly from bound to bound, all combined"
    )
    deterministic: bool = setting(
        False, help="take the policy's own action, or draw from it"
    )
    seed: int = setting(0, help="of the episodes")
    out: Path | None = setting(
        None, help="file of all episodes: .json, .csv or .parquet"
    )
    map: Path | None = setting(
        None,
        help="picture of success and return over the contexts of a --grid, and the curriculum's way: .png",
    )
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="accept the run's own files as they are now"
    )


def evaluate(args: Sequence[str]) -> None:
    """Prints what the newest policies of a run reach on the target, or in contexts of the user's choice."""
    about = "Play new episodes with the newest policies of a run. The run folder stays as it is."
    how = parse_command("evaluate", about, EvaluateFlags, args)
    _check(how)
    record = read_record(how.folder)
    names = record.context_space.names
    rows: list[tuple[float, ...]] = []
    if how.contexts is not None:
        rows = tables.read_contexts(how.contexts, names)
    count = len(rows) or (how.grid or 1) ** len(names)
    several = bool(rows or how.grid)
    each = how.episodes or (EPISODES_EACH if several else EPISODES)
    if each * count > MAX_EPISODES:
        raise UsageError(
            f"at most {MAX_EPISODES} episodes of each policy can be played, got {each} in each of {count} contexts"
        )

    from spjax.cli.playing import (
        show,
    )  # and JAX, which a folder that is none need not wait for

    show(how, each, rows, load_own(words(how.use)))


def _check(how: EvaluateFlags) -> None:
    """Checks what needs no run folder."""
    if how.episodes is not None and not 1 <= how.episodes <= MAX_EPISODES:
        raise UsageError(
            f"--episodes must lie in [1, {MAX_EPISODES}], got {how.episodes}"
        )
    if not 0 <= how.seed < 2**32:
        raise UsageError(f"--seed must lie in [0, 2^32), got {how.seed}")
    given = [
        f"--{name}" for name in ("context", "contexts", "grid") if getattr(how, name)
    ]
    if how.grid is not None and how.grid < 2:
        raise UsageError(f"--grid must be at least 2, got {how.grid}")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; give one of them")
    if how.map is not None and how.grid is None:
        raise UsageError("--map draws the contexts of a grid; give --grid too")
    if how.out is not None:
        tables.check_file("--out", how.out, tuple(tables.WRITERS))
    if how.map is not None:
        tables.check_file("--map", how.map, (".png",))
