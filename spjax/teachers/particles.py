"""Self-paced curricula of particles: no family, so a target with several modes, and several ways there, are nothing special.

An update has three parts, of which the first two stay within the trust region epsilon together:

1. the weights of N particles solve the problem of SPDL exactly, as those of a discrete distribution do (Klink et al., 2021,
   Eq. (19) or (20)); the competence J at a particle is a kernel regression on the newest episodes;
2. the particles move towards mu(c) exp(J(c))^(1 / alpha), Eq. (29), by Langevin steps, as the outlook of the paper proposes;
3. where few of them have all the weight, particles are drawn anew, from the distribution that they are.

The second part is tamed Langevin dynamics in units of the Gaussian around a particle, whose drift never exceeds its width:

    x <- x + eta g / (1 + eta |g|) + sqrt(2 eta) noise,    g = h (grad log mu + grad J / alpha),

and the Gaussians take the spread of the neighbours that they have then, so a crowd that closes up becomes fine. Of each particle
both are cut where the divergence between its Gaussian before and after would exceed epsilon_move, half of it for either. Under
V_LB the price that the solve finds for performance is 1 / alpha; where alpha is 0 there is no such distribution, and none moves.
A particle moves whatever its weight: those of a mode that is left behind go on, and have weight again once they arrive.

What KL(new || old) <= epsilon covers is weights and moves: the bound in `spjax.contexts.particles` of the distributions that
contexts are drawn from. It does not cover the third part, which changes the distribution by chance, not in expectation, and
widens it by the Gaussians; the next update sees both and takes them for given.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, PyTree

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Discrete, DiscreteGaussian
from spjax.contexts.particles import Particles
from spjax.self_paced.context_update import ContextUpdate, Mode
from spjax.self_paced.schedules import Evidence, Proportion, Schedule, trial_aim
from spjax.settings import setting
from spjax.teachers.competence import expected_values
from spjax.teachers.moving import Moving, MovingState, Step, solve_aim

ROUNDING = 1e-5  # of epsilon, which moves keep free
RATE = 0.05  # eta, of a Langevin step
MOST_GROWTH = 0.5  # of the logarithm of a width, in an update
GROWTH_KL = 1.437  # nats a squared growth, at most, of up to that: (exp(2 s) - 1 - 2 s) / (2 s^2) at s = 0.5

Score = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]
Widths = Float[Array, "N dim"]  # ways of particles, in their Gaussians' widths


@part("teacher", "self-paced-particles")
@struct.dataclass
class SelfPacedParticles(Moving):
    """SPDL with particles in place of a Gaussian; initial and target distribution are of any families with a density."""

    schedule: Schedule = setting(Proportion(), help="what an update is")
    num_particles: int = setting(
        200, static=True, least=4, unit="contexts", help="N, of the distribution"
    )
    bandwidth: float = setting(
        0.1,
        above=0,
        unit="widths of the space",
        help="standard deviation of the kernel that expects returns",
    )
    resample_below: float = setting(
        0.1,
        least=0,
        most=1,
        unit="1",
        help="share of N; particles are drawn anew where their effective number is below",
    )
    move_share: float = setting(
        0.9,
        least=0,
        most=1,
        unit="1",
        help="of max_kl, that moves may take; 0 for none",
    )
    num_moves: int = setting(
        5, static=True, least=1, unit="steps", help="Langevin steps of an update"
    )

    # settings of `Moving` that there is no choice of here
    start: Literal["initial", "target"] = struct.field(
        pytree_node=False, default="initial"
    )
    std_floor: float | tuple[float, ...] | None = struct.field(
        pytree_node=False, default=None
    )
    floor_kl: float = struct.field(pytree_node=False, default=0.0)

    @property
    def needs_value(self) -> bool:
        """Whether it asks the critic."""
        return self.value_source == "critic"

    def init(self, key: Array, space: ContextSpace) -> MovingState:
        """Returns particles of the initial distribution and an empty buffer."""
        contexts = self.starts_at.sample_many(key, space, self.num_particles)
        state = super().init(key, space)
        return dataclasses.replace(
            state, distribution=Particles.around(contexts, space)
        )

    def first_memory(self) -> PyTree:
        """Returns what the schedule keeps before the first update."""
        return self.schedule.init(self.starts_at)

    def still(self, iteration: int, mean_return: float) -> str | None:
        """Returns what the schedule says of the update that came after the iteration, if one did."""
        return self.schedule.still(iteration - self.warmup, mean_return)

    def move(self, state: MovingState, evidence: Evidence) -> Step:
        """Returns particles with other weights, at other places, or drawn anew; the record is that of weights and moves.

        Its effective sample size is that of the particles, before they are drawn anew.
        """
        old = state.distribution
        assert isinstance(old, Particles)
        assert evidence.key is not None  # `Moving` gives it
        key_move, key_resample = jax.random.split(evidence.key)
        due = evidence.mask.any()

        step = self._weighed(old, state, evidence)
        weighed, record = step.distribution, step.record
        assert isinstance(weighed, Particles)

        approaches, heat = inverse_temperature(step)
        moved: Particles = jax.lax.cond(
            due & approaches & (self.move_share > 0),
            lambda one: self._moved(one, evidence, heat, key_move),
            lambda one: one,
            weighed,
        )
        record = dataclasses.replace(
            record,
            kl=record.kl + moved.kl_of_moves(weighed),
            effective_sample_size=moved.effective_size,
        )

        few = moved.effective_size < self.resample_below * self.num_particles
        new = jax.lax.cond(
            due & few, lambda: moved.resampled(key_resample), lambda: moved
        )
        return dataclasses.replace(step, distribution=new, record=record)

    def _weighed(self, old: Particles, state: MovingState, evidence: Evidence) -> Step:
        """Returns particles with other weights: a discrete update, with the expected return at every particle."""
        points = old.points
        aim = self.schedule.aim(evidence)
        expected = self._competence(evidence, points.table, old.space)

        # each particle is an episode, whose value makes the performance sum_i w_i J(c_i)
        values = self.num_particles * points.probs * expected
        mask = jnp.broadcast_to(evidence.mask.any(), values.shape)
        new, record, alpha = solve_aim(
            aim,
            points,
            old.on_points(self.aims_at),
            (points.table, values, mask),
            state.reached,
            max_kl=(1 - self.move_share) * self.max_kl,
            kl_direction="new-old",
        )
        weighed = dataclasses.replace(old, points=new)
        return Step(weighed, record, alpha, aim.memory)

    def _moved(
        self,
        particles: Particles,
        evidence: Evidence,
        heat: Float[Array, ""],
        key: Array,
    ) -> Particles:
        """Returns the particles after their moves."""

        def log_density(context: Float[Array, " dim"]) -> Float[Array, ""]:
            expected = self._competence(evidence, context[None], particles.space)[0]
            return self.aims_at.log_prob(context) + heat * expected

        limit = jnp.asarray(0.5 * self.move_share * self.max_kl * (1 - ROUNDING))
        ways = langevin_ways(
            key,
            particles,
            jax.grad(log_density),
            rate=RATE,
            num_steps=self.num_moves,
            furthest=jnp.sqrt(2 * limit),
        )
        table = particles.points.table + particles.spread * ways
        points = dataclasses.replace(particles.points, table=table)
        return respread(dataclasses.replace(particles, points=points), limit)

    def _competence(
        self, evidence: Evidence, contexts: Float[Array, "row dim"], space: ContextSpace
    ) -> Float[Array, " row"]:
        """Returns the expected value of contexts."""
        width = (jnp.asarray(space.upper) - jnp.asarray(space.lower))[None]
        return expected_values(
            contexts / width,
            evidence.contexts / width,
            jnp.where(evidence.mask, evidence.values, 0.0),
            evidence.mask,
            self.bandwidth,
        )

    def check_families(self, space: ContextSpace) -> None:
        """Checks that the target has a density, and that the schedule leaves it alone."""
        target = self.aims_at
        if isinstance(target, Discrete | DiscreteGaussian):
            raise ValueError(
                "teacher.target must have a density where particles are, "
                f"such as a gaussian or a mixture, got {type(target).__name__}"
            )
        aim = trial_aim(self.schedule, self.starts_at, self.starts_at)
        if aim.target is not None:
            raise ValueError(
                "teacher.schedule must leave the target as it is, particles of earlier updates are not kept; "
                f"got {self.schedule!r}"
            )
        if aim.performance_bound is not None and self.move_share == 1:
            raise ValueError(
                "teacher.move_share must be less than 1 with a bound on the performance, whose price "
                "is that of the weights' update; got 1"
            )


def inverse_temperature(step: Step) -> tuple[Bool[Array, ""], Float[Array, ""]]:
    """Returns whether an update approaches a tempered distribution mu exp(J)^(1 / alpha), and 1 / alpha.

    It is 0, and the target itself is approached, where the bound on the performance costs nothing.
    """
    record: ContextUpdate = step.record
    if record.bound_price is not None:
        return record.mode == Mode.TARGET, record.bound_price
    alpha = step.alpha
    assert alpha is not None  # one of both rules
    return alpha > 0, jnp.where(alpha > 0, 1 / jnp.where(alpha > 0, alpha, 1.0), 0.0)


def langevin_ways(
    key: Array,
    particles: Particles,
    score: Score,
    *,
    rate: float,
    num_steps: int,
    furthest: Float[Array, ""],
) -> Widths:
    """Returns the ways of particles by tamed Langevin steps; places are reflected at the bounds of the space.

    Args:
        key: for the noise.
        particles: that move, each for itself.
        score: gradient of the log density that they move towards, at one context.
        rate: eta, of a step in units of their widths.
        num_steps: how many.
        furthest: length of a way, in widths.
    """
    places, spread, space = particles.points.table, particles.spread, particles.space

    def langevin_step(ways: Widths, key: Array) -> tuple[Widths, None]:
        slopes = spread * jax.vmap(score)(places + spread * ways)
        slopes = jnp.where(jnp.isfinite(slopes), slopes, 0.0)
        drift = rate * slopes / (1 + rate * _lengths(slopes))
        noise = jax.random.normal(key, ways.shape, ways.dtype)
        ways = ways + drift + math.sqrt(2 * rate) * noise
        ways = ways * jnp.minimum(1.0, furthest / jnp.maximum(_lengths(ways), 1e-30))
        inside = jax.vmap(space.fold)(places + spread * ways)
        return (inside - places) / spread, None

    still = jnp.zeros_like(places)
    return jax.lax.scan(langevin_step, still, jax.random.split(key, num_steps))[0]


def respread(particles: Particles, max_kl: Float[Array, ""]) -> Particles:
    """Returns particles with the spread of their neighbours, as far as each may change within a divergence."""
    most = jnp.minimum(MOST_GROWTH, jnp.sqrt(max_kl / (GROWTH_KL * particles.dim)))
    change = jnp.log(particles.spread_of_neighbours() / particles.spread)
    spread = particles.spread * jnp.exp(jnp.clip(change, -most, most))
    return dataclasses.replace(particles, spread=spread)


def _lengths(ways: Widths) -> Float[Array, "N 1"]:
    return jnp.sqrt((ways**2).sum(axis=1, keepdims=True))
