"""Beta distributions on a box: from the uniform distribution to a narrow peak, with nothing outside.

With u = (c - lower) / (upper - lower), each dimension has the density u^(a - 1) (1 - u)^(b - 1) / B(a, b): an exponential family
in a and b. With s = a + b and m = a / s, the old mean, a change of them is split into a turn and a growth,

    da = turn + m growth,    db = -turn + (1 - m) growth,

which move mean and concentration: the statistics are log u - log(1 - u) and m log u + (1 - m) log(1 - u), the latter the
negative divergence of Bernoulli distributions, up to a constant. Nothing here loses digits where the distribution is
narrow (`spjax.solvers.gamma`).
"""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.catalogue import part
from spjax.contexts.base import Summary
from spjax.contexts.exponential import Boxed, Natural
from spjax.contexts.space import ContextSpace
from spjax.settings import setting
from spjax.solvers.gamma import (
    digamma,
    digamma_gap,
    log_beta_gap,
    log_gamma,
    log_less_digamma,
    tetragamma,
    trigamma,
)
from spjax.solvers.series import expm1_minus

LEAST = 0.1  # of a and b, of every distribution of the family
NEAREST = 2.0**-24  # to a bound, as a share of the box, that a context counts as


@part("distribution", "beta")
@struct.dataclass
class Beta(Boxed):
    """Independent Beta distributions on a box; a = b = 1 is uniform."""

    a: Float[Array, " dim"] = setting(
        least=LEAST, unit="1", help="of each dimension; mean a / (a + b) of the box"
    )
    b: Float[Array, " dim"] = setting(
        least=LEAST, unit="1", help="of each dimension; the larger a + b, the narrower"
    )
    least: float = setting(
        LEAST,
        static=True,
        least=LEAST,
        unit="1",
        help="of a and b; with 1 the density has no pole at a bound",
    )

    @classmethod
    def on(
        cls, space: ContextSpace, concentration: float = 1.0, least: float = LEAST
    ) -> "Beta":
        """Returns the distribution on a whole context space with these a and b in every dimension; 1 is uniform."""
        numbers = jnp.full(space.size, concentration, float)
        return cls(
            a=numbers, b=numbers, lower=space.lower, upper=space.upper, least=least
        )

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns one draw; it lies in the box."""
        share = jax.random.beta(key, self.a, self.b, dtype=self.a.dtype)
        context = self.low + self.width * share
        return context if space is None else space.clip(context)

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log density in nats at one context."""
        share, rest = self._shares(context)
        log_beta = log_gamma(self.a) + log_gamma(self.b) - log_gamma(self.a + self.b)
        density = (self.a - 1) * jnp.log(share) + (self.b - 1) * jnp.log(rest)
        return (density - log_beta - jnp.log(self.width)).sum()

    def summary(self) -> Summary:
        """Returns mean and covariance."""
        total = self.a + self.b
        mean = self.a / total
        variance = mean * (self.b / total) / (total + 1)
        return Summary(self.low + self.width * mean, jnp.diag(self.width**2 * variance))

    def moved(self, change: Natural) -> "Beta":
        """Returns the distribution after a turn and a growth."""
        of_a, of_b = self._differences(change)
        return dataclasses.replace(self, a=self.a + of_a, b=self.b + of_b)

    def change_to(self, other: "Beta") -> Natural:
        """Returns turn and growth."""
        of_a, of_b = other.a - self.a, other.b - self.b
        turn = (self.b * of_a - self.a * of_b) / (self.a + self.b)
        return jnp.stack([turn, of_a + of_b], axis=-1)

    def centred(self, context: Float[Array, " dim"]) -> Natural:
        """Returns both statistics less their means."""
        share, rest = self._shares(context)
        logit = jnp.log(share) - jnp.log(rest) - digamma(self.a) + digamma(self.b)

        mean, other = self._means()
        of_mean = mean * expm1_minus(jnp.log(share / mean))
        of_other = other * expm1_minus(jnp.log(rest / other))
        constant = mean * log_less_digamma(self.a) + other * log_less_digamma(self.b)
        constant -= log_less_digamma(self.a + self.b)
        return jnp.stack([logit, constant - of_mean - of_other], axis=-1)

    def gap(self, change: Natural) -> Float[Array, " dim"]:
        """Returns the gap of log B(a, b)."""
        return log_beta_gap(self.a, self.b, *self._differences(change), change[:, 0])

    def mean_change(self, change: Natural) -> Natural:
        """Returns the changes of digamma at a, b and their sum, along turn and growth."""
        of_a, of_b = self._differences(change)
        changes = jnp.stack([of_a, of_b, of_a + of_b])
        return self._along(digamma_gap(self._numbers(), changes), order=1)

    def fisher(self, change: Natural) -> Float[Array, "dim 2 2"]:
        """Returns the same of trigamma, after the change."""
        return self._along(trigamma(self.moved(change)._numbers()), order=2)

    def bend(self, change: Natural) -> Float[Array, "dim 2 2 2"]:
        """Returns the same of tetragamma."""
        return self._along(tetragamma(self.moved(change)._numbers()), order=3)

    def limits(self, change: Natural) -> Float[Array, " m"]:
        """Returns what is missing to the least a and b."""
        of_a, of_b = self._differences(change)
        return self.least - jnp.concatenate([self.a + of_a, self.b + of_b])

    def check_box(
        self,
        what: str,
        dimensions: Sequence[str],
        vectors: Mapping[str, tuple[float, ...]],
    ) -> None:
        """Checks the box, and that a and b are not below the least; raises ValueError in one sentence."""
        super().check_box(what, dimensions, vectors)
        for name in ("a", "b"):
            smallest = min(vectors.get(name, (self.least,)))
            if smallest < self.least:
                raise ValueError(
                    f"{what}.{name} must be at least {self.least:g}, its least, got {smallest:g}"
                )

    def _numbers(self) -> Float[Array, "3 dim"]:
        """Returns a, b and s."""
        return jnp.stack([self.a, self.b, self.a + self.b])

    def _means(self) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """Returns m and 1 - m."""
        total = self.a + self.b
        return self.a / total, self.b / total

    def _differences(
        self, change: Natural
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """Returns da and db."""
        mean, other = self._means()
        turn, growth = change[:, 0], change[:, 1]
        return turn + mean * growth, other * growth - turn

    def _along(self, factors: Float[Array, "3 dim"], order: int) -> Array:
        """Returns x_a r_a^order + x_b r_b^order - x_s r_s^order, of the slopes r of a, b and their sum in the change."""
        mean, other = self._means()
        one, zero = jnp.ones_like(mean), jnp.zeros_like(mean)
        slopes = jnp.stack(
            [jnp.stack([one, -one, zero]), jnp.stack([mean, other, one])], -1
        )
        terms = factors
        for _ in range(order):
            shape = slopes.shape[:2] + (1,) * (terms.ndim - 2) + (2,)
            terms = terms[..., None] * slopes.reshape(shape)
        return terms[0] + terms[1] - terms[2]

    def _shares(
        self, context: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """Returns how far the context is from the lower and from the upper bound, shares of the box, never 0."""
        share = (context - self.low) / self.width
        return jnp.clip(share, NEAREST, 1.0), jnp.clip(1.0 - share, NEAREST, 1.0)
