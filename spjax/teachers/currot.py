"""CURROT: curricula as optimal transport of particles within what the agent masters (Klink et al., ICML 2022).

The contexts are N particles. Each update takes the distribution p to the one nearest to the target mu in the Wasserstein
distance, among those whose contexts all promise a return of at least delta, and not farther away than epsilon:

    minimise W_2(p, mu)  subject to  J(c) >= delta for every particle c,  W_2(p, p_old) <= epsilon.

As in the released code, transport to N fresh draws of the target gives every particle n a way d_n, of which it goes a share x_n.
Here the shares solve, exactly,

    minimise mean_n (1 - x_n)^2 |d_n|^2  subject to  mean_n x_n^2 |d_n|^2 <= epsilon^2,  0 <= x_n <= cap_n,

with cap_n as far as the return stays above delta on the way: they are min(s, cap_n), s the root of one increasing function.
Particles that promise less than delta are first transported to contexts where it was reached; as long as there is none, to
the better half of what was tried, with the more noise the worse it was.

The expected return J is a kernel regression (Nadaraya and Watson) on the newest N episodes with a return above delta and the
newest N below, as in a variant of the released code. What differs: contexts are measured in widths of the context space, so no
unit matters; the bandwidth is a setting instead of the median distance; of the episodes above delta the newest are kept, not
those nearest to the target; where the return falls below delta on a way, what lies behind is not looked at.
"""

import dataclasses
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.catalogue import part
from spjax.contexts import Beta, ContextSpace
from spjax.envs.base import Task
from spjax.episodes import Episodes
from spjax.settings import setting
from spjax.solvers.root import bracket_root
from spjax.solvers.transport import transported
from spjax.teachers.base import Teacher, Value
from spjax.teachers.competence import expected_values
from spjax.teachers.learning_progress import History

BLUR = 0.01  # of the transport, widths of the space; as released
STEPS = 20  # places along a way where the expected return is looked up
SAMPLE_NOISE = 1e-3  # half the width of the noise around a particle; as released
SEARCH_NOISE = 0.25  # std around the worst context that was tried; as released
TOLERANCE = 1e-5  # of the share of a way
ROUNDING = 1e-6  # by which a step stays below its bound, relative

Shares = Float[
    Array, "row dim"
]  # contexts, in widths of the space from its lower bounds


@part("teacher", "currot")
@struct.dataclass
class CURROT(Teacher):
    """Particles that go to the target as far as the agent keeps up."""

    num_particles: int = setting(
        200, static=True, least=2, unit="contexts", help="N, of the distribution"
    )
    performance_bound: float = setting(
        4.0, unit="return", help="delta, discounted return that contexts must promise"
    )
    max_distance: float = setting(
        0.125,
        above=0,
        unit="widths of the space",
        help="epsilon, Wasserstein distance of an update",
    )
    bandwidth: float = setting(
        0.1,
        above=0,
        unit="widths of the space",
        help="standard deviation of the kernel that expects returns",
    )
    min_episodes: int = setting(
        40, least=1, unit="episodes", help="that an update waits for"
    )

    def bound_to(self, task: Task) -> Self:
        """Returns the teacher with particles from all over the space, where no other start was given."""
        uniform = Beta.on(task.context_space)
        initial = uniform if self.initial is None else self.initial
        chosen = dataclasses.replace(self, initial=initial)
        return super(CURROT, chosen).bound_to(task)

    def init(self, key: Array, space: ContextSpace) -> "CURROTState":
        """Returns particles of the initial distribution, and no episodes."""
        contexts = self.starts_at.sample_many(key, space, self.num_particles)
        history = History.empty(self.num_particles, space.size)
        return CURROTState(
            particles=_shares(space, contexts),
            successes=history,
            failures=history,
            waiting=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
            space=space,
        )

    def sample(
        self, state: "CURROTState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns one of the particles with a little noise, inside the bounds."""
        key_row, key_noise = jax.random.split(key)
        row = jax.random.randint(key_row, (), 0, self.num_particles)
        noise = jax.random.uniform(
            key_noise, (space.size,), minval=-SAMPLE_NOISE, maxval=SAMPLE_NOISE
        )
        return space.clip(_contexts(space, state.particles[row] + noise))

    def update(
        self, state: "CURROTState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["CURROTState", "CURROTMetrics"]:
        """Returns the state with the episodes recorded, and with the particles moved where an update is due."""
        contexts, returns = episodes.context, episodes.discounted_return
        good = returns >= self.performance_bound
        shares = _shares(state.space, contexts)
        state = dataclasses.replace(
            state,
            successes=state.successes.extended(shares, returns, episodes.mask & good),
            failures=state.failures.extended(shares, returns, episodes.mask & ~good),
            waiting=state.waiting + episodes.mask.sum(dtype=jnp.int32),
        )
        due = state.waiting >= self.min_episodes
        move = self._move(state, key)
        moved = dataclasses.replace(
            state,
            particles=move.particles,
            waiting=jnp.zeros_like(state.waiting),
            updates=state.updates + 1,
        )
        state = jax.tree.map(lambda a, b: jnp.where(due, a, b), moved, state)
        return state, self._metrics(state, move, due)

    def _move(self, state: "CURROTState", key: Array) -> "Move":
        """Returns the particles after a step, whether it is due or not."""
        key_search, key_target = jax.random.split(key)
        start = self._restarted(state, key_search)
        able = self._expected(state, start) >= self.performance_bound

        contexts = self.aims_at.sample_many(key_target, state.space, self.num_particles)
        goals = _shares(state.space, contexts)
        way = _transported(start, goals) - start
        shares = _shares_of_way(way, self._caps(state, start, way), self.max_distance)
        return Move(
            particles=start + shares[:, None] * way,
            able=able.mean(dtype=way.dtype),
            distance=_root_mean_square(way),
            step=_root_mean_square(shares[:, None] * way),
        )

    def _restarted(self, state: "CURROTState", key: Array) -> Shares:
        """Returns the particles, those that promise too little moved to where more was reached."""
        low = self._expected(state, state.particles) < self.performance_bound
        successes, failures = state.successes, state.failures
        reached = successes.count > 0

        # as many goals as particles: the rows that count, over and over
        best = jnp.argsort(jnp.where(_present(failures), -failures.returns, jnp.inf))
        num_failures = jnp.minimum(failures.count, self.num_particles)
        num_rows = jnp.where(
            reached,
            jnp.minimum(successes.count, self.num_particles),
            jnp.maximum(num_failures // 2, 1),
        )
        rows = jnp.arange(self.num_particles) % jnp.maximum(num_rows, 1)
        tried = best[rows]
        missing = self.performance_bound - failures.returns
        missing = jnp.where(_present(failures), jnp.maximum(missing, 0.0), 0.0)
        largest = missing.max()
        noise = SEARCH_NOISE * missing / jnp.where(largest > 0, largest, 1.0)
        searched = failures.contexts.T + noise[:, None] * jax.random.normal(
            key, failures.contexts.T.shape
        )
        goals = jnp.where(
            reached, successes.contexts.T[rows], jnp.clip(searched[tried], 0.0, 1.0)
        )
        moved = _transported(state.particles, goals)
        any_goal = reached | (failures.count > 0)
        return jnp.where((low & any_goal)[:, None], moved, state.particles)

    def _caps(
        self, state: "CURROTState", start: Shares, way: Shares
    ) -> Float[Array, " row"]:
        """Returns the share of each way up to which the expected return is at least delta; 0 where it is not at its start."""
        fractions = jnp.linspace(0.0, 1.0, STEPS + 1)

        def fine(fraction: Float[Array, ""]) -> Bool[Array, " row"]:
            expected = self._expected(state, start + fraction * way)
            return expected >= self.performance_bound

        unbroken = jnp.cumprod(jax.vmap(fine)(fractions), axis=0)  # [place, row]
        return jnp.maximum(unbroken.sum(axis=0) - 1, 0) / STEPS

    def _expected(self, state: "CURROTState", points: Shares) -> Float[Array, " row"]:
        """Returns the expected return of contexts, 0 as long as no episode is known."""
        both = (state.successes, state.failures)
        known = jnp.concatenate([one.contexts.T for one in both])
        returns = jnp.concatenate([one.returns for one in both])
        present = jnp.concatenate([_present(one) for one in both])
        return expected_values(points, known, returns, present, self.bandwidth)

    def _metrics(
        self, state: "CURROTState", move: "Move", due: Bool[Array, ""]
    ) -> "CURROTMetrics":
        """Returns the metrics of an iteration."""
        space = state.space
        width = jnp.asarray(space.upper) - jnp.asarray(space.lower)
        centred = (state.particles - state.particles.mean(axis=0)[None]) * width[None]
        return CURROTMetrics(
            updates=state.updates,
            target_distance=move.distance,
            step_distance=jnp.where(due, move.step, 0.0),
            able_fraction=move.able,
            expected_return=self._expected(state, state.particles).mean(),
            context_mean=_contexts(space, state.particles).mean(axis=0),
            context_covariance=(centred.T @ centred / len(centred)).reshape(-1),
        )


@struct.dataclass
class CURROTState:
    """The curriculum's state; contexts are shares of the space's width."""

    particles: Shares
    successes: History  # episodes with a return of at least delta
    failures: History
    waiting: Int[Array, ""]  # episodes since the last update
    updates: Int[Array, ""]
    space: ContextSpace = struct.field(pytree_node=False)


@struct.dataclass
class Move:
    """What an update comes to."""

    particles: Shares
    able: Float[Array, ""]  # share of particles that promise enough at the start
    distance: Float[Array, ""]  # root mean square of the ways to the target, widths
    step: Float[Array, ""]  # of what is gone of them; not above epsilon


@struct.dataclass
class CURROTMetrics:
    """Of one iteration; where no update was due, the ways are those of one that would be made now."""

    updates: Int[Array, ""]  # so far
    target_distance: Float[Array, ""]  # widths of the space, before the update
    step_distance: Float[
        Array, ""
    ]  # likewise, gone towards the target; 0 without an update
    able_fraction: Float[Array, ""]  # of the particles, that promise at least delta
    expected_return: Float[Array, ""]  # mean over the particles
    context_mean: Float[Array, " dim"]  # of the particles, context units
    context_covariance: Float[Array, " dim_squared"]  # row by row


def _shares_of_way(
    way: Shares, caps: Float[Array, " row"], most: float | Float[Array, ""]
) -> Float[Array, " row"]:
    """Returns min(s, caps) with the largest s in [0, 1] whose root mean square step is at most ``most``."""

    def excess(share: Float[Array, ""]) -> Float[Array, ""]:
        step = _root_mean_square(jnp.minimum(share, caps)[:, None] * way)
        return step - (1 - ROUNDING) * most

    one = jnp.ones((), way.dtype)
    share = bracket_root(excess, 0 * one, one, TOLERANCE).low
    return jnp.minimum(share, caps)


def _transported(points: Shares, goals: Shares) -> Shares:
    diameter = float(np.sqrt(points.shape[1]))
    return transported(points, goals, blur=BLUR, diameter=diameter)


def _root_mean_square(ways: Shares) -> Float[Array, ""]:
    """Returns the root of the mean squared length."""
    return jnp.sqrt((ways**2).sum(axis=1).mean())


def _present(history: History) -> Bool[Array, " capacity"]:
    return jnp.arange(history.returns.size) < history.count


def _shares(space: ContextSpace, contexts: Float[Array, "row dim"]) -> Shares:
    """Returns contexts in widths of the space, from its lower bounds."""
    lower, upper = jnp.asarray(space.lower), jnp.asarray(space.upper)
    return (contexts - lower[None]) / (upper - lower)[None]


def _contexts(
    space: ContextSpace, shares: Float[Array, "*row dim"]
) -> Float[Array, "*row dim"]:
    """Returns contexts in their own units; inverse of `_shares`."""
    lower, upper = jnp.asarray(space.lower), jnp.asarray(space.upper)
    lower, width = (
        jax.lax.broadcast_to_rank(one, shares.ndim) for one in (lower, upper - lower)
    )
    return lower + width * shares
