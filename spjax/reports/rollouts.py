"""What a report plays: an episode to look at, and episodes all over the context space."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from spjax.cache import keep_compiled_programs
from spjax.rendering.page import page
from spjax.rendering.replay import replay
from spjax.rendering.space import stage
from spjax.training.play import grid, play, played
from spjax.training.train import restore

SIZE = (960, 540)  # pixels, whose shape the camera of a scene in space is set for
NUM_EPISODES = 3
MAX_EPISODES = 100_000


def film_page(folder: Path, accept_changes: bool = False) -> str:
    """Returns the HTML of a film: episodes of the first lane of a run on the target.

    Raises:
        ValueError: the run has no policy that can be read.
    """
    keep_compiled_programs()
    film = replay(folder, num_episodes=NUM_EPISODES, accept_changes=accept_changes)
    in_space = film.env.physics_scene() is not None
    return page(film, stage(film, SIZE) if in_space else None)


def on_grid(
    folder: Path, values: int, episodes: int, accept_changes: bool = False
) -> pa.Table:
    """Returns a row for each new episode of each lane, in all combinations of so many values of each context.

    Raises:
        ValueError: the run has no policy that can be read, or there are more than `MAX_EPISODES` to play.
    """
    keep_compiled_programs()
    config, program, states = restore(folder, accept_changes)
    table = grid(config.task.context_space, values)
    count = episodes * len(table)
    if count > MAX_EPISODES:
        raise ValueError(
            f"at most {MAX_EPISODES} episodes of each policy can be played, got {episodes} in each of {len(table)} contexts"
        )
    contexts, outcome = play(program, states, np.repeat(table, episodes, axis=0), count)
    return played(config, contexts, outcome)
