"""The SPDL update of the context distribution: Klink et al. (2021), Eq. (19) (spdl-approx-objective) and Eq. (20) (spdl-v2).

With P(new) = mean_i [p_new(c_i) / p_old(c_i)] V_i over the M contexts seen since the last update, two rules:

* proportion (zeta, K_alpha): maximise P(new) - alpha KL(new || target) subject to KL <= max_kl;
* bound (V_LB): where P(old) >= V_LB minimise KL(new || target) subject to KL <= max_kl and P(new) >= V_LB; before V_LB was
  ever reached maximise P(new) subject to KL <= max_kl; once it was reached and is lost again, keep the distribution.

The trust region is KL(old || new) as in the released code ("old-new"), or KL(new || old) as in the printed article ("new-old").

All of it holds for every context family: a family's chart (`spjax.contexts.chart`) says what P and the divergences are.

The released code hands the problem to SciPy's ``trust-constr`` and clips the start to the standard-deviation floor, however
large the jump; here the floor is a bound only where the old distribution keeps it, and elsewhere that dimension may not shrink,
so the result always lies within ``max_kl`` of the distribution that was handed in.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.contexts.chart import KlDirection, LocalProblem, performance_gain
from spjax.padding import padded, padded_length
from spjax.self_paced.arguments import check_floor, check_number, check_samples
from spjax.self_paced.rounding import effective_sample_size, round_solution
from spjax.self_paced.statement import (
    Family,
    Inputs,
    Mode,
    Precision,
    Static,
    clean,
    dtype_of,
    state_approach,
    state_problem,
    to_working_precision,
)
from spjax.solvers.augmented_lagrangian import (
    DEFAULT_CONFIG,
    Result,
    Solution,
    SolverConfig,
)
from spjax.solvers.precision import in_float64
from spjax.trees import node_types


@struct.dataclass
class ContextUpdate:
    """What an update did; no derivatives flow through it."""

    result: Int[Array, ""]  # a `Result`
    mode: Int[Array, ""]  # a `Mode`
    reached: Bool[
        Array, ""
    ]  # whether V_LB was reached now or before; False under the proportion rule
    kl: Float[
        Array, ""
    ]  # nats, between the old and the returned distribution in the constrained direction
    iterations: Int[Array, ""]
    effective_sample_size: Float[
        Array, ""
    ]  # of the importance weights, between 1 and the number of contexts
    kl_price: Float[Array, ""] | None = (
        None  # multiplier of KL <= max_kl: what the objective gains by more max_kl, a nat
    )
    bound_price: Float[Array, ""] | None = (
        None  # multiplier of V_LB: nats from the target by more V_LB, a reward unit
    )


def update_context(
    old: Family,
    target: Family,
    contexts: Float[ArrayLike, "M dim"],
    values: Float[ArrayLike, " M"],
    mask: Bool[ArrayLike, " M"],
    *,
    max_kl: ArrayLike,
    alpha: ArrayLike | None = None,
    performance_bound: ArrayLike | None = None,
    reached: ArrayLike | None = None,
    std_floor: ArrayLike | None = None,
    kl_direction: KlDirection = "old-new",
    precision: Precision = "float64",
    config: SolverConfig = DEFAULT_CONFIG,
    search_outliers: bool = False,
    backup: bool = False,
) -> tuple[Family, ContextUpdate]:
    """Returns the next context distribution and a record of the update.

    Give ``alpha`` for the proportion rule, ``performance_bound`` and ``reached`` for the bound rule. All array arguments may be
    traced: one compiled function serves every setting and all modes of the bound rule, inside and outside of ``jit``. Episodes
    in NumPy arrays may be of any number, too: up to 1,024 of them share that function (then 4,096, and so on). The new
    distribution is differentiable (reverse mode, any precision) in old, target, contexts, values, alpha, performance_bound and
    max_kl; where the update did not move or did not converge it is the derivative of returning the old one.

    Args:
        old: distribution that the contexts were drawn from.
        target: distribution mu to end with.
        contexts: contexts of the episodes, context units.
        values: value V of each context, raw reward scale.
        mask: True where a row holds an episode; the others are ignored, whatever they hold.
        max_kl: epsilon, nats; 0 keeps the distribution.
        alpha: weight of the KL divergence to the target, >= 0.
        performance_bound: V_LB, raw reward scale.
        reached: whether V_LB was reached before; carry `ContextUpdate.reached` here.
        std_floor: lower bounds of the Cholesky factor's diagonal, context units; 0 or None where there is none.
        kl_direction: "old-new" constrains KL(old || new), "new-old" KL(new || old).
        precision: of the solve. With "float64" the arguments stay in their dtype, and the *rounded* result satisfies
            KL <= max_kl. "float32" works in the dtype of the arguments and promises max_kl (1 + 1e-6).
        config: of the solver.
        search_outliers: solve a second time, from a start shifted towards the context farthest out, and take the better
            result. With few contexts the importance-weighted objective has several local optima, in which the weight of
            an outlying context dominates. The default finds the one that continues from ``old``, as the released code
            does; the search doubles the cost and finds a better objective in about 1 % of wide updates.
        backup: under the bound rule, look for V_LB wherever ``old`` misses it, and never keep the distribution for that;
            about doubles the cost.

    Returns:
        The new distribution in the dtype of ``old``, never with a worse objective than ``old``; bit for bit ``old``
        where nothing is seen (`Result.NO_DATA`), something is not finite (`Result.NOT_FINITE`), or the mode is frozen.

    Raises:
        ValueError: not exactly one of the two rules is chosen; a backup of the proportion rule; an unknown direction or
            precision; shapes that do not fit; a target of another family; a floor where the family has none; and, of what
            can be seen outside of jit, a setting that is not finite, alpha or max_kl below 0.
    """
    if (alpha is None) == (performance_bound is None) or (
        performance_bound is None
    ) != (reached is None):
        raise ValueError("give either alpha, or both performance_bound and reached")
    if backup and performance_bound is None:
        raise ValueError("backup is for the bound rule; give performance_bound")
    if kl_direction not in ("old-new", "new-old"):
        raise ValueError(
            f'kl_direction must be "old-new" or "new-old", got {kl_direction!r}'
        )
    if precision not in ("float64", "float32"):
        raise ValueError(f'precision must be "float64" or "float32", got {precision!r}')
    old.check_target(target)
    check_samples(old, contexts, values, mask)
    if not any(isinstance(rows, jax.Array) for rows in (contexts, values, mask)):
        length = padded_length(np.size(mask))
        contexts, values, mask = (
            padded(np.asarray(rows), length) for rows in (contexts, values, mask)
        )
    check_number("max_kl", max_kl, least=0.0)
    check_number("alpha", alpha, least=0.0)
    check_number("performance_bound", performance_bound)
    check_floor(std_floor, old.dim)
    dtype = dtype_of(old)
    inputs = Inputs(
        old=old,
        target=target,
        contexts=jnp.asarray(contexts),
        values=jnp.asarray(values),
        mask=jnp.asarray(mask),
        alpha=jnp.asarray(0.0 if alpha is None else alpha, dtype),
        performance_bound=jnp.asarray(
            0.0 if performance_bound is None else performance_bound, dtype
        ),
        reached=jnp.asarray(False if reached is None else reached),
        max_kl=jnp.asarray(max_kl, dtype),
        std_floor=None
        if std_floor is None
        else jnp.broadcast_to(jnp.asarray(std_floor, dtype), (old.dim,)),
    )
    static = Static(
        bounded=alpha is None,
        kl_direction=kl_direction,
        precision=precision,
        config=config,
        search_outliers=search_outliers,
        families=node_types((old, target)),
        backup=backup,
    )
    return _update(static, inputs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _update(static: Static, inputs: Inputs[Family]) -> tuple[Family, ContextUpdate]:
    return _update_forward(static, inputs)[0]


def _update_forward(
    static: Static, inputs: Inputs[Family]
) -> tuple[tuple[Family, ContextUpdate], PyTree]:
    outputs, solution = _in_precision(_run, static, inputs)
    return outputs, (inputs, solution)


def _update_backward(
    static: Static, residuals: PyTree, cotangents: tuple[Family, ContextUpdate]
) -> tuple[Inputs[Family]]:
    return (_in_precision(_pull_back, static, *residuals, cotangents[0]),)


_update.defvjp(_update_forward, _update_backward)


@functools.partial(
    jax.jit, static_argnums=(0, 1), inline=True
)  # so that calls outside of jit are compiled too
def _in_precision(
    function: Callable[..., PyTree], static: Static, *arguments: PyTree
) -> PyTree:
    function = functools.partial(function, static)
    return (in_float64(function) if static.precision == "float64" else function)(
        *arguments
    )


def _run(
    static: Static, inputs: Inputs[Family]
) -> tuple[tuple[Family, ContextUpdate], PyTree]:
    """Solves; returns the outputs, and what the derivatives need: the solution, and whether it is a minimum that moves."""
    dtype = dtype_of(inputs.old)
    usable, finite = clean(to_working_precision(static, inputs))
    problem, mode = state_problem(static, finite, usable)
    solution = inputs.old.chart.minimise(
        problem, static.kl_direction, static.config, static.search_outliers
    )
    new, kl = round_solution(static, inputs.old, problem, solution)
    step = _Step(problem, solution, mode, new, kl)
    if static.backup:
        step = _approached(static, inputs.old, step)
    problem, solution, mode = step.problem, step.solution, step.mode

    some = inputs.mask.any()
    result = jnp.where(
        some, jnp.where(usable, solution.result, Result.NOT_FINITE), Result.NO_DATA
    )
    moves = (
        usable
        & (mode != Mode.FROZEN)
        & (finite.max_kl > 0)
        & (solution.result == Result.CONVERGED)
    )
    kl_price, bound_price = shadow_prices(problem, solution.multipliers)
    record = ContextUpdate(
        result=result.astype(jnp.int32),
        mode=mode,
        reached=finite.reached | (mode == Mode.TARGET) | (mode == Mode.RESTORED),
        kl=step.kl.astype(dtype),
        iterations=solution.iterations,
        effective_sample_size=effective_sample_size(problem, finite, step.new).astype(
            dtype
        ),
        kl_price=jnp.where(moves, kl_price, 0.0).astype(dtype),
        bound_price=jnp.where(moves, bound_price, 0.0).astype(dtype)
        if static.bounded
        else None,
    )
    kept = (solution.z, solution.multipliers, moves, mode == Mode.RESTORED)
    return (step.new, record), kept


class _Step(NamedTuple):
    """How far an update has come."""

    problem: LocalProblem
    solution: Solution
    mode: Int[Array, ""]
    new: PyTree  # the distribution, in the caller's dtype
    kl: Float[Array, ""]


def _approached(static: Static, old: Family, step: _Step) -> _Step:
    """Returns the step, continued towards the target where the bound was missed and the best performance reaches it."""
    problem, solution = step.problem, step.solution
    chart = old.chart
    ratios = chart.log_ratios(problem.data, problem.radius * solution.z)
    enough = problem.slack + performance_gain(problem.weights, ratios) >= 0
    restored = (step.mode == Mode.REWARD) & enough

    approach = state_approach(static, problem, restored)
    start = jnp.where(restored, solution.z, 0.0)
    second = chart.minimise_from(start, approach, static.kl_direction, static.config)
    new, kl = round_solution(static, old, approach, second, step.new)
    mode = jnp.full_like(step.mode, Mode.RESTORED)

    both = solution.iterations + second.iterations
    second = dataclasses.replace(second, iterations=both)
    return jax.tree.map(
        lambda a, b: jnp.where(restored, a, b),
        _Step(approach, second, mode, new, kl),
        step,
    )


def _pull_back(
    static: Static, inputs: Inputs[Family], solution: PyTree, new_bar: Family
) -> Inputs[Family]:
    """Returns the derivatives of the inputs; those of rounding are left out."""
    y, multipliers, moves, restored = solution

    def exact(inputs: Inputs[Family]) -> Family:
        usable, finite = clean(to_working_precision(static, inputs))
        problem, _ = state_problem(static, finite, usable)
        if static.backup:
            approach = state_approach(static, problem, restored)
            problem = jax.tree.map(
                lambda a, b: jnp.where(restored, a, b), approach, problem
            )
        chart = inputs.old.chart
        y_of_problem = chart.attach(problem, static.kl_direction, y, multipliers, moves)
        new = chart.at(problem.data, problem.radius * y_of_problem)
        return jax.tree.map(lambda leaf: leaf.astype(dtype_of(inputs.old)), new)

    return jax.vjp(exact, inputs)[1](new_bar)[0]


def shadow_prices(
    problem: LocalProblem, multipliers: Float[Array, " m"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the multipliers of KL <= max_kl and of the performance bound, in the units of the update.

    The problem is divided by the slope of its objective; before that, the weight of the performance was 1, or, where the aim is
    the target alone, the weight of the target.
    """
    weight = jnp.where(
        problem.performance_weight > 0,
        problem.performance_weight,
        problem.target_weight,
    )
    prices = multipliers[:2] / jnp.where(weight > 0, weight, 1.0)
    return prices[0] / problem.max_kl, prices[1] / problem.slack_scale
