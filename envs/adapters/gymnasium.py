"""Step-based tasks as Gymnasium environments, a single one or many side by side; imports as ``spjax.envs.adapters.gymnasium``.

A context is an option of ``reset``. Where none is given, as at every reset that Gymnasium makes by itself, it comes from a
source: the target distribution of the task, another distribution, or a function such as `spjax.NumpyTeacher.sample`.

An episode is made by one number, drawn from the generator of its environment; so instance i of a `TaskVectorEnv` that is reset
with seed s does what a `TaskEnv` does that is reset with seed s + i.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from spjax.contexts import ContextSpace
from spjax.envs.adapters.instances import Instances, Source
from spjax.envs.base import Env

try:
    import gymnasium
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "spjax.envs.adapters.gymnasium needs Gymnasium: pip install 'spjax[gymnasium]'"
    ) from None

Info = dict[str, object]


class TaskEnv(gymnasium.Env):
    """A task as a Gymnasium environment.

    ``info`` has the context, and from the first step on ``success``, which means something where the episode has ended.
    """

    metadata: dict[str, object] = {"render_modes": []}  # noqa: RUF012, as Gymnasium has it

    def __init__(self, task: Env, contexts: Source | None = None) -> None:
        """Makes the environment.

        Args:
            task: any step-based task.
            contexts: where contexts come from that no option names, the task's target distribution by default.

        Raises:
            ValueError: no step-based task.
        """
        self._instances = Instances(task, 1, contexts)
        self.observation_space, self.action_space = _spaces(task)
        self._action_shape = (len(task.action_lower),)
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Float[np.ndarray, " observation"], Info]:
        """Returns the first observation of an episode, in ``options["context"]`` where it is given.

        Raises:
            ValueError: a context of another shape, not finite, or outside the bounds; an unknown option.
        """
        super().reset(seed=seed)
        options = _known(options, ("context",))
        given = options.get("context")
        contexts = (
            None if given is None else _context(given, self._instances.space)[None]
        )
        self._instances.reset(
            np.ones(1, bool), np.array([_number(self.np_random)]), contexts
        )
        self._running = True
        return self._instances.observations[0], {"context": self._instances.contexts[0]}

    def step(
        self, action: Float[ArrayLike, " action"]
    ) -> tuple[Float[np.ndarray, " observation"], float, bool, bool, Info]:
        """Returns observation, reward, terminated, truncated and info; the action is clipped to its bounds.

        Raises:
            gymnasium.error.ResetNeeded: before the first `reset` and after an episode's end.
            ValueError: an action of another shape, or not finite.
        """
        if not self._running:
            raise gymnasium.error.ResetNeeded("no episode is running, call reset first")
        instances = self._instances
        instances.step(_actions(action, self._action_shape)[None])
        terminated, truncated = (
            bool(instances.terminated[0]),
            bool(instances.truncated[0]),
        )
        self._running = not (terminated or truncated)
        info = {
            "context": instances.contexts[0],
            "success": bool(instances.successes[0]),
        }
        reward = float(instances.rewards[0])
        return instances.observations[0], reward, terminated, truncated, info


class TaskVectorEnv(gymnasium.vector.VectorEnv):
    """Many instances of a task, stepped by one compiled function, with the three ways to start anew of Gymnasium 1.1.

    NEXT_STEP: the step after an episode's end starts the next one, whatever the action, with reward 0. SAME_STEP: the step that
    ends an episode returns the first observation of the next one, and ``info`` has ``final_obs`` and ``final_info``. DISABLED:
    an instance whose episode has ended must be reset by the caller, alone by ``options["reset_mask"]``.
    """

    def __init__(
        self,
        task: Env,
        num_envs: int,
        contexts: Source | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Makes the environments.

        Args:
            task: any step-based task.
            num_envs: how many instances.
            contexts: where contexts come from that no option names, the task's target distribution by default.
            autoreset_mode: what happens at an episode's end.

        Raises:
            ValueError: no step-based task, fewer than one instance, or no such mode.
        """
        self._instances = Instances(task, num_envs, contexts)
        self._mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self._mode}
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _spaces(task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._action_shape = (num_envs, len(task.action_lower))
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._ended: Bool[np.ndarray, " env"] | None = None  # before the first reset

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> tuple[Float[np.ndarray, "env observation"], Info]:
        """Starts an episode in every instance, or in those of a mask.

        Args:
            seed: of the first instance, the others count on from it; or one for each; None goes on as before.
            options: ``contexts`` [env, dim], or one ``context`` [dim] for all; ``reset_mask`` [env], True where to reset.

        Returns:
            the observations of all instances, and ``info`` of those that were reset.

        Raises:
            ValueError: contexts, a mask or seeds of another shape or kind; a context outside the bounds; an unknown option.
            gymnasium.error.ResetNeeded: a mask before all were reset once.
        """
        options = _known(options, ("context", "contexts", "reset_mask"))
        mask = self._mask(options.get("reset_mask"))
        contexts = self._contexts(options, mask)
        self._seed(seed, mask)
        self._start(mask, contexts)
        self._ended = mask & False if self._ended is None else self._ended & ~mask
        return self._instances.observations, self._started(mask)

    def step(
        self, actions: Float[ArrayLike, "env action"]
    ) -> tuple[
        Float[np.ndarray, "env observation"],
        Float[np.ndarray, " env"],
        Bool[np.ndarray, " env"],
        Bool[np.ndarray, " env"],
        Info,
    ]:
        """Returns observations, rewards, terminated, truncated and info of all instances; actions are clipped to their bounds.

        Raises:
            gymnasium.error.ResetNeeded: before the first `reset`; with DISABLED, where an episode has ended.
            ValueError: actions of another shape, or not finite.
        """
        if self._ended is None:
            raise gymnasium.error.ResetNeeded("no episode is running, call reset first")
        anew, disabled = self._ended, self._mode is AutoresetMode.DISABLED
        if disabled and anew.any():
            raise gymnasium.error.ResetNeeded(
                f"the episodes of {np.flatnonzero(anew).tolist()} have ended, reset them by options['reset_mask'] first"
            )
        self._instances.step(_actions(actions, self._action_shape, ~anew))
        if anew.any():  # only with NEXT_STEP
            self._start(anew, None)
        rewards = self._instances.rewards
        terminated, truncated = self._instances.terminated, self._instances.truncated
        ended = terminated | truncated
        info: Info = {}
        stepped = ~anew
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            info = self._final(ended)
            self._start(ended, None)
            stepped, ended = ~ended, np.zeros_like(ended)
        self._ended = ended
        info |= self._started(np.ones(self.num_envs, bool))
        if stepped.any():
            info |= self._successes(stepped)
        return self._instances.observations, rewards, terminated, truncated, info

    def _start(
        self, mask: Bool[np.ndarray, " env"], contexts: np.ndarray | None
    ) -> None:
        numbers = np.zeros(self.num_envs, np.uint32)
        for index in np.flatnonzero(mask):
            generator = self._generators[index]
            assert generator is not None  # since the first reset
            numbers[index] = _number(generator)
        self._instances.reset(mask, numbers, contexts)

    def _started(self, mask: Bool[np.ndarray, " env"]) -> Info:
        contexts = np.where(mask[:, None], self._instances.contexts, 0)
        return {"context": contexts, "_context": mask}

    def _successes(self, mask: Bool[np.ndarray, " env"]) -> Info:
        return {"success": self._instances.successes & mask, "_success": mask}

    def _final(self, ended: Bool[np.ndarray, " env"]) -> Info:
        observations = np.full(self.num_envs, None, object)
        for index in np.flatnonzero(ended):
            observations[index] = self._instances.observations[index]
        final = self._started(ended) | self._successes(ended)
        return {
            "final_obs": observations,
            "_final_obs": ended,
            "final_info": final,
            "_final_info": ended,
        }

    def _mask(self, given: object) -> Bool[np.ndarray, " env"]:
        if given is None:
            return np.ones(self.num_envs, bool)
        mask = np.asarray(given)
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(
                f"reset_mask must be {self.num_envs} truth values with at least one True, got {given!r}"
            )
        if self._ended is None and not mask.all():
            raise gymnasium.error.ResetNeeded(
                "reset all instances once before you reset some"
            )
        return mask

    def _contexts(
        self, options: Mapping[str, object], mask: Bool[np.ndarray, " env"]
    ) -> np.ndarray | None:
        if "context" in options and "contexts" in options:
            raise ValueError("give either context, one for all, or contexts")
        space = self._instances.space
        if options.get("context") is not None:
            one = _context(options["context"], space)
            return np.tile(one, (self.num_envs, 1))
        if options.get("contexts") is None:
            return None
        contexts = np.asarray(options["contexts"], float)
        if contexts.shape != (self.num_envs, space.size):
            raise ValueError(
                f"contexts must have shape ({self.num_envs}, {space.size}), got {contexts.shape}"
            )
        for index in np.flatnonzero(mask):
            space.check(contexts[index].tolist(), f"contexts[{index}]")
        return np.where(mask[:, None], contexts, 0).astype(np.float32)

    def _seed(
        self, seed: int | list[int | None] | None, mask: Bool[np.ndarray, " env"]
    ) -> None:
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [
                None if seed is None else int(seed) + i for i in range(self.num_envs)
            ]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(
                f"seed must be one number or {self.num_envs} of them, got {len(seeds)}"
            )
        for index in np.flatnonzero(mask):
            if seeds[index] is not None or self._generators[index] is None:
                self._generators[index] = seeding.np_random(seeds[index])[0]


def _spaces(task: Env) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    observations = gymnasium.spaces.Box(
        -np.inf, np.inf, (task.observation_size,), np.float32
    )
    lower, upper = (
        np.asarray(side, np.float32) for side in (task.action_lower, task.action_upper)
    )
    return observations, gymnasium.spaces.Box(lower, upper, dtype=np.float32)


def _known(
    options: Mapping[str, object] | None, names: tuple[str, ...]
) -> Mapping[str, object]:
    for name in options or ():
        if name not in names:
            raise ValueError(
                f"unknown option {name!r} of reset, known: {', '.join(names)}"
            )
    return options or {}


def _context(given: object, space: ContextSpace) -> Float[np.ndarray, " dim"]:
    context = np.asarray(given, float)
    if context.ndim != 1:
        raise ValueError(
            f"context must have shape ({space.size},), got {context.shape}"
        )
    space.check(context.tolist())
    return context.astype(np.float32)


def _actions(
    actions: ArrayLike, shape: tuple[int, ...], used: np.ndarray | bool = True
) -> np.ndarray:
    array = np.asarray(actions, np.float32)
    if array.shape != shape:
        raise ValueError(f"actions must have shape {shape}, got {array.shape}")
    finite = np.isfinite(array).all(axis=-1) | ~np.asarray(used)
    if not finite.all():
        raise ValueError(f"actions must be finite, got {array.tolist()}")
    return array


def _number(generator: np.random.Generator) -> np.uint32:
    """Returns the number that makes the next episode."""
    return generator.integers(2**32, dtype=np.uint32)
