"""A teacher beside a Gymnasium environment: it is asked for a context at every reset and told of every finished episode."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from spjax.outside.teacher import NumpyTeacher

try:
    import gymnasium
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "spjax.outside.gymnasium needs Gymnasium: pip install 'spjax[gymnasium]'"
    ) from None

Observation = TypeVar("Observation")
Action = TypeVar("Action")

Info = dict[str, Any]  # as Gymnasium has it
Apply = Callable[[gymnasium.Env, np.ndarray], None]


def success_of(info: Mapping[str, object]) -> bool:
    """Returns ``info["success"]`` or ``info["is_success"]``, False where there is neither."""
    return bool(info.get("success", info.get("is_success", False)))


class TaughtEnv(gymnasium.Wrapper[Observation, Action, Observation, Action]):
    """An environment whose contexts a teacher chooses. Several may share one teacher, all in its process.

    The context is pulled in `reset`, since resets that a vector environment or a library makes by itself pass no options. An
    episode is recorded at its end; whoever trains calls the teacher's `update`, for example
    `spjax.outside.stable_baselines3.TeacherCallback`. A reset with a context of its own, such as one for a test on the target,
    is none of the teacher's business and is not recorded, and neither is an episode that is broken off.
    """

    def __init__(
        self,
        env: gymnasium.Env[Observation, Action],
        teacher: NumpyTeacher,
        discount: float = 1.0,
        apply: Apply | None = None,
        success: Callable[[Info], bool] = success_of,
    ) -> None:
        """Puts the teacher beside the environment.

        Args:
            env: with ``options={"context": ...}`` in its `reset`, as `spjax.envs.adapters.gymnasium.TaskEnv` has.
            teacher: shared by as many environments as you like.
            discount: of the returns that the teacher is told; 1 sums the rewards.
            apply: called with the unwrapped environment and the context before each reset, for environments without that option.
            success: whether an episode with this last ``info`` succeeded.

        Raises:
            ValueError: a discount outside [0, 1].
        """
        super().__init__(env)
        if not 0 <= discount <= 1:
            raise ValueError(f"discount must lie in [0, 1], got {discount}")
        self.teacher = teacher
        self._discount = discount
        self._apply = apply
        self._success = success
        self._context: np.ndarray | None = None  # None where there is nothing to record

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Observation, Info]:
        """Starts an episode in the teacher's next context, or in ``options["context"]``, and says in ``info`` which it is."""
        given = dict(options or {})
        own = given.get("context") is not None
        context = (
            np.asarray(given["context"], np.float32)
            if own
            else self.teacher.sample()[0]
        )
        if self._apply is None:
            given["context"] = context
        else:
            given.pop("context", None)
            self._apply(self.env.unwrapped, context)
        observation, info = self.env.reset(seed=seed, options=given)
        self._context = None if own else context
        self._return, self._weight = 0.0, 1.0
        return observation, {**info, "context": context}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, Info]:
        """Steps the environment; at the end of an episode the teacher takes note, and ``info`` has ``is_success``."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._context is not None:
            self._return += self._weight * float(reward)
            self._weight *= self._discount
        if terminated or truncated:
            success = self._success(info)
            info = {**info, "is_success": success}
            if self._context is not None:
                self.teacher.record(self._context[None], [self._return], [success])
                self._context = None
        return observation, float(reward), terminated, truncated, info
