"""Particles: weighted points in the context space, each with a small Gaussian around it, as curricula may have any shape.

    p(c) = sum_i w_i N(c; c_i, diag(h_i^2))

is what contexts are drawn from. An update of the weights is that of a discrete distribution over the points, which has an exact
solve, and so it needs the target only there: with log mu - log p at the points for the log ratio of target and old weights, the
objective is an estimate of KL(p || mu), by the points instead of fresh draws.

With the points matched by their numbers

    KL(p || p') <= KL(w || w') + sum_i w_i KL(N(c_i, h_i^2) || N(c'_i, h'_i^2)),

as of any mixtures. When few points have all the weight, they are drawn anew from p itself
(`Particles.resampled`): systematic resampling and the Gaussian, the jitter. In expectation that changes nothing.

The widths h_i are the spread of the sqrt(N) nearest points, a dimension each, so particles are as fine as the distribution is
where they are, and no scale is to be chosen.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.contexts.base import ContextDistribution, Summary
from spjax.contexts.discrete import Discrete
from spjax.contexts.discrete_chart import DiscreteChart
from spjax.contexts.space import ContextSpace

LEAST_SPREAD = 1e-5  # widths of the space
FURTHEST = 1e6  # nats, between target and particles at a point


@struct.dataclass
class Particles(ContextDistribution):
    """A mixture of as many Gaussians as there are points.

    It is what a teacher makes of an initial distribution of any family, not a family to choose by name.
    """

    points: Discrete  # their places and weights
    spread: Float[Array, "N dim"]  # h, context units
    space: ContextSpace = struct.field(pytree_node=False)  # where the points are

    @classmethod
    def around(
        cls, contexts: Float[Array, "N dim"], space: ContextSpace
    ) -> "Particles":
        """Returns particles of equal weight, with the spread of their neighbours."""
        points = Discrete(contexts, jnp.zeros_like(contexts[:, 0]))
        count = len(contexts)
        overall = jnp.sqrt(jnp.diagonal(points.summary().covariance))[None]
        particles = cls(points, jnp.maximum(overall, _least_spread(space)), space)
        quarter = particles.spread_of_neighbours(-(-count // 4))
        particles = dataclasses.replace(particles, spread=quarter)
        return dataclasses.replace(particles, spread=particles.spread_of_neighbours())

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return self.points.dim

    @property
    def chart(self) -> DiscreteChart:
        """That of ``points``, whose update is that of the weights."""
        return self.points.chart

    @property
    def effective_size(self) -> Float[Array, ""]:
        """(sum w)^2 / sum w^2: as many particles of equal weight say as much; between 1 and N."""
        return 1.0 / (self.points.probs**2).sum()

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns a point that is drawn first, and its Gaussian; reflected at the bounds, where a space is given."""
        key_row, key_jitter = jax.random.split(key)
        row = jax.random.categorical(key_row, self.points.logits)
        jitter = jax.random.normal(key_jitter, (self.dim,), self.spread.dtype)
        context = self.points.table[row] + self.spread[row] * jitter
        return context if space is None else space.fold(context)

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log density in nats, of draws before they are reflected."""
        whitened = (context[None] - self.points.table) / self.spread
        logs = -0.5 * whitened**2 - jnp.log(self.spread) - 0.5 * math.log(2 * math.pi)
        return jax.nn.logsumexp(self.points.log_probs + logs.sum(axis=1))

    def summary(self) -> Summary:
        """Returns mean and covariance of the whole."""
        between = self.points.summary()
        within = jnp.diag(self.points.probs @ self.spread**2)
        return Summary(between.mean, between.covariance + within)

    def kl_to(self, other: ContextDistribution) -> Float[Array, ""]:
        """Returns an estimate of KL(self || other) in nats, the other one any density: the mean log ratio at the points."""
        return -(self.points.probs @ self.log_ratios_of(other))

    def log_ratios_of(self, other: ContextDistribution) -> Float[Array, " N"]:
        """Returns log other - log self at the points, nats; finite, also where the other one is zero."""
        ratios = jax.vmap(
            lambda context: other.log_prob(context) - self.log_prob(context)
        )
        return jnp.clip(ratios(self.points.table), -FURTHEST, FURTHEST)

    def on_points(self, other: ContextDistribution) -> Discrete:
        """Returns another density as weights of these points: w_i other(c_i) / self(c_i), up to a constant."""
        logits = self.points.logits + self.log_ratios_of(other)
        return dataclasses.replace(self.points, logits=logits)

    def resampled(self, key: Array) -> "Particles":
        """Returns as many particles of equal weight, drawn from this distribution.

        Resampling is systematic: of a point there are N w_i copies, one more or less, and exactly so many in expectation.
        """
        key_rows, key_jitter = jax.random.split(key)
        contexts, probs = self.points.table, self.points.probs
        count = len(contexts)
        steps = (
            jnp.arange(count, dtype=probs.dtype) + jax.random.uniform(key_rows)
        ) / count
        rows = jnp.searchsorted(jnp.cumsum(probs) / probs.sum(), steps)
        rows = jnp.minimum(rows, count - 1)
        jitter = jax.random.normal(key_jitter, contexts.shape, contexts.dtype)
        drawn = contexts[rows] + self.spread[rows] * jitter
        return Particles.around(jax.vmap(self.space.fold)(drawn), self.space)

    def spread_of_neighbours(self, near: int | None = None) -> Float[Array, "N dim"]:
        """Returns the standard deviations of the points near to each, sqrt(N) of them where nothing else is said.

        Distances are in units of the present spread, so that the unit of a dimension does not matter.
        """
        contexts = self.points.table
        near = math.isqrt(len(contexts) - 1) + 1 if near is None else near
        apart = (contexts[:, None] - contexts[None]) / self.spread[:, None]
        squared = (apart**2).sum(axis=2)
        furthest = -jax.lax.top_k(-squared, near)[0][:, -1]
        among = (squared <= furthest[:, None]).astype(contexts.dtype)
        share = among / among.sum(axis=1)[:, None]
        squares = (contexts[None] - (share @ contexts)[:, None]) ** 2
        spread = jnp.sqrt(jnp.einsum("ij,ijd->id", share, squares))
        return jnp.maximum(spread, _least_spread(self.space))

    def kl_of_moves(self, before: "Particles") -> Float[Array, ""]:
        """Returns sum_i w_i KL(N(c_i, h_i^2) || N(c'_i, h'_i^2)), nats, the other one with a dash."""
        log_ratio = jnp.log(self.spread / before.spread)
        ways = (self.points.table - before.points.table) / before.spread
        widths = 0.5 * jnp.expm1(2 * log_ratio) - log_ratio
        return self.points.probs @ (widths + 0.5 * ways**2).sum(axis=1)

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks the points; raises ValueError as `Discrete.check`."""
        self.points.check(space, what)


def _least_spread(space: ContextSpace) -> Float[Array, "1 dim"]:
    width = jnp.asarray(space.upper) - jnp.asarray(space.lower)
    return LEAST_SPREAD * width[None]
