"""Policy search in a step-based task, as an episodic one: Klink et al. (2021), SPRL on the point mass of Section 6.

The parameters are the weights of a deterministic policy network without biases,

    theta = (W_1 row by row, W_2 row by row),    action = output(W_2 tanh(W_1 observation)),

and a rollout is one episode. With 21 hidden units this gives the paper's 168 and 189 parameters in 2-D and 3-D.
"""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax import envs
from spjax.contexts import ContextSpace
from spjax.envs.base import Env, EnvState
from spjax.envs.episodic import Covariance, EpisodicTask, diagonal
from spjax.episodes import Outcome


class _Episode(NamedTuple):
    state: EnvState  # the last one, once the episode has ended
    total: Float[Array, ""]  # discounted return so far
    ended: Bool[Array, ""]


@dataclasses.dataclass(frozen=True)
class PolicySearch(EpisodicTask):
    """The step-based task of a name, of which the whole policy is searched for."""

    env_name: str
    hidden: int = 21  # tanh units
    output: Literal["linear", "tanh"] = "linear"  # "tanh" spans the bounds of the action; "linear" is clipped to them
    discount: float = 0.95  # of the rewards, per control step; 1 sums them

    def __post_init__(self) -> None:
        if self.hidden < 1:
            raise ValueError(f"env.hidden must be at least 1, got {self.hidden}")
        if self.output not in ("linear", "tanh"):
            raise ValueError(f'env.output must be "linear" or "tanh", got {self.output!r}')
        if not 0 < self.discount <= 1:
            raise ValueError(f"env.discount must lie in (0, 1], got {self.discount}")
        if not isinstance(envs.make(self.env_name), Env):
            raise ValueError(f"policies are searched for in step-based tasks, and {self.env_name!r} is an episodic one")

    @property
    def env(self) -> Env:
        """The step-based task."""
        return envs.make(self.env_name)

    @property
    def compiler_options(self) -> dict[str, bool]:
        """As of the step-based task."""
        return self.env.compiler_options

    @property
    def name(self) -> str:  # type: ignore[override]
        """The registered name of the step-based task."""
        return self.env.name

    @property
    def horizon(self) -> int:  # type: ignore[override]
        """Control steps of an episode at most."""
        return self.env.horizon

    @property
    def control_period(self) -> float:  # type: ignore[override]
        """Seconds."""
        return self.env.control_period

    @property
    def context_space(self) -> ContextSpace:  # type: ignore[override]
        """As in the step-based task, as are all distributions and pictures."""
        return self.env.context_space

    @property
    def initial_mean(self) -> tuple[float, ...]:  # type: ignore[override]
        """Mean of the published initial context distribution."""
        return self.env.initial_mean

    @property
    def target_mean(self) -> tuple[float, ...]:  # type: ignore[override]
        """Mean of the published target distribution."""
        return self.env.target_mean

    @property
    def initial_covariance(self) -> Covariance:  # type: ignore[override]
        """Covariance of the published initial context distribution."""
        return diagonal(*(std**2 for std in self.env.initial_std))

    @property
    def target_covariance(self) -> Covariance:  # type: ignore[override]
        """Covariance of the published target distribution."""
        return diagonal(*(std**2 for std in self.env.target_std))

    @property
    def goal(self) -> tuple[float, float] | None:  # type: ignore[override]
        """The point to mark in pictures of trajectories."""
        return self.env.goal

    @property
    def plane(self) -> tuple[str, str]:  # type: ignore[override]
        """The axes of pictures of trajectories."""
        return self.env.plane

    @property
    def scenery_name(self) -> str:  # type: ignore[override]
        """What their polylines are."""
        return self.env.scenery_name

    @property
    def parameter_lower(self) -> tuple[float, ...]:  # type: ignore[override]
        """The weights are not bounded."""
        size = self.hidden * (self.env.observation_size + len(self.env.action_lower))
        return (-float("inf"),) * size

    @property
    def parameter_upper(self) -> tuple[float, ...]:  # type: ignore[override]
        """As `parameter_lower`."""
        return tuple(-bound for bound in self.parameter_lower)

    @property
    def parameter_std(self) -> tuple[float, ...]:  # type: ignore[override]
        """The published initial distribution of the weights is N(0, I)."""
        return (1.0,) * self.parameter_size

    def act(
        self, theta: Float[Array, " parameter"], observation: Float[Array, " observation"]
    ) -> Float[Array, " action"]:
        """Returns the network's action; "linear" ones may lie outside the bounds, to which the task clips them."""
        inputs = self.hidden * observation.size
        activations = jnp.tanh(theta[:inputs].reshape(self.hidden, -1) @ observation)
        output = theta[inputs:].reshape(-1, self.hidden) @ activations
        if self.output == "linear":
            return output
        lower, upper = jnp.asarray(self.env.action_lower), jnp.asarray(self.env.action_upper)
        return (lower + upper) / 2 + (upper - lower) / 2 * jnp.tanh(output)

    def rollout(self, key: Array, theta: Float[Array, " parameter"], context: Float[Array, " dim"]) -> Outcome:
        """Returns the discounted return of one episode, its length and whether it ended in success."""
        episode, _ = self._run(key, theta, context)
        return Outcome(reward=episode.total, success=episode.state.success, length=episode.state.time_step)

    def trace(
        self, key: Array, theta: Float[Array, " parameter"], context: Float[Array, " dim"]
    ) -> Float[Array, "time 2"]:
        """Returns the points of the plane after 0, 1, ... horizon control steps; after the end the last one."""
        _, path = self._run(key, theta, context)
        return path

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the polylines of the step-based task."""
        return self.env.scenery(context)

    def _run(
        self, key: Array, theta: Float[Array, " parameter"], context: Float[Array, " dim"]
    ) -> tuple[_Episode, Float[Array, "time 2"]]:
        """Returns the episode at its end, and the points of its path."""
        env = self.env
        key_reset, key_steps = jax.random.split(key)
        start = env.reset(key_reset, context)

        def control_step(episode: _Episode, time: Int[Array, ""]) -> tuple[_Episode, Float[Array, "2"]]:
            action = self.act(theta, episode.state.observation)
            state = env.step(jax.random.fold_in(key_steps, time), episode.state, action)
            failed = ~(jnp.isfinite(state.reward) & jnp.isfinite(state.observation).all())
            total = episode.total + jnp.where(failed, 0.0, self.discount**time * state.reward)
            state = jax.tree.map(lambda new, old: jnp.where(failed, old, new), state, episode.state)
            after = _Episode(state, total, state.terminated | state.truncated | failed)
            episode = jax.tree.map(lambda new, old: jnp.where(episode.ended, old, new), after, episode)
            return episode, env.trace(episode.state)

        blank = _Episode(start, jnp.zeros_like(start.reward), jnp.asarray(False))
        episode, path = lax.scan(control_step, blank, jnp.arange(env.horizon))
        return episode, jnp.concatenate([env.trace(start)[None], path])
