"""`spjax render`: films of episodes of a run's newest policy, as video and as web page."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from spjax.cli.errors import UsageError
from spjax.cli.flags import parse_command, suggest
from spjax.cli.own import load_own, words
from spjax.runs.read import read_record
from spjax.settings import Part, setting

FORMATS = ("mp4", "gif", "html")
MAX_EPISODES = 100
MAX_SIZE = 4096


@dataclasses.dataclass(frozen=True)
class RenderFlags(Part):
    """What to film, and how."""

    kind: ClassVar[str] = "command"

    folder: Path = setting(help="the run folder")
    seed: int | None = setting(
        None, help="of the run: whose policy (default: the first)"
    )
    lane: tuple[tuple[str, ...], ...] = setting(
        (), help="of a sweep: NAME=VALUE (default: the first values)"
    )
    context: tuple[float, ...] = setting(
        (), help="of all episodes (default: drawn from the target distribution)"
    )
    episodes: int = setting(1, help="one after another in one film")
    draw: int = setting(0, help="seed of what is random in the episodes")
    format: tuple[str, ...] = setting(FORMATS, help="mp4, gif, html")
    speed: float | None = setting(
        None, help="1 is real time (default: slower where an episode is short)"
    )
    camera: tuple[float, ...] = setting(
        (),
        help="azimuth, elevation [degrees] and distance [m] of the start (default: the task's)",
    )
    size: tuple[int, ...] = setting(
        (), help="width and height of the mp4 in pixels, even; the gif has half of it"
    )
    out: Path | None = setting(None, help="folder (default: RUN/videos)")
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="accept the run's own files as they are now"
    )


def render(args: Sequence[str]) -> None:
    """Films episodes of the newest policy of one seed of a run."""
    about = "Film new episodes of a run's newest policy: a video, a GIF and an interactive web page."
    how = parse_command("render", about, RenderFlags, args)
    _check(how)
    read_record(how.folder)
    from spjax.cli.filming import (
        film,
    )  # and JAX, which a folder that is none need not wait for

    film(how, load_own(words(how.use)))


def _check(how: RenderFlags) -> None:
    for wanted in how.format:
        if wanted not in FORMATS:
            raise UsageError(
                f"unknown format {wanted!r}; {suggest(wanted, FORMATS, 'known: ' + ', '.join(FORMATS))}"
            )
    if not 1 <= how.episodes <= MAX_EPISODES:
        raise UsageError(
            f"--episodes must lie in [1, {MAX_EPISODES}], got {how.episodes}"
        )
    if not 0 <= how.draw < 2**32:
        raise UsageError(f"--draw must lie in [0, 2^32), got {how.draw}")
    if how.speed is not None and not 0.01 <= how.speed <= 100:
        raise UsageError(f"--speed must lie in [0.01, 100], got {how.speed:g}")
    _check_size(how.size)


def _check_size(size: tuple[int, ...]) -> None:
    if size and (
        len(size) != 2
        or any(number % 2 or not 160 <= number <= MAX_SIZE for number in size)
    ):
        raise UsageError(
            f"--size needs two even numbers in [160, {MAX_SIZE}], got {' '.join(map(str, size))}"
        )
