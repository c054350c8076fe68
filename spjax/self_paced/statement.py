"""From the arguments of a context update to the local problem that the solver gets; data choose the mode, by selects."""

import dataclasses
import enum
from typing import Generic, Literal, TypeVar

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.contexts.base import ContextDistribution
from spjax.contexts.chart import KlDirection, LocalProblem, scaled
from spjax.solvers.augmented_lagrangian import SolverConfig

Precision = Literal["float64", "float32"]
Family = TypeVar("Family", bound=ContextDistribution)


class Mode(enum.IntEnum):
    """Which problem an update solved."""

    REWARD = 0  # bound rule, V_LB not reached yet: maximise the performance
    TARGET = 1  # bound rule, V_LB reached: approach the target
    FROZEN = 2  # bound rule, V_LB lost again: keep the distribution
    PROPORTION = 3
    RESTORED = 4  # with a backup, V_LB missed but within reach: go there, then approach


@struct.dataclass
class Inputs(Generic[Family]):
    """The array arguments of an update; what its rule does not use is zero."""

    old: Family
    target: Family
    contexts: Float[Array, "M dim"]
    values: Float[Array, " M"]
    mask: Bool[Array, " M"]
    alpha: Float[Array, ""]
    performance_bound: Float[Array, ""]
    reached: Bool[Array, ""]
    max_kl: Float[Array, ""]
    std_floor: Float[Array, " dim"] | None


@dataclasses.dataclass(frozen=True)
class Static:
    """What is compiled into an update."""

    bounded: bool
    kl_direction: KlDirection
    precision: Precision
    config: SolverConfig
    search_outliers: bool
    families: tuple[
        type | None, ...
    ] = ()  # of old and target, see `spjax.trees.node_types`
    backup: bool = False  # whether a missed bound is always looked for


def dtype_of(distribution: ContextDistribution) -> jnp.dtype:
    """Returns the dtype of a distribution's numbers."""
    return jnp.result_type(*jax.tree.leaves(distribution))


def to_working_precision(static: Static, inputs: Inputs[Family]) -> Inputs[Family]:
    """Returns the inputs in the dtype of the solve."""
    dtype = jnp.float64 if static.precision == "float64" else dtype_of(inputs.old)

    def convert(leaf: ArrayLike) -> Array:
        leaf = jnp.asarray(leaf)
        return leaf if leaf.dtype == bool else leaf.astype(dtype)

    return jax.tree.map(convert, inputs)


def clean(inputs: Inputs[Family]) -> tuple[Bool[Array, ""], Inputs[Family]]:
    """Returns whether there is a problem to solve, and inputs that are finite (as far as ``old`` is) in any case."""
    mask, old, target = inputs.mask, inputs.old, inputs.target
    center = old.summary().mean
    contexts = jnp.where(mask[:, None], inputs.contexts, center)
    values = jnp.where(mask, inputs.values, 0.0)
    inputs = dataclasses.replace(inputs, contexts=contexts, values=values)

    usable = mask.any() & old.is_usable() & target.is_usable()
    settings = (inputs.alpha, inputs.performance_bound, inputs.max_kl, inputs.std_floor)
    for leaf in jax.tree.leaves((contexts, values, settings)):
        usable &= jnp.isfinite(leaf).all()

    harmless = dataclasses.replace(
        jax.tree.map(jnp.zeros_like, inputs),
        old=old,
        target=jax.tree.unflatten(jax.tree.structure(target), jax.tree.leaves(old)),
        contexts=jnp.zeros_like(contexts) + center[None],
        mask=mask,
        reached=inputs.reached,
    )
    return usable, jax.tree.map(
        lambda leaf, safe: jnp.where(usable, leaf, safe), inputs, harmless
    )


def state_problem(
    static: Static, inputs: Inputs[Family], usable: Bool[Array, ""]
) -> tuple[LocalProblem, Int[Array, ""]]:
    """States the update in the coordinates of the old distribution; the mode is chosen by selects."""
    old, mask, dtype = inputs.old, inputs.mask, inputs.values.dtype
    count = jnp.maximum(mask.sum(), 1).astype(dtype)
    performance = inputs.values.sum() / count
    if static.bounded:
        enough = performance >= inputs.performance_bound
        missed = jnp.where(
            inputs.reached & (not static.backup), Mode.FROZEN, Mode.REWARD
        )
        mode = jnp.where(enough, Mode.TARGET, missed)
        mode = jnp.where(usable, mode, Mode.FROZEN)
        performance_weight = (mode == Mode.REWARD).astype(dtype)
        target_weight = (mode == Mode.TARGET).astype(dtype)
    else:
        mode = jnp.asarray(Mode.PROPORTION)
        performance_weight, target_weight = usable.astype(dtype), inputs.alpha

    max_kl = jnp.where(inputs.max_kl > 0, inputs.max_kl, 1.0)
    problem = LocalProblem(
        old=old,
        data=_data(inputs),
        weights=inputs.values / count,
        performance_weight=performance_weight,
        target_weight=target_weight,
        max_kl=max_kl,
        radius=jnp.where(inputs.max_kl > 0, jnp.sqrt(2 * max_kl), 0.0),
        slack=performance - inputs.performance_bound,
        slack_scale=jnp.ones((), dtype),
        bounded=mode == Mode.TARGET,
    )
    return scaled(old.chart, problem, static.kl_direction), mode.astype(jnp.int32)


def state_approach(
    static: Static, problem: LocalProblem, restored: Bool[Array, ""]
) -> LocalProblem:
    """States what follows on a backup: the target is approached, and the bound kept that was restored.

    The old distribution breaks that bound, so a solve has to start where it was restored. Nothing moves where it was not.
    """
    one = jnp.ones_like(problem.target_weight)
    problem = dataclasses.replace(
        problem,
        performance_weight=jnp.zeros_like(one),
        target_weight=one,
        radius=jnp.where(restored, problem.radius, 0.0),
        slack_scale=one,
        bounded=restored,
    )
    return scaled(problem.old.chart, problem, static.kl_direction)


def _data(inputs: Inputs[Family]) -> PyTree:
    chart = inputs.old.chart
    data = chart.prepare(inputs.old, inputs.target, inputs.contexts, inputs.mask)
    return (
        data if inputs.std_floor is None else chart.with_floor(data, inputs.std_floor)
    )
