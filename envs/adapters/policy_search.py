"""Policy search in a step-based task, as an episodic one: Klink et al. (2021), SPRL on the point mass of Section 7.2.

The parameters are the weights of a deterministic policy network without biases,

    theta = (W_1 row by row, W_2 row by row),    action = output(W_2 tanh(W_1 observation)),

and a rollout is one episode. With 21 hidden units this gives the paper's 168 and 189 parameters in 2-D and 3-D.
"""

import dataclasses
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.catalogue import part
from spjax.contexts import ContextDistribution, ContextSpace, Gaussian
from spjax.envs.base import Env, EnvState
from spjax.envs.episodic import EpisodicTask
from spjax.envs.point_mass import PointMass
from spjax.episodes import Outcome
from spjax.settings import setting

if TYPE_CHECKING:
    from spjax.envs.physics import Scene


class _Episode(NamedTuple):
    state: EnvState  # the last one, once the episode has ended
    total: Float[Array, ""]  # discounted return so far
    ended: Bool[Array, ""]


@part("task", "policy-search")
@struct.dataclass
class PolicySearch(EpisodicTask):
    """A step-based task, of which the whole policy is searched for."""

    of: Env = setting(PointMass(), help="the step-based task")
    hidden: int = setting(
        21, static=True, least=1, unit="units", help="of the network, tanh"
    )
    output: Literal["linear", "tanh"] = setting(
        "linear",
        static=True,
        help="tanh spans the bounds of the action; linear is clipped to them",
    )
    discount: float = setting(
        0.95, above=0, most=1, help="of the rewards, a control step; 1 sums them"
    )

    @property
    def name(self) -> str:
        """That of the step-based task."""
        return self.of.name

    @property
    def compiler_options(self) -> dict[str, bool]:
        """As of the step-based task."""
        return self.of.compiler_options

    @property
    def has_success(self) -> bool:
        """As in the step-based task."""
        return self.of.has_success

    @property
    def horizon(self) -> int:
        """Control steps of an episode at most."""
        return self.of.horizon

    @property
    def control_period(self) -> float:
        """Seconds."""
        return self.of.control_period

    @property
    def context_space(self) -> ContextSpace:
        """As in the step-based task, as are all distributions and pictures."""
        return self.of.context_space

    @property
    def initial(self) -> ContextDistribution:
        """The initial distribution of the step-based task; what lies outside of the bounds is drawn again."""
        return _redrawn(self.of.initial)

    @property
    def target(self) -> ContextDistribution:
        """The target distribution of the step-based task; what lies outside of the bounds is drawn again."""
        return _redrawn(self.of.target)

    @property
    def goal(self) -> tuple[float, float] | None:
        """The point to mark in pictures of trajectories."""
        return self.of.goal

    @property
    def plane(self) -> tuple[str, str]:
        """The axes of pictures of trajectories."""
        return self.of.plane

    @property
    def scenery_name(self) -> str:
        """What their polylines are."""
        return self.of.scenery_name

    @property
    def ends(self) -> tuple[str, str]:
        """What films call an episode's end."""
        return self.of.ends

    @property
    def trail(self) -> str | None:
        """The geom whose way films in space show."""
        return self.of.trail

    @property
    def parameter_lower(self) -> tuple[float, ...]:
        """The weights are not bounded."""
        size = self.hidden * (self.of.observation_size + len(self.of.action_lower))
        return (-float("inf"),) * size

    @property
    def parameter_upper(self) -> tuple[float, ...]:
        """As `parameter_lower`."""
        return tuple(-bound for bound in self.parameter_lower)

    @property
    def parameter_std(self) -> tuple[float, ...]:
        """The published initial distribution of the weights is N(0, I)."""
        return (1.0,) * self.parameter_size

    def scenery(self, context: tuple[float, ...]) -> list[list[tuple[float, float]]]:
        """Returns the polylines of the step-based task."""
        return self.of.scenery(context)

    def physics_scene(self) -> "Scene | None":
        """Returns the scene of the step-based task."""
        return self.of.physics_scene()

    def mark(self, context: tuple[float, ...]) -> tuple[float, float, float] | None:
        """Returns the point that films mark."""
        return self.of.mark(context)

    def act(
        self,
        theta: Float[Array, " parameter"],
        observation: Float[Array, " observation"],
    ) -> Float[Array, " action"]:
        """Returns the network's action; "linear" ones may lie outside the bounds, to which the task clips them."""
        inputs = self.hidden * observation.size
        activations = jnp.tanh(theta[:inputs].reshape(self.hidden, -1) @ observation)
        output = theta[inputs:].reshape(-1, self.hidden) @ activations
        if self.output == "linear":
            return output
        lower, upper = (
            jnp.asarray(self.of.action_lower),
            jnp.asarray(self.of.action_upper),
        )
        return (lower + upper) / 2 + (upper - lower) / 2 * jnp.tanh(output)

    def rollout(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> Outcome:
        """Returns the discounted return of one episode, its length and whether it ended in success."""
        episode, _ = self._run(key, theta, context)
        return Outcome(
            reward=episode.total,
            success=episode.state.success,
            length=episode.state.time_step,
        )

    def states(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> EnvState:
        """Returns the states after 0, 1, ... horizon control steps; after the end the last one."""
        _, states = self._run(key, theta, context)
        return states

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the point of the step-based task."""
        return self.of.trace(state)

    def _run(
        self,
        key: Array,
        theta: Float[Array, " parameter"],
        context: Float[Array, " dim"],
    ) -> tuple[_Episode, EnvState]:
        """Returns the episode at its end, and its states."""
        env = self.of
        key_reset, key_steps = jax.random.split(key)
        start = env.reset(key_reset, context)

        def control_step(
            episode: _Episode, time: Int[Array, ""]
        ) -> tuple[_Episode, EnvState]:
            action = self.act(theta, episode.state.observation)
            state = env.step(jax.random.fold_in(key_steps, time), episode.state, action)
            failed = ~(
                jnp.isfinite(state.reward) & jnp.isfinite(state.observation).all()
            )
            discount = self.discount ** time.astype(state.reward.dtype)
            total = episode.total + jnp.where(failed, 0.0, discount * state.reward)
            state = jax.tree.map(
                lambda new, old: jnp.where(failed, old, new), state, episode.state
            )
            after = _Episode(state, total, state.terminated | state.truncated | failed)
            episode = jax.tree.map(
                lambda new, old: jnp.where(episode.ended, old, new), after, episode
            )
            return episode, episode.state

        blank = _Episode(start, jnp.zeros_like(start.reward), jnp.asarray(False))
        episode, later = lax.scan(control_step, blank, jnp.arange(env.horizon))
        return episode, jax.tree.map(
            lambda first, rest: jnp.concatenate([first[None], rest]), start, later
        )


def _redrawn(distribution: ContextDistribution) -> ContextDistribution:
    if isinstance(distribution, Gaussian):
        return dataclasses.replace(distribution, outside="redraw")
    return distribution
