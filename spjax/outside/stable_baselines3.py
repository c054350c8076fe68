"""A callback of Stable-Baselines3 that updates a teacher while the agent trains, and logs what the teacher says."""

import numpy as np

from spjax.outside.checks import count_of
from spjax.outside.teacher import Metrics, NumpyTeacher

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"spjax.outside.stable_baselines3 needs {missing.name}: pip install 'spjax[sb3]'"
    ) from None


class TeacherCallback(BaseCallback):
    """Updates the teacher at the end of a rollout, when enough episodes are recorded.

    A rollout of PPO or A2C is ``n_steps`` steps of every environment, one of SAC, TD3 or DQN ``train_freq`` steps; the latter
    are short, so give a number of episodes there.
    """

    def __init__(
        self, teacher: NumpyTeacher, num_episodes: int = 1, verbose: int = 0
    ) -> None:
        """Makes the callback.

        Args:
            teacher: the one of the `spjax.outside.gymnasium.TaughtEnv` that are trained in.
            num_episodes: how many must be recorded for an update; fewer wait for the next rollout.
            verbose: of Stable-Baselines3.

        Raises:
            ValueError: not a whole number of at least 1.
        """
        super().__init__(verbose)
        self.teacher = teacher
        self._num_episodes = count_of(num_episodes, "num_episodes")

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        recorded = self.teacher.recorded
        if recorded < self._num_episodes:
            return
        metrics = self.teacher.update()
        self.logger.record("teacher/episodes", recorded)
        for name, value in flat(metrics, self.teacher.space.names).items():
            self.logger.record(f"teacher/{name}", value)


def flat(metrics: Metrics, names: tuple[str, ...]) -> dict[str, float]:
    """Returns the numbers among metrics, and those with one entry a context dimension under the names of these."""
    found: dict[str, float] = {}
    for metric, value in metrics.items():
        if np.ndim(value) == 0:
            found[metric] = float(value)
        elif np.shape(value) == (len(names),):
            for name, entry in zip(names, np.asarray(value), strict=True):
                found[f"{metric}/{name}"] = float(entry)
    return found
