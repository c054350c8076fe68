"""`spjax report`: one or several runs as one HTML file."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from spjax.cli.errors import UsageError
from spjax.cli.flags import parse_command
from spjax.cli.own import load_own, words
from spjax.cli.terminal import console
from spjax.runs.read import read_record
from spjax.settings import Part, setting

EPISODES = 10  # in each context of a grid


@dataclasses.dataclass(frozen=True)
class ReportFlags(Part):
    """What to report."""

    kind: ClassVar[str] = "command"

    folders: tuple[Path, ...] = setting(
        help="the run folders, finished or not; several are overlaid"
    )
    film: bool = setting(
        True, help="play an episode of the first seed of each run, and show it"
    )
    grid: int | None = setting(
        None,
        help="for a competence map: values of each context, evenly from bound to bound, all combined",
    )
    episodes: int | None = setting(
        None,
        help=f"of each policy in each context of the --grid (default: {EPISODES})",
    )
    out: Path | None = setting(
        None, help="the .html file (default: report.html in the run folder)"
    )
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="accept the runs' own files as they are now"
    )


def report(args: Sequence[str]) -> None:
    """Writes one HTML file about runs, and says where it is."""
    about = (
        "Write one HTML file about a run, or about several beside each other: results, curves, contexts, "
        "a rollout. It needs nothing else, so it can be sent and archived."
    )
    how = parse_command("report", about, ReportFlags, args)
    folders = how.folders
    _check(how)
    for folder in folders:
        read_record(folder)
    from spjax.reports.write import destination  # which needs all that analysis does
    from spjax.reports.write import report as write

    destination(folders, how.out)
    used = load_own(words(how.use))
    file = write(
        folders,
        how.out,
        film=how.film,
        grid=how.grid,
        episodes=how.episodes or EPISODES,
        accept_changes=used,
    )
    size = file.stat().st_size / 1e6
    console().print(f"report: {file} ({size:.1f} MB)", soft_wrap=True)


def _check(how: ReportFlags) -> None:
    if how.grid is not None and not 2 <= how.grid <= 50:
        raise UsageError(f"--grid must lie in [2, 50], got {how.grid}")
    if how.episodes is not None and how.episodes < 1:
        raise UsageError(f"--episodes must be at least 1, got {how.episodes}")
    if how.episodes is not None and how.grid is None:
        raise UsageError("--episodes is for the contexts of a --grid; give --grid too")
