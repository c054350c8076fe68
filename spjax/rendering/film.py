"""What a film shows, when, and what its captions say; the same for videos and web pages."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from spjax.envs.base import Task
from spjax.rendering.record import Episode

FRAME_RATE = 25  # 1/s; a GIF counts in hundredths of a second
HOLD = 0.8  # s of the film that the end of an episode stays
SPEEDS = (1.0, 0.25, 0.1)  # film seconds to choose from where nobody asks for one
SHORTEST = 2.0  # s of the film that an episode should last


@dataclasses.dataclass(frozen=True)
class Film:
    """Episodes of one policy, one after another."""

    env: Task
    episodes: tuple[Episode, ...]
    title: str  # whose episodes they are
    speed: float = (
        0.0  # seconds of the task in a second of the film; 0 for `fitting_speed`
    )

    def __post_init__(self) -> None:
        if not self.speed:
            object.__setattr__(self, "speed", fitting_speed(self.env, self.episodes))

    def moments(self, episode: Episode) -> Float[np.ndarray, " frame"]:
        """Returns when the frames of an episode are, in control steps; the end is held."""
        step = self.speed / (FRAME_RATE * self.env.control_period)
        end = np.full(1 + round(HOLD * FRAME_RATE), float(episode.length))
        return np.concatenate([np.arange(0.0, episode.length, step), end])

    def tempo(self) -> str:
        """Returns how fast time goes, in words."""
        return "real time" if self.speed == 1 else f"{self.speed:g} × real time"


def fitting_speed(env: Task, episodes: Sequence[Episode]) -> float:
    """Returns real time, or the slow motion in which the longest episode can be followed."""
    seconds = max(episode.length for episode in episodes) * env.control_period
    return next((speed for speed in SPEEDS if seconds / speed >= SHORTEST), SPEEDS[-1])


def task_text(env: Task, episode: Episode) -> str:
    """Returns the context in words, to three digits."""
    return env.context_space.describe(
        [float(f"{value:.3g}") for value in episode.context]
    )


def end_text(env: Task, episode: Episode) -> str:
    """Returns what the end of an episode is called."""
    return env.ends[episode.success]
