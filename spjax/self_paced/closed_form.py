"""A closed-form self-paced update of a Gaussian: its mean and one scale of its covariance, in turns.

After the idea of "Self Paced Gaussian Contextual Reinforcement Learning" (SPGL, arXiv:2603.23755): Gaussian contexts make the
V_LB rule of Klink et al. (2021), Eq. (spdl-v2), solvable without an inner optimisation. The formulas below are our derivation
from that idea, not a transcription of the article.

With the old distribution N(m0, L0 L0'), u = L0^-1 (c - m0) and the new one N(m0 + L0 d, exp(tau) L0 L0') in k dimensions, the
importance-weighted performance is, to first order, P = mean(V) + g.d + q tau, with

    g = mean(V u),   q = mean(V (|u|^2 - k)) / 2,   KL(old || new) = [k (exp(-tau) - 1 + tau) + exp(-tau) |d|^2] / 2.

A mean step (tau = 0) has the trust region |d| <= sqrt(2 max_kl). Before V_LB was ever reached it goes along g to the border;
afterwards to the point of {|d| <= sqrt(2 max_kl), g.d >= V_LB - mean(V)} nearest to the target's mean. A scale step (d = 0) is
one-dimensional: exp(tau) moves towards k / |Lt^-1 L0|^2, the scale nearest to the target in KL(new || target), as far as
trust region, performance and standard-deviation floor let it. The trust region of tau has an exact border only by Lambert's W;
with eta = 2 max_kl / k two bounds of the logarithm give borders inside it, which use 85 to 97 % of a max_kl of 0.05:

    x - log(1 + x) <= x^2 / (2 + x)            ->  exp(-tau) <= 1 + (eta + sqrt(eta^2 + 8 eta)) / 2,
    log(1 + x) <= x (2 + x) / (2 (1 + x))      ->  exp(tau)  <= 1 + eta + sqrt(eta^2 + 2 eta).

Where the target as a whole lies within the trust region and keeps V_LB, the target itself is returned. The article may differ:
in the expansion (variance instead of its logarithm), in the case analysis of the mean step, in its lower bounds of the scale
(here the floor of the full solve), and in whether that last move is made at once.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts import Gaussian, kl_divergence
from spjax.contexts.chart import LocalProblem, performance_gain
from spjax.self_paced.arguments import check_floor, check_number, check_samples
from spjax.self_paced.context_update import ContextUpdate
from spjax.self_paced.rounding import effective_sample_size
from spjax.self_paced.statement import (
    Inputs,
    Mode,
    Static,
    clean,
    state_problem,
    to_working_precision,
)
from spjax.solvers.augmented_lagrangian import DEFAULT_CONFIG, Result
from spjax.solvers.linalg import solve_lower

# The statement of the problem is that of the full solve; "float32" means in the dtype of the arguments.
_STATIC = Static(
    True,
    kl_direction="old-new",
    precision="float32",
    config=DEFAULT_CONFIG,
    search_outliers=False,
)


def update_gaussian(
    old: Gaussian,
    target: Gaussian,
    contexts: Float[Array, "M dim"],
    values: Float[Array, " M"],
    mask: Bool[Array, " M"],
    *,
    moves_scale: ArrayLike,
    max_kl: ArrayLike,
    performance_bound: ArrayLike,
    reached: ArrayLike,
    std_floor: ArrayLike | None = None,
) -> tuple[Gaussian, ContextUpdate]:
    """Returns the next context distribution and a record of the update.

    All array arguments may be traced. Differentiable in old, target, contexts, values, performance_bound and max_kl, almost
    everywhere. No loop and no solver; every step works in the dtype of ``old``.

    Args:
        old: distribution that the contexts were drawn from. Its shape, ``chol`` up to a factor, should be the target's: a
            scale step keeps the shape, and a mean step measures distances in it.
        target: distribution mu to end with.
        contexts: contexts of the episodes, context units.
        values: value V of each context, raw reward scale.
        mask: True where a row holds an episode; the others are ignored, whatever they hold.
        moves_scale: True for a scale step, False for a mean step.
        max_kl: epsilon, nats; 0 keeps the distribution.
        performance_bound: V_LB, raw reward scale.
        reached: whether V_LB was reached before; carry `ContextUpdate.reached` here.
        std_floor: lower bounds of the Cholesky factor's diagonal, context units; 0 or None where there is none. A dimension
            that is below its floor may not shrink.

    Returns:
        The new distribution with KL(old || new) <= max_kl also after rounding; bit for bit ``old`` where nothing is seen
        (`Result.NO_DATA`), something is not finite (`Result.NOT_FINITE`), or the mode is frozen. The other updates are
        `Result.CONVERGED`, in 0 iterations. V_LB is kept to first order only.

    Raises:
        ValueError: shapes that do not fit; and, of what can be seen outside of jit, a setting that is not finite or a negative
            max_kl.
    """
    old.check_target(target)
    check_samples(old, contexts, values, mask)
    check_number("max_kl", max_kl, least=0.0)
    check_number("performance_bound", performance_bound)
    check_floor(std_floor, old.dim)
    dtype = old.mean.dtype
    inputs = Inputs(
        old=old,
        target=target,
        contexts=contexts,
        values=values,
        mask=mask,
        alpha=jnp.zeros((), dtype),
        performance_bound=jnp.asarray(performance_bound, dtype),
        reached=jnp.asarray(reached),
        max_kl=jnp.asarray(max_kl, dtype),
        std_floor=None
        if std_floor is None
        else jnp.broadcast_to(jnp.asarray(std_floor, dtype), (old.dim,)),
    )
    usable, finite = clean(to_working_precision(_STATIC, inputs))
    problem, mode = state_problem(_STATIC, finite, usable)
    wanted = _move(finite, problem, mode, jnp.asarray(moves_scale))
    kl = kl_divergence(finite.old, wanted)
    accepted = usable & (mode != Mode.FROZEN) & (kl <= finite.max_kl)
    new = _select(accepted, wanted, old)
    trouble = jnp.where(usable & jnp.isfinite(kl), Result.CONVERGED, Result.NOT_FINITE)
    record = ContextUpdate(
        result=jnp.where(mask.any(), trouble, Result.NO_DATA).astype(jnp.int32),
        mode=mode,
        reached=finite.reached | (mode == Mode.TARGET),
        kl=jnp.where(accepted, kl, 0.0),
        iterations=jnp.zeros((), jnp.int32),
        effective_sample_size=effective_sample_size(problem, finite, new),
    )
    return new, record


def _move(
    inputs: Inputs[Gaussian],
    problem: LocalProblem,
    mode: Int[Array, ""],
    moves_scale: Bool[Array, ""],
) -> Gaussian:
    """Returns the distribution that the step leads to; the target where that is within reach."""
    old, target, data = inputs.old, inputs.target, problem.data
    d = jnp.where(moves_scale, 0.0, _mean_step(inputs, problem, mode))
    tau = jnp.where(moves_scale, _scale_step(problem, mode), 0.0)
    chol = old.chol * jnp.exp(0.5 * tau)
    floored = jnp.where(
        jnp.eye(old.dim, dtype=bool), jnp.maximum(chol, data.lowest[None]), chol
    )

    to_target = old.chart.coordinates(data, target)
    gain = performance_gain(problem.weights, old.chart.log_ratios(data, to_target))
    arrives = (
        (mode == Mode.TARGET)
        & (problem.slack + gain >= 0)
        & (kl_divergence(old, target) <= inputs.max_kl)
    )
    arrives &= (jnp.diagonal(target.chol) >= data.lowest).all()
    step = dataclasses.replace(old, mean=old.mean + old.chol @ d, chol=floored)
    return _select(arrives, target, step)


def _select(condition: Bool[Array, ""], new: Gaussian, old: Gaussian) -> Gaussian:
    """Returns one of two distributions, with the sampling of ``old``."""
    mean = jnp.where(condition, new.mean, old.mean)
    return dataclasses.replace(
        old, mean=mean, chol=jnp.where(condition, new.chol, old.chol)
    )


def _mean_step(
    inputs: Inputs[Gaussian], problem: LocalProblem, mode: Int[Array, ""]
) -> Float[Array, " dim"]:
    """Returns the shift d of the mean, in units of the old distribution."""
    gradient = problem.data.features[:-1] @ problem.weights
    wish = solve_lower(inputs.old.chol, inputs.target.mean - inputs.old.mean)
    radius = _radius_before_rounding(inputs.old, problem.radius)
    best = gradient * (radius / _length(gradient))
    nearest = _nearest(wish, radius, gradient, problem.slack)
    return _by_mode(mode, best, nearest)


def _scale_step(problem: LocalProblem, mode: Int[Array, ""]) -> Float[Array, ""]:
    """Returns tau, the change of the logarithm of the variances."""
    dim = problem.data.caps.size
    squares = (problem.data.features[:-1] ** 2).sum(axis=0)
    slope = 0.5 * ((squares - dim) * problem.weights).sum()
    lowest, highest = _scale_limits(problem.radius, dim)
    cap = jnp.where(problem.data.floored, problem.data.caps, jnp.inf).min()
    lowest = jnp.maximum(lowest, -2 * jnp.log1p(cap))

    best = jnp.where(slope > 0, highest, jnp.where(slope < 0, lowest, 0.0))
    wish = jnp.log(dim / (problem.data.to_target[:, :-1] ** 2).sum())
    furthest = problem.slack / _nonzero(jnp.abs(slope))
    kept = jnp.where(slope * wish < 0, jnp.clip(wish, -furthest, furthest), wish)
    return _by_mode(mode, best, jnp.clip(kept, lowest, highest))


def _by_mode(mode: Int[Array, ""], reward: Array, target: Array) -> Array:
    return jnp.where(
        mode == Mode.TARGET, target, jnp.where(mode == Mode.REWARD, reward, 0.0)
    )


def _nearest(
    wish: Float[Array, " dim"],
    radius: Float[Array, ""],
    gradient: Float[Array, " dim"],
    slack: Float[Array, ""],
) -> Float[Array, " dim"]:
    """Returns the point of {|d| <= radius, gradient.d >= -slack} nearest to ``wish``; slack >= 0."""
    inside = _shortened(wish, radius)
    normal = gradient / _length(gradient)
    depth = slack / _length(gradient)
    within_plane = wish - normal * (normal @ wish)
    room = (radius - depth) * (radius + depth)
    positive = room > 0
    room = jnp.where(positive, jnp.sqrt(jnp.where(positive, room, 1.0)), 0.0)
    edge = _shortened(within_plane, room) - depth * normal
    return jnp.where(gradient @ inside >= -slack, inside, edge)


def _shortened(
    vector: Float[Array, " dim"], limit: Float[Array, ""]
) -> Float[Array, " dim"]:
    return vector * jnp.minimum(1.0, limit / _length(vector))


def _length(vector: Float[Array, " dim"]) -> Float[Array, ""]:
    """Returns the length, but 1 for the zero vector."""
    return jnp.sqrt(_nonzero((vector**2).sum()))


def _nonzero(x: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(x > 0, x, 1.0)


def _scale_limits(
    radius: Float[Array, ""], dim: int
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the lowest and highest tau within the trust region, less what rounding takes."""
    radius *= 1 - 64 * jnp.finfo(radius.dtype).eps
    eta = (
        radius**2 / dim
    )  # the roots below are written so that their slopes are finite at 0
    narrower = 0.5 * (eta + radius * jnp.sqrt((eta + 8) / dim))
    wider = eta + radius * jnp.sqrt((eta + 2) / dim)
    return -jnp.log1p(narrower), jnp.log1p(wider)


def _radius_before_rounding(
    old: Gaussian, radius: Float[Array, ""]
) -> Float[Array, ""]:
    """Returns the radius of the trust region of d, less what rounding the mean may add to a step (0 if that is all)."""
    eps = jnp.finfo(radius.dtype).eps
    whitening = jnp.abs(
        solve_lower(old.chol, jnp.eye(old.mean.size, dtype=radius.dtype))
    )
    spacing = eps * (jnp.abs(old.mean) + radius * old.std)
    rounding = jax.lax.stop_gradient(_length(whitening @ spacing))
    return jnp.maximum(0.0, radius * (1 - 16 * eps) - rounding)
