"""What SAGG-RIAC remembers: every context tried, and the boxes that the context space has been split into.

The interest of a box with m samples is |sum of its newest h/2 competences - sum of the h/2 before| / h with h = min(max_history,
m rounded down to even), and 0 where m < 2. A box with more than max_goals samples is split in two at the best of some random
(dimension, threshold) pairs, by n_1 n_2 |interest_1 - interest_2|.

Samples lie in the order of their arrival and carry the number of their box. All that a box needs comes from passes over them,
which cost a scatter each; a split costs three.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts import ContextSpace


@struct.dataclass
class Samples:
    """Contexts tried, in the order of their arrival; the places from `count` on are blank."""

    context: Float[Array, "dim place"]
    competence: Float[Array, " place"]  # reward units
    region: Int[Array, " place"]  # that it lies in; of blank places past the last one
    rank: Int[Array, " place"]  # how many samples of its region arrived before it
    count: Int[Array, ""]

    @classmethod
    def empty(cls, capacity: int, dim: int, regions: int) -> "Samples":
        """Returns no samples, with room for `capacity` of them in at most `regions` regions."""
        zeros = jnp.zeros(capacity, jnp.int32)
        return cls(
            context=jnp.zeros((dim, capacity)),
            competence=jnp.zeros(capacity),
            region=jnp.full(capacity, regions, jnp.int32),
            rank=zeros,
            count=jnp.zeros((), jnp.int32),
        )


@struct.dataclass
class Regions:
    """Boxes (lower, upper] that tile the context space, unbounded at its edges; from `count` on they hold nothing."""

    lower: Float[Array, "dim region"]  # context units
    upper: Float[Array, "dim region"]
    size: Int[Array, " region"]  # samples
    count: Int[Array, ""]

    @classmethod
    def whole(cls, capacity: int, dim: int) -> "Regions":
        """Returns one region, with room for `capacity`."""
        unbounded = jnp.full(
            (dim, capacity), jnp.finfo(jnp.float32).max
        )  # finite, as all of a run's state must be
        return cls(
            lower=unbounded.at[:, 0].multiply(-1),
            upper=unbounded,
            size=jnp.zeros(capacity, jnp.int32),
            count=jnp.ones((), jnp.int32),
        )

    def find(self, context: Float[Array, " dim"]) -> Int[Array, ""]:
        """Returns the region of a context."""
        inside = (context[:, None] > self.lower) & (context[:, None] <= self.upper)
        return jnp.argmax(inside.all(0)).astype(jnp.int32)

    def box(
        self, region: int | Int[Array, ""], space: ContextSpace
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """Returns the bounds of a region inside the context space."""
        return space.clip(self.lower[:, region]), space.clip(self.upper[:, region])


@struct.dataclass
class Cut:
    """Where a region is split."""

    dimension: Int[Array, ""]
    threshold: Float[Array, ""]  # context units; what exceeds it goes to the new region
    found: Bool[Array, ""]  # False where no candidate had samples on both sides


@struct.dataclass
class Summary:
    """What is known of each region."""

    interest: Float[Array, " region"]  # reward units; 0 of regions that are not
    lowest: Float[
        Array, "dim region"
    ]  # context of least competence, the first of equals; meaningless without samples


def add(
    samples: Samples,
    regions: Regions,
    contexts: Float[Array, "row dim"],
    competences: Float[Array, " row"],
    mask: Bool[Array, " row"],
) -> tuple[Samples, Regions, Int[Array, ""]]:
    """Returns the samples with the masked rows added in order, the regions, and how many of the oldest had to go for them."""
    capacity = samples.competence.size
    arriving = mask.sum(dtype=jnp.int32)
    excess = jnp.maximum(samples.count + arriving - capacity, 0)
    samples, regions = jax.lax.fori_loop(
        0,
        jnp.minimum(excess, 1),
        lambda _, both: _forget(both[0], both[1], excess),
        (samples, regions),
    )
    mask &= jnp.cumsum(mask) > arriving - capacity
    rows = jnp.flatnonzero(mask, size=mask.size)

    def place_row(
        number: Array, carry: tuple[Array, Array, Array]
    ) -> tuple[Array, Array, Array]:
        region, rank, size = carry
        home = regions.find(contexts[rows[number]])
        return (
            region.at[rows[number]].set(home),
            rank.at[rows[number]].set(size[home]),
            size.at[home].add(1),
        )

    blank = jnp.zeros(mask.size, jnp.int32)
    region, rank, size = jax.lax.fori_loop(
        0, mask.sum(), place_row, (blank, blank, regions.size)
    )
    place = jnp.where(
        mask, samples.count + jnp.cumsum(mask) - 1, capacity
    )  # past the end: dropped
    added = Samples(
        context=samples.context.at[:, place].set(contexts.T, mode="drop"),
        competence=samples.competence.at[place].set(competences, mode="drop"),
        region=samples.region.at[place].set(region, mode="drop"),
        rank=samples.rank.at[place].set(rank, mode="drop"),
        count=samples.count + mask.sum(dtype=jnp.int32),
    )
    return added, dataclasses.replace(regions, size=size), excess


def split_where_due(
    key: Array,
    samples: Samples,
    regions: Regions,
    space: ContextSpace,
    newest: Int[Array, ""],
    max_goals: int | Int[Array, ""],
    max_history: int | Int[Array, ""],
    candidates: int,
    window: int,
) -> tuple[Samples, Regions]:
    """Splits regions as if the newest samples had arrived one after another.

    Each sample that finds more than `max_goals` in its region, itself included, has the region split, by what had arrived until
    then. Nothing is computed where no split is due, in a lane of a batch too, and none is where there is no room for a region.

    Args:
        key: for the candidates.
        samples: with the newest among them.
        regions: that they lie in.
        space: the bounds.
        newest: how many of the samples are new.
        max_goals: samples that a region may hold.
        max_history: window of the interest, samples.
        candidates: random (dimension, threshold) pairs for a split.
        window: newest samples of a region by which a split is judged, more than `max_goals`.

    Returns:
        the samples, in their new regions, and the regions.
    """
    place = jnp.arange(samples.competence.size, dtype=jnp.int32)

    def next_due(rank: Array, regions: Regions, after: Array) -> Int[Array, ""]:
        due = (
            (place > after) & (rank >= max_goals) & (regions.count < regions.size.size)
        )
        return jnp.where(due, place, place.size).min().astype(jnp.int32)

    def split(
        carry: tuple[Array, Array, Regions, Array],
    ) -> tuple[Array, Array, Regions, Array]:
        region, rank, regions, due = carry
        home = region[due]
        member = region == home
        age = rank[due] - rank  # 0 is the newest that has arrived
        slot = jnp.where(
            member & (age < window), window - 1 - age, window
        )  # past the end also what has yet to arrive
        seen = jnp.full(window, -1).at[slot].set(place, mode="drop")
        known = (samples.context[:, seen], samples.competence[seen], seen >= 0)
        cut = best_cut(
            jax.random.fold_in(key, due),
            *known,
            *regions.box(home, space),
            max_history,
            candidates,
        )
        moved = member & cut.found & (samples.context[cut.dimension] > cut.threshold)
        order = jnp.cumsum(moved, dtype=jnp.int32)
        rank = jnp.where(moved, order - 1, jnp.where(member, rank - order, rank))
        region = jnp.where(moved, regions.count, region)
        regions = _divide(regions, home, cut, order[-1])
        return region, rank, regions, next_due(rank, regions, due)

    due = next_due(samples.rank, regions, samples.count - newest - 1)
    region, rank, regions, _ = jax.lax.while_loop(
        lambda carry: carry[-1] < place.size,
        split,
        (samples.region, samples.rank, regions, due),
    )
    return dataclasses.replace(samples, region=region, rank=rank), regions


def best_cut(
    key: Array,
    contexts: Float[Array, "dim sample"],
    competences: Float[Array, " sample"],
    mask: Bool[Array, " sample"],
    lower: Float[Array, " dim"],
    upper: Float[Array, " dim"],
    max_history: int | Int[Array, ""],
    candidates: int,
) -> Cut:
    """Returns the best of random cuts of one box, judged by its masked samples, which lie in the order of their arrival.

    Candidates with all samples on one side are left out; of equals the first is taken.
    """
    key_dimension, key_threshold = jax.random.split(key)
    dimension = jax.random.randint(key_dimension, (candidates,), 0, lower.size)
    share = jax.random.uniform(key_threshold, (candidates,))
    threshold = lower[dimension] + share * (upper - lower)[dimension]
    beyond = contexts[dimension] > threshold[:, None]
    sides = jnp.stack(
        [mask[None] & ~beyond, mask[None] & beyond]
    )  # [2, candidate, sample]
    age = jax.lax.cumsum(sides.astype(jnp.int32), axis=2, reverse=True)
    size = age[:, :, 0]
    sign, window = _halves(age, size[:, :, None], max_history)
    relative = competences - jnp.where(mask, competences, jnp.inf).min()
    change = jnp.where(sides, sign * relative[None, None], 0.0).sum(2)
    interest = jnp.abs(change) / jnp.maximum(window[:, :, 0], 1).astype(change.dtype)
    score = (size[0] * size[1]).astype(float) * jnp.abs(interest[0] - interest[1])
    score = jnp.where((size > 0).all(0), score, -1.0)
    best = jnp.argmax(score)
    return Cut(
        dimension=dimension[best], threshold=threshold[best], found=score[best] >= 0
    )


def summarise(
    samples: Samples, regions: Regions, max_history: int | Int[Array, ""]
) -> Summary:
    """Returns what is known of each region.

    Competences are taken relative to the lowest of their region: the interest of equal ones is exactly 0.
    """
    capacity, place = regions.size.size, jnp.arange(samples.competence.size)
    region, competence = samples.region, samples.competence

    def least(values: Array, blank: int | float) -> Array:
        return (
            jnp.full(capacity, blank, values.dtype).at[region].min(values, mode="drop")
        )

    lowest = least(competence, jnp.inf)[region]
    first = least(
        jnp.where(competence <= lowest, place, place.size - 1), place.size - 1
    )
    sign, _ = _halves(
        regions.size[region] - samples.rank, regions.size[region], max_history
    )
    change = (
        jnp.zeros(capacity).at[region].add(sign * (competence - lowest), mode="drop")
    )
    _, window = _halves(regions.size, regions.size, max_history)
    interest = jnp.abs(change) / jnp.maximum(window, 1).astype(change.dtype)
    return Summary(interest=interest, lowest=samples.context[:, first])


def _halves(
    age: Int[Array, "*batch"],
    size: Int[Array, "*#batch"],
    max_history: int | Int[Array, ""],
) -> tuple[Int[Array, "*batch"], Int[Array, "*#batch"]]:
    """Returns 1 for a sample of the newer half of the window, -1 for one of the older, else 0; and the window h.

    Age counts from 1, the newest of its region.
    """
    window = jnp.minimum(max_history, size - size % 2)
    return jnp.where(age <= window // 2, 1, jnp.where(age <= window, -1, 0)), window


def _divide(
    regions: Regions, home: Int[Array, ""], cut: Cut, moved: Int[Array, ""]
) -> Regions:
    """Returns the regions with one cut in two; the part beyond the threshold, with `moved` samples, is the new one."""
    nowhere = regions.size.size
    old, new = (
        jnp.where(cut.found, home, nowhere),
        jnp.where(cut.found, regions.count, nowhere),
    )
    lower = regions.lower.at[:, new].set(regions.lower[:, home], mode="drop")
    upper = regions.upper.at[:, new].set(regions.upper[:, home], mode="drop")
    return Regions(
        lower=lower.at[cut.dimension, new].set(cut.threshold, mode="drop"),
        upper=upper.at[cut.dimension, old].set(cut.threshold, mode="drop"),
        size=regions.size.at[old]
        .add(-moved, mode="drop")
        .at[new]
        .set(moved, mode="drop"),
        count=regions.count + cut.found.astype(jnp.int32),
    )


def _forget(
    samples: Samples, regions: Regions, excess: Int[Array, ""]
) -> tuple[Samples, Regions]:
    """Returns the samples and regions without the oldest `excess` samples."""
    oldest = jnp.arange(samples.competence.size) < excess
    lost = (
        jnp.zeros_like(regions.size)
        .at[samples.region]
        .add(oldest.astype(jnp.int32), mode="drop")
    )
    kept = Samples(
        context=jnp.roll(samples.context, -excess, axis=1),
        competence=jnp.roll(samples.competence, -excess),
        region=jnp.roll(samples.region, -excess),
        rank=jnp.roll(samples.rank - lost[samples.region], -excess),
        count=jnp.maximum(samples.count - excess, 0),
    )
    return kept, dataclasses.replace(regions, size=regions.size - lost)
