"""From the arguments of a context update to the local problem that the solver gets; data choose the mode, by selects."""

import dataclasses
import enum
from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts import Gaussian
from spjax.contexts.gaussian_chart import KlDirection, LocalProblem, local_functions
from spjax.solvers.augmented_lagrangian import SolverConfig
from spjax.solvers.linalg import solve_lower

Precision = Literal["float64", "float32"]


class Mode(enum.IntEnum):
    """Which problem an update solved."""

    REWARD = 0  # bound rule, V_LB not reached yet: maximise the performance
    TARGET = 1  # bound rule, V_LB reached: approach the target
    FROZEN = 2  # bound rule, V_LB lost again: keep the distribution
    PROPORTION = 3


@struct.dataclass
class Inputs:
    """The array arguments of an update; what its rule does not use is zero."""

    old: Gaussian
    target: Gaussian
    contexts: Float[Array, "M dim"]
    values: Float[Array, " M"]
    mask: Bool[Array, " M"]
    alpha: Float[Array, ""]
    performance_bound: Float[Array, ""]
    reached: Bool[Array, ""]
    max_kl: Float[Array, ""]
    std_floor: Float[Array, " dim"]


@dataclasses.dataclass(frozen=True)
class Static:
    """What is compiled into an update."""

    bounded: bool
    kl_direction: KlDirection
    precision: Precision
    config: SolverConfig
    search_outliers: bool


def to_working_precision(static: Static, inputs: Inputs) -> Inputs:
    """Returns the inputs in the dtype of the solve."""
    dtype = jnp.float64 if static.precision == "float64" else inputs.old.mean.dtype

    def convert(leaf: ArrayLike) -> Array:
        leaf = jnp.asarray(leaf)
        return leaf if leaf.dtype == bool else leaf.astype(dtype)

    return jax.tree.map(convert, inputs)


def clean(inputs: Inputs) -> tuple[Bool[Array, ""], Inputs]:
    """Returns whether there is a problem to solve, and inputs that are finite (as far as ``old`` is) in any case."""
    mask, old = inputs.mask, inputs.old
    contexts = jnp.where(mask[:, None], inputs.contexts, old.mean)
    values = jnp.where(mask, inputs.values, 0.0)
    inputs = dataclasses.replace(inputs, contexts=contexts, values=values)
    usable = mask.any()
    for leaf in jax.tree.leaves(inputs):
        usable &= jnp.isfinite(leaf).all()
    harmless = dataclasses.replace(
        inputs,
        target=old,
        contexts=jnp.zeros_like(contexts) + old.mean,
        values=jnp.zeros_like(values),
        alpha=jnp.zeros_like(inputs.alpha),
        performance_bound=jnp.zeros_like(inputs.performance_bound),
        max_kl=jnp.zeros_like(inputs.max_kl),
        std_floor=jnp.zeros_like(inputs.std_floor),
    )
    return usable, jax.tree.map(lambda leaf, safe: jnp.where(usable, leaf, safe), inputs, harmless)


def state_problem(static: Static, inputs: Inputs, usable: Bool[Array, ""]) -> tuple[LocalProblem, Int[Array, ""]]:
    """States the update in the coordinates of the old distribution; the mode is chosen by selects."""
    old, mask, dtype = inputs.old, inputs.mask, inputs.values.dtype
    count = jnp.maximum(mask.sum(), 1).astype(dtype)
    performance = inputs.values.sum() / count
    if static.bounded:
        enough = performance >= inputs.performance_bound
        mode = jnp.where(enough, Mode.TARGET, jnp.where(inputs.reached, Mode.FROZEN, Mode.REWARD))
        mode = jnp.where(usable, mode, Mode.FROZEN)
        performance_weight = (mode == Mode.REWARD).astype(dtype)
        target_weight = (mode == Mode.TARGET).astype(dtype)
    else:
        mode = jnp.asarray(Mode.PROPORTION)
        performance_weight, target_weight = usable.astype(dtype), inputs.alpha

    whitened = solve_lower(old.chol, (inputs.contexts - old.mean).T)
    features = jnp.where(mask, jnp.concatenate([whitened, jnp.ones_like(whitened[:1])]), 0.0)
    shift = (old.mean - inputs.target.mean)[:, None]
    max_kl = jnp.where(inputs.max_kl > 0, inputs.max_kl, 1.0)
    floored = (inputs.std_floor > 0) & (inputs.max_kl > 0)
    diagonal = jnp.diagonal(old.chol)
    caps = jnp.maximum(0.0, diagonal / jnp.where(floored, inputs.std_floor, 1.0) - 1.0)
    problem = LocalProblem(
        features=features,
        weights=inputs.values / count,
        to_target=solve_lower(inputs.target.chol, jnp.concatenate([old.chol, shift], axis=1)),
        performance_weight=performance_weight,
        target_weight=target_weight,
        max_kl=max_kl,
        radius=jnp.where(inputs.max_kl > 0, jnp.sqrt(2 * max_kl), 0.0),
        slack=performance - inputs.performance_bound,
        slack_scale=jnp.ones((), dtype),
        bounded=mode == Mode.TARGET,
        floored=floored,
        caps=caps,
    )
    return _scaled(static, problem), mode.astype(jnp.int32)


def _scaled(static: Static, problem: LocalProblem) -> LocalProblem:
    """Returns the problem with objective and performance constraint divided by their slopes at the old distribution."""
    dim = problem.caps.size
    derivatives = local_functions(dim, static.kl_direction)[2]
    start = derivatives.model(jnp.zeros(dim * (dim + 3) // 2, problem.radius.dtype), jax.lax.stop_gradient(problem))
    scale, slack_scale = _norm_or_one(start.gradient), _norm_or_one(start.jacobian[1])
    return dataclasses.replace(
        problem,
        performance_weight=problem.performance_weight / scale,
        target_weight=problem.target_weight / scale,
        slack_scale=slack_scale,
    )


def _norm_or_one(gradient: Float[Array, " n"]) -> Float[Array, ""]:
    norm = jnp.sqrt((gradient**2).sum())
    return jnp.where((norm > 0) & jnp.isfinite(norm), norm, 1.0)
