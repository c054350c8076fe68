"""SAGG-RIAC (Baranes & Oudeyer, 2010): tasks where the competence changes most, found by splitting the context space into boxes.

The competence of a context is its reward. What the interest of a region is, and how it is split:
`spjax.teachers.sagg_riac.regions`. As in the comparison of Klink et al. (2021) an iteration consists of

    70 %  mode 1: a region in proportion to its interest minus the lowest of all, a context uniform inside;
    20 %  mode 2: a context uniform over the whole space;
    10 %  mode 3: a region as in mode 1, its context of least competence plus N(0, 0.1^2) in raw units, clipped;

rounded down for modes 2 and 3, and the rest mode 1. While there is one region, or all are of the same interest, all is uniform.
An episodic learner gets exactly this composition, in this order, from `batch`; a step-based one draws each mode with its chance,
and the competence is the discounted return.

Samples arrive one after another, also those of one iteration: a region is split at the very sample that is one too many, by what
arrived until then. The article's table of settings has its two columns swapped: its n_GOALS is `max_history`, its n_HIST is
`max_goals`.

What differs from the published implementation. A cut needs samples on both sides; where none of the candidates has that (all
contexts coincide), or there are `region_capacity` regions, the region just grows. A split is judged by the newest `split_window`
samples of its region; these are all, unless it grew so. Samples are never dropped while `sample_capacity` is not exceeded; then
the oldest go, and are counted. Rewards that are not finite are left out.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Episodes, Maybe
from spjax.settings import setting
from spjax.teachers.base import Teacher, Value
from spjax.teachers.sagg_riac.regions import (
    Regions,
    Samples,
    Summary,
    add,
    split_where_due,
    summarise,
)

UNIFORM, LOWEST = 2, 3  # the modes that are not mode 1


@part("teacher", "sagg-riac")
@struct.dataclass
class SAGGRIAC(Teacher):
    """Contexts where the competence changes most, in a tree of regions."""

    candidates: int = setting(
        50, static=True, least=1, help="random cuts that a split chooses from"
    )
    region_capacity: int = setting(
        1024, static=True, least=1, unit="regions", help="room for regions"
    )
    sample_capacity: int = setting(
        60000,
        static=True,
        least=1,
        unit="samples",
        help="room for 600 iterations of 100",
    )
    split_window: int = setting(
        512,
        static=True,
        least=1,
        unit="samples",
        help="that a split sees; more than max_goals",
    )
    max_goals: int = setting(
        200, least=1, unit="samples", help="a region with more is split"
    )
    max_history: int = setting(
        100, least=2, unit="samples", help="window of the interest; even"
    )
    uniform_fraction: float = setting(
        0.2, least=0, most=1, help="share of contexts drawn in mode 2"
    )
    lowest_fraction: float = setting(
        0.1, least=0, most=1, help="share of contexts drawn in mode 3"
    )
    std: float = setting(
        0.1, least=0, unit="context units", help="of the noise in mode 3"
    )

    def init(self, key: Array, space: ContextSpace) -> "SAGGRIACState":
        """Returns one region, the whole space, without samples."""
        samples = Samples.empty(self.sample_capacity, space.size, self.region_capacity)
        regions = Regions.whole(self.region_capacity, space.size)
        return SAGGRIACState(
            samples, regions, summarise(samples, regions, self.max_history), space
        )

    def sample(
        self, state: "SAGGRIACState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns one context, of each mode with its chance."""
        key_mode, key_context = jax.random.split(key)
        return self._draw(
            state, key_context, space, self._mode(jax.random.uniform(key_mode))
        )

    def batch(
        self, state: "SAGGRIACState", key: Array, space: ContextSpace, count: int
    ) -> tuple[Float[Array, "count dim"], tuple[()]]:
        """Returns the contexts of an iteration: mode 1 first, then mode 2, then mode 3."""
        many = jnp.array([self.uniform_fraction, self.lowest_fraction]) * count
        uniform, lowest = (many + 1e-3).astype(jnp.int32)  # 0.29 * 100 is 29
        left = count - jnp.arange(count)  # contexts from this one to the last
        modes = jnp.where(
            left <= lowest, LOWEST, jnp.where(left <= lowest + uniform, UNIFORM, 1)
        )
        return jax.vmap(lambda k, mode: self._draw(state, k, space, mode))(
            jax.random.split(key, count), modes
        ), ()

    def update(
        self, state: "SAGGRIACState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["SAGGRIACState", "SAGGRIACMetrics"]:
        """Returns the state with the episodes recorded in order, and the regions split that were due."""
        competence = episodes.discounted_return
        mask = episodes.mask & jnp.isfinite(competence)
        samples, regions, dropped = add(
            state.samples, state.regions, episodes.context, competence, mask
        )
        samples, regions = split_where_due(
            key,
            samples,
            regions,
            state.space,
            newest=mask.sum(dtype=jnp.int32),
            max_goals=self.max_goals,
            max_history=self.max_history,
            candidates=self.candidates,
            window=self.split_window,
        )
        state = SAGGRIACState(
            samples, regions, summarise(samples, regions, self.max_history), state.space
        )
        cumulative = _cumulative(state)
        total = cumulative[-1]
        metrics = SAGGRIACMetrics(
            regions=regions.count,
            samples=samples.count,
            dropped_samples=dropped,
            overfull_regions=(regions.size > self.max_goals).sum(dtype=jnp.int32),
            largest_interest=state.summary.interest.max(),
            largest_chance=Maybe.where(
                total > 0,
                jnp.diff(cumulative, prepend=0.0).max()
                / jnp.where(total > 0, total, 1.0),
            ),
        )
        return state, metrics

    def check(self, space: ContextSpace) -> None:
        """Checks how counts and fractions go together."""
        super().check(space)
        if self.max_history % 2:
            raise ValueError(
                f"teacher.max_history must be even, got {self.max_history}"
            )
        for field in ("split_window", "sample_capacity"):
            if getattr(self, field) <= self.max_goals:
                raise ValueError(
                    f"teacher.{field} must be more than max_goals = {self.max_goals}, got {getattr(self, field)}"
                )
        total = self.uniform_fraction + self.lowest_fraction
        if total > 1:
            raise ValueError(
                f"teacher.uniform_fraction + teacher.lowest_fraction must be at most 1, got {total:g}"
            )

    def _mode(self, chance: Float[Array, ""]) -> Int[Array, ""]:
        """Returns the mode that a uniform number in [0, 1) stands for."""
        either = self.uniform_fraction + self.lowest_fraction
        return jnp.where(
            chance < self.uniform_fraction,
            UNIFORM,
            jnp.where(chance < either, LOWEST, 1),
        )

    def _draw(
        self,
        state: "SAGGRIACState",
        key: Array,
        space: ContextSpace,
        mode: Int[Array, ""],
    ) -> Float[Array, " dim"]:
        """Returns one context of a mode."""
        key_region, key_inside, key_noise = jax.random.split(key, 3)
        cumulative = _cumulative(state)
        region = jnp.argmax(
            cumulative > jax.random.uniform(key_region) * cumulative[-1]
        )
        everywhere = cumulative[-1] <= 0
        lower, upper = state.regions.box(region, space)
        whole: Bool[Array, ""] = everywhere | (mode == UNIFORM)
        lower, upper = (
            jnp.where(whole, jnp.array(space.lower), lower),
            jnp.where(whole, jnp.array(space.upper), upper),
        )
        inside = jax.random.uniform(key_inside, lower.shape, lower.dtype, lower, upper)
        noise = self.std * jax.random.normal(key_noise, lower.shape)
        near = space.clip(state.summary.lowest[:, region] + noise)
        return jnp.where((mode == LOWEST) & ~everywhere, near, inside)


@struct.dataclass
class SAGGRIACState:
    """The curriculum's state."""

    samples: Samples
    regions: Regions
    summary: Summary
    space: ContextSpace = struct.field(pytree_node=False)


@struct.dataclass
class SAGGRIACMetrics:
    """Of one iteration."""

    regions: Int[Array, ""]
    samples: Int[Array, ""]  # in them
    dropped_samples: Int[Array, ""]  # the oldest, in this iteration, for want of room
    overfull_regions: Int[
        Array, ""
    ]  # with more than max_goals samples; none while contexts differ and there is room
    largest_interest: Float[Array, ""]  # reward units
    largest_chance: Maybe  # of a region in mode 1; none where all is uniform


def _cumulative(state: SAGGRIACState) -> Float[Array, " region"]:
    """Returns the cumulated interests above the lowest; all 0 where the regions are of the same interest."""
    interest = state.summary.interest
    exists = jnp.arange(interest.size) < state.regions.count
    least = jnp.where(exists, interest, jnp.inf).min()
    return jnp.cumsum(jnp.where(exists, interest - least, 0.0))
