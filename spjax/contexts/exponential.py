"""Families on a box whose dimensions are independent, each an exponential family of two numbers, and their chart.

A dimension has the density exp(t . T(c) - A(t)) in its natural parameters t. Written as d = t_new - t_old, with the gap

    G(d) = A(t + d) - A(t) - A'(t) d = KL(old || new),    M(d) = G'(d) = E_new[T] - E_old[T],    F(d) = G''(d),

all that an update needs follows from this one function:

    log p_new(c) - log p_old(c) = d . (T(c) - E_old[T]) - G(d),
    KL(new || q)                = the gap of the new distribution,

and the derivatives of KL(old || new), KL(new || old) and KL(new || q) are M, F d and F (d - d_q), with d_q the change to q.
KL(old || new) is convex in d, and what keeps a distribution in its family is linear in it. The coordinates are z = L' d
with L L' = F(0) in each dimension, so that KL is close to |z|^2 / 2.

A box matters because a Gaussian is clipped to the context space: draws outside are moved to its border, and an update weighs
them as if they were not. A distribution that lives on the box has the density that its draws have.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float

from spjax.contexts.base import ContextDistribution
from spjax.contexts.chart import Chart, Coefficients, Gradients, KlDirection
from spjax.contexts.parametric import Vectors
from spjax.contexts.space import ContextSpace
from spjax.settings import setting

Natural = Float[Array, "dim 2"]  # parameters, or their changes


@struct.dataclass
class Boxed(Vectors):
    """Independent dimensions on a box within the context space, outside of which there is no context."""

    lower: tuple[float, ...] = setting(
        static=True, unit="context units", help="of the box, a number a dimension"
    )
    upper: tuple[float, ...] = setting(
        static=True, unit="context units", help="of the box, a number a dimension"
    )

    def __post_init__(self) -> None:
        """Keeps the bounds as tuples, which can be hashed; and as `Vectors`."""
        for name in ("lower", "upper"):
            if not isinstance(bounds := getattr(self, name), tuple):
                object.__setattr__(self, name, tuple(map(float, bounds)))
        super().__post_init__()

    @property
    def chart(self) -> "ExponentialChart":
        """Natural parameters, in steps that the KL divergence measures."""
        return ExponentialChart()

    @property
    def low(self) -> Float[Array, " dim"]:
        """The lower bounds, in the dtype of the distribution."""
        return jnp.asarray(self.lower, jax.tree.leaves(self)[0].dtype)

    @property
    def width(self) -> Float[Array, " dim"]:
        """The extents of the box."""
        return jnp.asarray(self.upper, self.low.dtype) - self.low

    def _lengths(
        self, typed: Mapping[str, tuple[float, ...]]
    ) -> list[tuple[str, tuple[float, ...]]]:
        """Returns bounds and vectors."""
        return [("lower", self.lower), ("upper", self.upper), *typed.items()]

    def _are_shapes(self, typed: Mapping[str, tuple[float, ...]]) -> bool:
        """Says whether these may be the shapes of the leaves, which end in the number of dimensions."""
        ends = {value[-1:] for value in typed.values()}
        return super()._are_shapes(typed) and ends == {(len(self.lower),)}

    @abc.abstractmethod
    def moved(self, change: Natural) -> Self:
        """Returns the distribution with natural parameters that differ by so much."""

    @abc.abstractmethod
    def change_to(self, other: Self) -> Natural:
        """Returns by how much the natural parameters of another differ; exactly zero for the same."""

    @abc.abstractmethod
    def centred(self, context: Float[Array, " dim"]) -> Natural:
        """Returns T(c) - E[T] in each dimension."""

    @abc.abstractmethod
    def gap(self, change: Natural) -> Float[Array, " dim"]:
        """Returns KL(self || moved) in each dimension, nats; at least four times differentiable, and exact for small changes."""

    @abc.abstractmethod
    def limits(self, change: Natural) -> Float[Array, " m"]:
        """Returns what must not be above 0 for a distribution of the family, linear in the change."""

    def mean_change(self, change: Natural) -> Natural:
        """Returns M, the derivative of the gap; automatic unless the family writes its own."""
        return _slopes(self.gap, change)

    def fisher(self, change: Natural) -> Float[Array, "dim 2 2"]:
        """Returns F, the derivative of M; likewise."""
        return _slopes(self.mean_change, change)

    def bend(self, change: Natural) -> Float[Array, "dim 2 2 2"]:
        """Returns the derivative of F; likewise."""
        return _slopes(self.fisher, change)

    def kl_to(self, other: Self) -> Float[Array, ""]:
        """Returns KL(self || other) in nats."""
        return self.gap(self.change_to(other)).sum()

    def check_typed(self, typed: Mapping[str, tuple[float, ...]]) -> None:
        """Checks, beside ranges and lengths, that the box is one, and what is in it."""
        super().check_typed(typed)
        dimensions = [f"dimension {number}" for number in range(len(self.lower))]
        self.check_box(type(self).__name__, dimensions, typed)

    def check_box(
        self,
        what: str,
        dimensions: Sequence[str],
        vectors: Mapping[str, tuple[float, ...]],
    ) -> None:
        """Checks the bounds, and those of the vectors that are there against them; raises ValueError in one sentence."""
        for name, low, high in zip(dimensions, self.lower, self.upper, strict=True):
            if not low < high:
                raise ValueError(
                    f"{what}: lower must be below upper, got [{low:g}, {high:g}] for {name}"
                )

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks the lengths, and that the box is one and lies within the space; raises ValueError in one sentence."""
        super().check(space, what)
        self.check_box(what, space.names, self.settings())
        space.check(self.lower, f"{what}.lower")
        space.check(self.upper, f"{what}.upper")

    def check_target(self, target: ContextDistribution) -> None:
        """Checks that the target lives on the same box; elsewhere the divergence would be infinite."""
        super().check_target(target)
        assert isinstance(target, Boxed)
        if (self.lower, self.upper) != (target.lower, target.upper):
            raise ValueError(
                f"old and target must be on one box, got {self.lower} to {self.upper} and {target.lower} to {target.upper}"
            )


@struct.dataclass
class ExponentialData:
    """One problem."""

    old: Boxed
    target: Boxed
    to_target: Natural  # d_q
    start: Float[Array, ""]  # KL(old || target)
    centred: Float[Array, "M dim 2"]  # zero where masked out
    unroot: Float[Array, "dim 2 2"]  # U = L'^-1, of d = U z
    relief: Float[Array, " m"]  # by how much the old distribution breaks its limits
    limit_scale: Float[Array, " m"]  # lengths of their slopes in z


@dataclasses.dataclass(frozen=True)
class ExponentialChart(Chart[Boxed, ExponentialData]):
    """Whitened natural parameters, with derivatives by the formulas above."""

    def size(self, old: Boxed) -> int:
        """Returns two numbers a dimension."""
        return 2 * old.dim

    def prepare(
        self,
        old: Boxed,
        target: Boxed,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> ExponentialData:
        """Returns the problem; any root of the Fisher information does, so no derivative goes through it."""
        zero = jnp.zeros((old.dim, 2), contexts.dtype)
        unroot = jax.lax.stop_gradient(_unroot(old.fisher(zero)))

        # a rounded distribution may break a limit, but no further
        slopes = jax.jacfwd(lambda z: old.limits(_times(unroot, z)))(zero)
        scale = jnp.sqrt((slopes**2).sum(axis=(1, 2)))
        relief = jnp.maximum(0.0, old.limits(zero))
        fixed = jax.lax.stop_gradient((relief, scale))

        centred = jax.vmap(old.centred)(contexts)
        centred = jnp.where(mask[:, None, None], centred, 0.0)
        return ExponentialData(
            old,
            target,
            old.change_to(target),
            old.kl_to(target),
            centred,
            unroot,
            *fixed,
        )

    def at(self, data: ExponentialData, z: Float[Array, " n"]) -> Boxed:
        """Returns the distribution whose natural parameters have changed by U z."""
        return data.old.moved(_change(data, z))

    def coordinates(self, data: ExponentialData, new: Boxed) -> Float[Array, " n"]:
        """Returns U^-1 d; the 2 x 2 blocks are upper triangular."""
        change, unroot = data.old.change_to(new), data.unroot
        second = change[:, 1] / unroot[:, 1, 1]
        first = (change[:, 0] - unroot[:, 0, 1] * second) / unroot[:, 0, 0]
        return jnp.stack([first, second], axis=1).reshape(-1)

    def log_ratios(
        self, data: ExponentialData, z: Float[Array, " n"]
    ) -> Float[Array, " M"]:
        """Returns d . (T(c) - E_old[T]) - G(d) for every context."""
        change = _change(data, z)
        linear = (data.centred * change[None]).sum(axis=(1, 2))
        return linear - data.old.gap(change).sum()

    def kl_from_old(
        self, data: ExponentialData, z: Float[Array, " n"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns G(d), or that of the new distribution."""
        if direction == "old-new":
            return data.old.gap(_change(data, z)).sum()
        return self.at(data, z).kl_to(data.old)

    def kl_to_target_gain(
        self, data: ExponentialData, z: Float[Array, " n"]
    ) -> Float[Array, ""]:
        """Returns KL(new || target) - KL(old || target)."""
        return self.at(data, z).kl_to(data.target) - data.start

    def limits(
        self, data: ExponentialData, z: Float[Array, " n"]
    ) -> Float[Array, " m"]:
        """Returns the family's limits, with slopes of length 1."""
        limits = data.old.limits(_change(data, z))
        return (limits - data.relief) / data.limit_scale

    def rounded(
        self, data: ExponentialData, z: Float[Array, " n"], dtype: jnp.dtype
    ) -> Boxed:
        """Returns the distribution at ``z`` in the caller's dtype; at zero the old one, bit for bit."""
        still = (z == 0).all()
        return jax.tree.map(
            lambda new, old: jnp.where(still, old, new).astype(dtype),
            self.at(data, z),
            data.old,
        )

    def gradients(
        self,
        data: ExponentialData,
        z: Float[Array, " n"],
        weights: Float[Array, " M"],
        direction: KlDirection,
    ) -> Gradients:
        """Returns the first derivatives, by the formulas above."""
        change = _change(data, z)
        mean_change, fisher = data.old.mean_change(change), data.old.fisher(change)
        weighted = weights * jnp.exp(self.log_ratios(data, z))
        gain = jnp.einsum("m,mdk->dk", weighted, data.centred - mean_change[None])
        from_old = (
            mean_change if direction == "old-new" else _times(fisher, change)
        )  # F d
        limits = jax.jacfwd(lambda z: self.limits(data, z))(z)
        return Gradients(
            gain=_pulled(data, gain),
            to_target=_pulled(data, _times(fisher, change - data.to_target)),
            from_old=_pulled(data, from_old),
            limits=limits,
        )

    def curvature(
        self,
        data: ExponentialData,
        z: Float[Array, " n"],
        weights: Float[Array, " M"],
        direction: KlDirection,
        coefficients: Coefficients,
    ) -> Float[Array, "n n"]:
        """Returns the second derivative of the weighted sum: an outer product of scores, and a block a dimension."""
        change = _change(data, z)
        old, dim = data.old, len(change)
        mean_change, fisher = old.mean_change(change), old.fisher(change)
        bend = old.bend(change)
        weighted = weights * jnp.exp(self.log_ratios(data, z))
        scores = data.centred - mean_change[None]

        def along(direction: Natural) -> Float[Array, "dim 2 2"]:
            """Returns F + F' v, of (v . F)'."""
            return fisher + jnp.einsum("dijk,dk->dij", bend, direction)

        of_old = fisher if direction == "old-new" else along(change)
        blocks = coefficients.from_old * of_old
        blocks += coefficients.to_target * along(change - data.to_target)
        blocks -= coefficients.gain * weighted.sum() * fisher
        blocks = jnp.einsum("dki,dkl,dlj->dij", data.unroot, blocks, data.unroot)

        whitened = jax.vmap(lambda one: _pulled(data, one))(scores)
        outer = (whitened * weighted[:, None]).T @ whitened
        total = (coefficients.gain * outer).reshape(dim, 2, dim, 2)
        each = jnp.arange(dim)
        return total.at[each, :, each, :].add(blocks).reshape(2 * dim, 2 * dim)


def _change(data: ExponentialData, z: Float[Array, " n"]) -> Natural:
    return _times(data.unroot, z.reshape(-1, 2))


def _times(matrices: Float[Array, "dim 2 2"], vectors: Natural) -> Natural:
    return (matrices * vectors[:, None]).sum(axis=2)


def _pulled(data: ExponentialData, slopes: Natural) -> Float[Array, " n"]:
    """Returns slopes in z, from those in d."""
    return (data.unroot * slopes[:, :, None]).sum(axis=1).reshape(-1)


def _slopes(
    function: Callable[[Natural], Float[Array, " dim *k"]], change: Natural
) -> Float[Array, " dim *k 2"]:
    """Returns the derivatives of a function that keeps the dimensions apart, a last axis more."""

    def slope(unit: Float[Array, "2"]) -> Float[Array, " dim *k"]:
        along = jnp.broadcast_to(unit, change.shape)
        return jax.jvp(function, (change,), (along,))[1]

    return jax.vmap(slope, out_axes=-1)(jnp.eye(2, dtype=change.dtype))


def _unroot(fisher: Float[Array, "dim 2 2"]) -> Float[Array, "dim 2 2"]:
    """Returns L'^-1, with L L' the matrices."""
    first = jnp.sqrt(fisher[:, 0, 0])
    below = fisher[:, 1, 0] / first
    second = jnp.sqrt(jnp.maximum(fisher[:, 1, 1] - below**2, 1e-12 * below**2))
    zero = jnp.zeros_like(first)
    rows = [[1 / first, -below / (first * second)], [zero, 1 / second]]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
