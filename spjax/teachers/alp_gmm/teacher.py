"""ALP-GMM (Portelas et al., 2019): tasks where the return changes most, found by a mixture over (context, learning progress).

The absolute learning progress of an episode is ALP = |return - return of the nearest stored context|, 0 while at most
`MIN_STORED` are stored. Every n_rollout episodes a Gaussian mixture is fitted to the newest n_rollout vectors [context, ALP];
tasks are uniform with probability p_RAND and else come from a component chosen in proportion to its mean ALP. The first
n_rollout episodes are uniform.

Behaves as the code behind the comparison of Klink et al. (2021): discounted returns, distances in raw context units, and a store
that is trimmed to the newest s_BUFFER episodes only each time another `INSERTIONS` have gathered beside them. What differs: here
several episodes finish in one update. Their ALP is computed one after another, but a fit that fell due among them is made once,
at the end of the update, from the newest n_rollout vectors of that moment; so it is late by less than one iteration. How the
mixture itself is fitted, and where that differs: `spjax.teachers.alp_gmm.mixture`.

``distance="scaled"`` measures contexts in units of their range, in the distances and in the mixture alike, which makes the whole
curriculum invariant to the units of a dimension.
"""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Episodes, Maybe
from spjax.settings import setting
from spjax.teachers.alp_gmm.mixture import Fit, Mixture, init_fit, refit_where_due
from spjax.teachers.base import Teacher, Value
from spjax.teachers.learning_progress import absolute_progress

MIN_STORED = 5  # episodes that must be exceeded before there is any learning progress
INSERTIONS = 500  # episodes after which the store is trimmed to s_BUFFER


@part("teacher", "alp-gmm")
@struct.dataclass
class ALPGMM(Teacher):
    """Contexts where the return changes most, by a mixture over context and learning progress."""

    distance: Literal["raw", "scaled"] = setting(
        "raw", static=True, help="units of contexts: their own, or their range"
    )
    max_components: int = setting(10, static=True, least=2, help="of the mixture")
    store_capacity: int = setting(
        2500,
        static=True,
        least=1,
        unit="episodes",
        help="room for s_BUFFER and 500 more",
    )
    window_capacity: int = setting(
        200, static=True, least=1, unit="episodes", help="room for n_rollout"
    )
    random_fraction: float = setting(
        0.2, least=0, most=1, help="p_RAND, share of uniform contexts"
    )
    num_rollouts: int = setting(
        100, least=1, unit="episodes", help="n_rollout, between fits"
    )
    buffer_size: int = setting(
        500,
        unit="episodes",
        help="s_BUFFER, newest ones that learning progress is measured by",
    )

    def init(self, key: Array, space: ContextSpace) -> "ALPGMMState":
        """Returns an empty store and no mixture."""
        ranges = jnp.asarray(space.upper, float) - jnp.asarray(space.lower, float)
        return ALPGMMState(
            contexts=jnp.zeros((space.size, self.store_capacity)),
            returns=jnp.zeros(self.store_capacity),
            window=jnp.zeros((self.window_capacity, space.size + 1)),
            episodes=jnp.zeros((), jnp.int32),
            fit=init_fit(self.max_components, space.size + 1),
            fits=jnp.zeros((), jnp.int32),
            unit=ranges if self.distance == "scaled" else jnp.ones_like(ranges),
        )

    def sample(
        self, state: "ALPGMMState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns a uniform context or one of the mixture, clipped to the bounds; its ALP coordinate is dropped."""
        key_choice, key_uniform, key_normal = jax.random.split(key, 3)
        choice = jax.random.uniform(key_choice, (2,))
        mixture = state.fit.mixture
        cumulative = jnp.cumsum(_chances(mixture))
        component = jnp.argmax(cumulative > choice[0] * cumulative[-1])
        mean, chol = mixture.means[component, :-1], mixture.chols[component, :-1, :-1]
        context = space.clip(
            state.unit * (mean + chol @ jax.random.normal(key_normal, mean.shape))
        )
        uniform = (choice[1] < self.random_fraction) | (state.fits == 0)
        return jnp.where(uniform, space.sample_uniform(key_uniform), context)

    def update(
        self, state: "ALPGMMState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["ALPGMMState", "ALPGMMMetrics"]:
        """Returns the state with the episodes recorded in order, and with a new mixture where a fit fell due."""
        rows = jnp.flatnonzero(episodes.mask, size=episodes.mask.size)

        def record(
            number: Array, carry: tuple[ALPGMMState, Array]
        ) -> tuple[ALPGMMState, Array]:
            state, total = carry
            row = rows[number]
            state, progress = self._record(
                state, episodes.context[row], episodes.discounted_return[row]
            )
            return state, total + progress

        count = episodes.mask.sum()
        before = state.episodes // self.num_rollouts
        state, total = jax.lax.fori_loop(0, count, record, (state, jnp.zeros(())))
        due = state.episodes // self.num_rollouts > before
        newest = _age(self.window_capacity, state.episodes) < self.num_rollouts
        fit = refit_where_due(key, state.fit, state.window, newest, due)
        state = dataclasses.replace(
            state, fit=fit, fits=state.fits + due.astype(jnp.int32)
        )
        mean = total / jnp.maximum(count, 1).astype(total.dtype)
        return state, _metrics(state, Maybe.where(count > 0, mean))

    def check(self, space: ContextSpace) -> None:
        """Checks how the capacities go together."""
        super().check(space)
        if not self.max_components <= self.num_rollouts <= self.window_capacity:
            raise ValueError(
                f"teacher.num_rollouts must lie between max_components = {self.max_components} "
                f"and window_capacity = {self.window_capacity}, got {self.num_rollouts}"
            )
        if not 1 <= self.buffer_size <= self.store_capacity - INSERTIONS:
            raise ValueError(
                f"teacher.buffer_size must lie between 1 and store_capacity - {INSERTIONS} = "
                f"{self.store_capacity - INSERTIONS}, got {self.buffer_size}"
            )

    def _record(
        self,
        state: "ALPGMMState",
        context: Float[Array, " dim"],
        discounted_return: Float[Array, ""],
    ) -> tuple["ALPGMMState", Float[Array, ""]]:
        """Returns the state after one more episode, and the episode's ALP."""
        context = context / state.unit
        stored = _stored(state.episodes, self.buffer_size)
        searched = _age(self.store_capacity, state.episodes) < stored
        progress = absolute_progress(
            context, discounted_return, state.contexts, state.returns, searched
        )
        progress = jnp.where(stored > MIN_STORED, progress, 0.0)
        slot, window_slot = (
            state.episodes % self.store_capacity,
            state.episodes % self.window_capacity,
        )
        state = dataclasses.replace(
            state,
            contexts=state.contexts.at[:, slot].set(context),
            returns=state.returns.at[slot].set(discounted_return),
            window=state.window.at[window_slot].set(jnp.append(context, progress)),
            episodes=state.episodes + 1,
        )
        return state, progress


@struct.dataclass
class ALPGMMState:
    """The curriculum's state; contexts are measured in `unit`. Episode number n lies in place n modulo the capacity."""

    contexts: Float[Array, "dim store"]
    returns: Float[Array, " store"]  # discounted
    window: Float[
        Array, "row dim_and_progress"
    ]  # [context, ALP] of the newest episodes
    episodes: Int[Array, ""]  # seen so far
    fit: Fit  # of the mixture over [context, ALP]
    fits: Int[Array, ""]  # made so far; without any, all tasks are uniform
    unit: Float[Array, " dim"]  # context units


@struct.dataclass
class ALPGMMMetrics:
    """Of one iteration."""

    mean_alp: Maybe  # of the episodes recorded in it, discounted return
    fits: Int[Array, ""]  # so far
    em_iterations: Int[
        Array, ""
    ]  # of this iteration's fit, in the model that was kept; 0 where none was due
    components: Int[Array, ""]  # of the current mixture; 0 before the first fit
    # of the current mixture, from the first fit on:
    aic: Maybe  # on the vectors it was fitted to
    log_likelihood: Maybe  # likewise, nats a vector
    largest_chance: Maybe  # of a component to be drawn from
    context_mean: Maybe  # [dim] of the draws before clipping, context units


def _metrics(state: ALPGMMState, mean_alp: Maybe) -> ALPGMMMetrics:
    fit, fitted = state.fit, state.fits > 0
    chances = _chances(fit.mixture)
    chances /= jnp.where(fitted, chances.sum(), 1.0)
    return ALPGMMMetrics(
        mean_alp=mean_alp,
        fits=state.fits,
        em_iterations=fit.iterations,
        components=(fit.mixture.weights > 0).sum(dtype=jnp.int32),
        aic=Maybe.where(fitted, fit.aic),
        log_likelihood=Maybe.where(fitted, fit.log_likelihood),
        largest_chance=Maybe.where(fitted, chances.max()),
        context_mean=Maybe.where(
            fitted, state.unit * (chances @ fit.mixture.means[:, :-1])
        ),
    )


def _chances(mixture: Mixture) -> Float[Array, " component"]:
    """Returns the unnormalised chances of the components: their mean ALP, or all alike where that is 0 throughout."""
    present = mixture.weights > 0
    progress = jnp.where(present, jnp.maximum(mixture.means[:, -1], 0.0), 0.0)
    return jnp.where(progress.any(), progress, present.astype(progress.dtype))


def _stored(
    episodes: Int[Array, ""], buffer_size: int | Int[Array, ""]
) -> Int[Array, ""]:
    """Returns how many of the newest episodes are searched: s_BUFFER of those flushed, and all inserted since."""
    flushed = INSERTIONS * (jnp.maximum(episodes - 1, 0) // INSERTIONS)
    return jnp.minimum(flushed, buffer_size) + episodes - flushed


def _age(capacity: int, episodes: Int[Array, ""]) -> Int[Array, " place"]:
    """Returns for each place of a ring how many episodes were written after its own; `capacity` where it has none."""
    places = jnp.arange(capacity)
    age = (episodes - 1) % capacity - places
    return jnp.where(
        places < episodes, jnp.where(age < 0, age + capacity, age), capacity
    )
