"""`spjax evaluate`: new episodes with the newest policies of a run; nothing in the run folder changes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from spjax.cli.errors import UsageError
from spjax.cli.flags import Group, parse
from spjax.cli.own import load_own, words
from spjax.runs.read import read_record
from spjax.settings import Part, setting

MAX_EPISODES = 100_000


@dataclasses.dataclass(frozen=True)
class EvaluateFlags(Part):
    """What to play."""

    kind: ClassVar[str] = "command"

    folder: Path = setting(help="the run folder")
    episodes: int = setting(50, help="of each policy")
    context: tuple[float, ...] = setting(
        (), help="of all episodes (default: drawn from the target distribution)"
    )
    seed: int = setting(0, help="of the episodes")
    use: tuple[tuple[str, ...], ...] = setting(
        (), help="accept the run's own files as they are now"
    )


def evaluate(args: Sequence[str]) -> None:
    """Prints what the newest policies of a run reach on the target, or in one context."""
    about = "Play new episodes with the newest policies of a run. The run folder stays as it is."
    values = parse("evaluate", about, [Group("", EvaluateFlags)], args)[""]
    if not 1 <= values["episodes"] <= MAX_EPISODES:
        raise UsageError(
            f"--episodes must lie in [1, {MAX_EPISODES}], got {values['episodes']}"
        )
    if not 0 <= values["seed"] < 2**32:
        raise UsageError(f"--seed must lie in [0, 2^32), got {values['seed']}")
    read_record(values["folder"])
    from spjax.cli.playing import (
        play,
    )  # and JAX, which a folder that is none need not wait for

    used = load_own(words(values["use"]))
    play(values["folder"], used, values["episodes"], values["context"], values["seed"])
