"""The context update of a discrete distribution, solved exactly: one multiplier, and for V_LB a price of performance.

Coordinates are the log ratios v = log(p / q), q the old probabilities; ``at`` normalises any z. With E the mean under q,
l = log(target / q), and g the importance-weighted values of a row (episodes on it times their values / (M q)), the performance
P(new) = E[exp(v) g] is linear in p, so the problem is convex and its solutions are known up to two numbers. Minimising

    a KL(p || target) - b P(p) + lambda KL

and with t = 1 / (a + lambda), s = lambda t, they are, with the constant kappa that makes E[exp(v)] = 1,

    KL(new || old):   v = t (a l + b g) - kappa,   that is p ~ (q^lambda target^a exp(b g))^(1 / (a + lambda)),
    KL(old || new):   (1 - s) v - s exp(-v) = t (a l + b g) - kappa,   v by Wright's omega function.

The divergence grows with t, from 0 at t = 0 to that of the unconstrained minimum at t = 1 / a: the proportion rule is one root.
The bound rule is the proportion rule with the price b at which P is V_LB (P grows with b): a root around that root.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts.chart import (
    Chart,
    KlDirection,
    LocalProblem,
    local_functions,
    performance_gain,
)
from spjax.contexts.discrete import Discrete
from spjax.solvers.augmented_lagrangian import Result, Solution, SolverConfig
from spjax.solvers.implicit import pull_back
from spjax.solvers.linalg import solve_positive
from spjax.solvers.root import bracket_root
from spjax.solvers.series import expm1_minus

MARGIN = (
    2.0**-21
)  # of max_kl and of the bound's scale, which the solution keeps free for rounding
FURTHEST = 1e12  # largest spread of an exponent, for a minimum without a trust region (all mass on the best row)
NEGLIGIBLE = 1e-12  # a multiplier, in units of a
MAX_NORMALISING = 40  # Newton steps for kappa


@struct.dataclass
class DiscreteData:
    """One problem in log ratios."""

    old: Discrete
    probs: Float[Array, " N"]  # q
    log_target: Float[Array, " N"]  # l; 0 where q = 0
    rows: Int[Array, " M"]  # of the episodes' contexts
    supported: Bool[Array, ""]  # whether the target has mass where q has


class Weights(NamedTuple):
    """Of the objective a KL(new || target) - b P."""

    target: Float[Array, ""]  # a
    performance: Float[Array, ""]  # b


class Tilt(NamedTuple):
    """The solution of a proportion rule."""

    v: Float[Array, " N"]
    multiplier: Float[Array, ""]  # lambda
    trips: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class DiscreteChart(Chart[Discrete, DiscreteData]):
    """Log ratios to the old probabilities, one a row of the table; a constant added to all of them changes nothing."""

    def size(self, old: Discrete) -> int:
        """Returns the number of rows."""
        return old.logits.shape[-1]

    def prepare(
        self,
        old: Discrete,
        target: Discrete,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> DiscreteData:
        """Returns probabilities, and the rows of the contexts."""
        probs = old.probs
        there = probs > 0
        log_target = jnp.where(
            there, target.log_probs - jnp.where(there, old.log_probs, 0.0), 0.0
        )
        finite = jnp.isfinite(log_target)
        return DiscreteData(
            old=old,
            probs=probs,
            log_target=jnp.where(finite, log_target, 0.0),
            rows=lax.map(
                lax.stop_gradient(old).nearest, lax.stop_gradient(contexts)
            ),  # one by one: stays in the cache
            supported=finite.all(),
        )

    def at(self, data: DiscreteData, z: Float[Array, " N"]) -> Discrete:
        """Returns the distribution with probabilities in proportion to q exp(z)."""
        return dataclasses.replace(
            data.old, logits=data.old.logits + _normalised(data.probs, z)
        )

    def coordinates(self, data: DiscreteData, new: Discrete) -> Float[Array, " N"]:
        """Returns the log ratios, normalised; 0 where q = 0."""
        there = data.probs > 0
        return _normalised(
            data.probs,
            jnp.where(there, new.logits - jnp.where(there, data.old.logits, 0.0), 0.0),
        )

    def log_ratios(
        self, data: DiscreteData, z: Float[Array, " N"]
    ) -> Float[Array, " M"]:
        """Returns log p_new(c) - log p_old(c) for every context; 0 on a row that the old distribution never gives."""
        return jnp.where(data.probs > 0, _normalised(data.probs, z), 0.0)[data.rows]

    def kl_from_old(
        self, data: DiscreteData, z: Float[Array, " N"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns KL(old || new) or KL(new || old); exact, >= 0 in any precision."""
        return _kl(data.probs, _normalised(data.probs, z), direction)

    def kl_to_target_gain(
        self, data: DiscreteData, z: Float[Array, " N"]
    ) -> Float[Array, ""]:
        """Returns KL(new || target) - KL(old || target)."""
        v = _normalised(data.probs, z)
        return _kl(data.probs, v, "new-old") - data.probs @ (
            jnp.expm1(v) * data.log_target
        )

    def part_of(
        self,
        fraction: Float[Array, ""],
        radius: Float[Array, ""],
        y: Float[Array, " N"],
    ) -> Float[Array, " N"]:
        """Returns the mixture (1 - fraction) q + fraction p: there KL is convex and the performance linear."""
        v = radius * y
        return jnp.where(fraction < 1, jnp.log(1 - fraction + fraction * jnp.exp(v)), v)

    def inward(
        self, problem: LocalProblem, direction: KlDirection, y: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """Returns zero: along the mixture every constraint that holds at both ends holds between them."""
        return jnp.zeros_like(y)

    def minimise(
        self,
        problem: LocalProblem,
        direction: KlDirection,
        config: SolverConfig,
        search_outliers: bool,
    ) -> Solution:
        """Returns the solution, the only one there is: ``config`` and ``search_outliers`` have nothing to say."""
        fixed = lax.stop_gradient(problem)
        worth = _worth(fixed)
        plain = _tilt(
            fixed,
            worth,
            Weights(fixed.target_weight, fixed.performance_weight),
            direction,
        )
        priced, price = _keep_bound(fixed, worth, direction)
        best = jax.tree.map(lambda a, b: jnp.where(fixed.bounded, a, b), priced, plain)

        finite = fixed.data.supported & jnp.isfinite(best.v).all()
        y = jnp.where(finite, best.v / _positive(fixed.radius), 0.0)
        multipliers = jnp.stack(
            [best.multiplier * fixed.max_kl, price * fixed.slack_scale]
        )
        zero = jnp.zeros_like(fixed.radius)
        return Solution(
            z=y,
            value=local_functions(self, direction)[0](y, fixed),
            multipliers=jnp.where(finite, multipliers, 0.0),
            violation=zero,
            kkt=zero,
            iterations=best.trips,
            result=jnp.where(finite, Result.CONVERGED, Result.NOT_FINITE).astype(
                jnp.int32
            ),
        )

    def attach(
        self,
        problem: LocalProblem,
        direction: KlDirection,
        y: Float[Array, " N"],
        multipliers: Float[Array, " m"],
        valid: Bool[Array, ""],
    ) -> Float[Array, " N"]:
        """Returns y as a differentiable function of the problem; the Hessian is diagonal in v, so N may be thousands."""
        v = _attach(
            direction,
            lax.stop_gradient(problem.radius) * y,
            multipliers,
            valid,
            problem,
        )
        return v / _positive(problem.radius)


def _worth(problem: LocalProblem) -> Float[Array, " N"]:
    """Returns g; 0 where q = 0."""
    probs = problem.data.probs
    summed = jnp.zeros_like(probs).at[problem.data.rows].add(problem.weights)
    return jnp.where(probs > 0, summed / jnp.where(probs > 0, probs, 1.0), 0.0)


def _tilt(
    problem: LocalProblem,
    worth: Float[Array, " N"],
    weights: Weights,
    direction: KlDirection,
) -> Tilt:
    """Returns the minimum of a KL(new || target) - b P within the trust region: one root, in -log lambda."""
    probs, limit = problem.data.probs, problem.max_kl * (1 - MARGIN)
    slope = weights.target * problem.data.log_target + weights.performance * worth
    there = probs > 0
    highest = jnp.where(there, slope, -jnp.inf).max()
    slope = jnp.where(there, slope - highest, 0.0)  # exponents from 0 down
    moves = slope.min() < 0
    spread = jnp.where(moves, -slope.min(), 1.0)

    # |v| <= 2 t spread for small t, so KL < limit at `largest`; below `least` the trust region does not matter.
    largest = spread / jnp.minimum(0.5 * jnp.sqrt(limit), 0.25)
    least = jnp.maximum(NEGLIGIBLE * weights.target, spread / FURTHEST)

    def v_at(minus_log: Float[Array, ""]) -> Float[Array, " N"]:
        multiplier = jnp.exp(-minus_log)
        t = 1.0 / (weights.target + multiplier)
        return _log_ratio(probs, t * slope, multiplier * t, direction)

    def excess(minus_log: Float[Array, ""]) -> Float[Array, ""]:
        kl = _rough_kl(probs, v_at(minus_log), direction)
        return jnp.log(jnp.maximum(kl, jnp.finfo(kl.dtype).tiny) / limit)

    end = -jnp.log(least)
    bracket = bracket_root(excess, -jnp.log(largest), end, _tolerance(probs.dtype))
    v = jnp.where(moves & there, v_at(bracket.low), 0.0)
    active = moves & (bracket.high < end)
    return Tilt(v, jnp.where(active, jnp.exp(-bracket.low), 0.0), bracket.trips)


def _keep_bound(
    problem: LocalProblem, worth: Float[Array, " N"], direction: KlDirection
) -> tuple[Tilt, Float[Array, ""]]:
    """Returns the point of the trust region nearest to the target that keeps V_LB, and the price of performance there."""
    probs = problem.data.probs
    spare = jnp.minimum(0.5 * problem.slack, MARGIN * problem.slack_scale)
    scales = Weights(
        _deviation(probs, problem.data.log_target), _deviation(probs, worth)
    )

    def weights_at(share: Float[Array, ""]) -> Weights:
        return Weights((1.0 - share) / scales.target, share / scales.performance)

    def surplus(share: Float[Array, ""]) -> Float[Array, ""]:
        v = _tilt(problem, worth, weights_at(share), direction).v
        return problem.slack - spare + probs @ (jnp.expm1(v) * worth)

    def lacks_nothing(share: Float[Array, ""]) -> Float[Array, ""]:
        missing = surplus(share)
        return jnp.where(
            missing >= 0, jnp.maximum(missing, jnp.finfo(missing.dtype).tiny), missing
        )

    zero = jnp.zeros_like(problem.slack)
    end = 1.0 - 2.0**-40  # a price of infinity keeps nothing of the target
    bracket = bracket_root(
        lacks_nothing, zero, zero + end, 0.01 * _tolerance(probs.dtype)
    )
    share = bracket.high
    weights = weights_at(share)
    scale = problem.target_weight / weights.target  # back to the weights of the problem
    tilt = _tilt(problem, worth, weights, direction)
    return tilt._replace(
        multiplier=tilt.multiplier * scale
    ), weights.performance * scale


def _log_ratio(
    probs: Float[Array, " N"],
    slope: Float[Array, " N"],
    share: Float[Array, ""],
    direction: KlDirection,
) -> Float[Array, " N"]:
    """Returns v with E[exp(v)] = 1 and v = slope - kappa, or (1 - s) v - s exp(-v) = slope - kappa."""
    if direction == "new-old":
        return slope - jnp.log(probs @ jnp.exp(slope))  # slope <= 0
    there = probs > 0
    log_probs = jnp.log(jnp.where(there, probs, 1.0))
    rest = 1.0 - share

    # kappa >= both: no probability exceeds 1, and by Jensen's inequality.
    from_one_row = slope + rest * log_probs + share * probs
    lower = jnp.maximum(
        probs @ slope + share, jnp.where(there, from_one_row, -jnp.inf).max()
    )
    precision = 1e3 * jnp.finfo(probs.dtype).eps

    # log E[exp(v)] is convex and falls with kappa: Newton's steps from below never pass the root.
    def unfinished(state: tuple[Array, Array, Array, Array]) -> Bool[Array, ""]:
        _, _, log_mass, steps = state
        return (jnp.abs(log_mass) > precision) & (steps < MAX_NORMALISING)

    def newton_step(
        state: tuple[Array, Array, Array, Array],
    ) -> tuple[Array, Array, Array, Array]:
        kappa, _, _, steps = state
        v = _invert(slope - kappa, share)
        ratio = jnp.exp(v)
        mass = probs @ ratio
        speed = probs @ (ratio**2 / (rest * ratio + share)) / mass
        return kappa + jnp.log(mass) / speed, v, jnp.log(mass), steps + 1

    start = (
        lower,
        jnp.zeros_like(slope),
        lower * 0 + jnp.inf,
        0 * there.sum(dtype=jnp.int32),
    )
    _, v, log_mass, _ = lax.while_loop(unfinished, newton_step, start)
    return jnp.where(there, v - log_mass, 0.0)


def _invert(right: Float[Array, " N"], share: Float[Array, ""]) -> Float[Array, " N"]:
    """Returns the v of (1 - s) v - s exp(-v) = right.

    With w = s exp(-v) / (1 - s) it is w + log w = log(s / (1 - s)) - right / (1 - s), Wright's omega function: two
    steps of the fourth-order iteration of Fritsch, Shafer and Crowley (1973).
    """
    floor = 1e-13 if right.dtype == jnp.float64 else 1e-6
    rest, share = (
        jnp.maximum(1.0 - share, floor),
        jnp.maximum(share, jnp.finfo(right.dtype).tiny ** 0.5),
    )
    offset = jnp.log(share / rest)
    xi = offset - right / rest

    large = jnp.maximum(xi, 1.0)
    small = jnp.exp(jnp.where(xi > -2.0, jnp.minimum(2.0 * (xi - 1.0) / 3.0, 0.0), xi))
    w = jnp.where(xi > 1.0, large - jnp.log(large), small)
    w = jnp.maximum(w, jnp.finfo(w.dtype).tiny)
    for _ in range(2):
        residual = xi - w - jnp.log(w)
        factor = 2.0 * (1.0 + w) * (1.0 + w + 2.0 * residual / 3.0)
        w = w * (
            1.0 + residual / (1.0 + w) * (factor - residual) / (factor - 2.0 * residual)
        )
        w = jnp.maximum(w, jnp.finfo(w.dtype).tiny)
    return jnp.where(w > 1.0, offset - jnp.log(jnp.maximum(w, 1.0)), right / rest + w)


def _normalised(probs: Float[Array, " N"], z: Float[Array, " N"]) -> Float[Array, " N"]:
    """Returns z less the constant that makes E[exp(z)] = 1; rows with q = 0 do not count."""
    shift = lax.stop_gradient(jnp.where(probs > 0, z, -jnp.inf).max())
    ratios = jnp.exp(jnp.where(probs > 0, z - shift, 0.0))
    return z - shift - jnp.log(probs @ ratios / probs.sum())  # exactly 0 at z = 0


def _kl(
    probs: Float[Array, " N"], v: Float[Array, " N"], direction: KlDirection
) -> Float[Array, ""]:
    """Returns E[exp(v) - 1 - v] or E[exp(v) (exp(-v) - 1 + v)], the divergences where E[exp(v)] = 1, term by term."""
    if direction == "old-new":
        return probs @ expm1_minus(v)
    rare = v < -1.0  # the exponential of -v may overflow
    near = jnp.where(rare, 0.0, v)
    return probs @ jnp.where(
        rare, v * jnp.exp(v) - jnp.expm1(v), jnp.exp(near) * expm1_minus(-near)
    )


def _rough_kl(
    probs: Float[Array, " N"], v: Float[Array, " N"], direction: KlDirection
) -> Float[Array, ""]:
    """Returns the same by fewer exponentials; small divergences lose digits, which the last check of a solve makes good."""
    return -(probs @ v) if direction == "old-new" else probs @ (jnp.exp(v) * v)


def _tolerance(dtype: jnp.dtype) -> float:
    """Returns how closely the logarithm of a multiplier is found."""
    return 1e-11 if dtype == jnp.float64 else 1e-5


def _deviation(probs: Float[Array, " N"], x: Float[Array, " N"]) -> Float[Array, ""]:
    """Returns the standard deviation, 1 where it is 0."""
    variance = probs @ (x - probs @ x) ** 2
    return jnp.sqrt(jnp.where(variance > 0, variance, 1.0))


def _positive(x: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(x > 0, x, 1.0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attach(
    direction: KlDirection,
    v: Float[Array, " N"],
    multipliers: Float[Array, " m"],
    valid: Bool[Array, ""],
    problem: LocalProblem,
) -> Float[Array, " N"]:
    """Returns v unchanged, as a differentiable function of the problem, by the implicit function theorem."""
    return v


def _attach_forward(
    direction: KlDirection,
    v: Float[Array, " N"],
    multipliers: Float[Array, " m"],
    valid: Bool[Array, ""],
    problem: LocalProblem,
) -> tuple[Array, tuple[Array, Array, Array, LocalProblem]]:
    return v, (v, multipliers, valid, problem)


def _attach_backward(
    direction: KlDirection,
    residuals: tuple[Array, Array, Array, LocalProblem],
    v_bar: Float[Array, " N"],
) -> tuple[None, None, None, LocalProblem]:
    v, multipliers, valid, problem = residuals
    probs, new = problem.data.probs, problem.data.probs * jnp.exp(v)

    def objective(v: Float[Array, " N"], problem: LocalProblem) -> Float[Array, ""]:
        data = problem.data
        gain = performance_gain(problem.weights, v[data.rows])
        to_target = _kl(data.probs, v, "new-old") - data.probs @ (
            jnp.expm1(v) * data.log_target
        )
        return problem.target_weight * to_target - problem.performance_weight * gain

    def constraints(v: Float[Array, " N"], problem: LocalProblem) -> Float[Array, " m"]:
        data = problem.data
        mass = data.probs @ jnp.expm1(v)
        excess = _kl(data.probs, v, direction) / problem.max_kl - 1.0
        gain = performance_gain(problem.weights, v[data.rows])
        shortfall = jnp.where(
            problem.bounded, -(problem.slack + gain) / problem.slack_scale, -1.0
        )
        return jnp.stack([mass, excess, shortfall])

    # The mass is a constraint that always holds; its multiplier follows from stationarity.
    rows = jax.jacrev(constraints)(v, problem)
    slope = jax.grad(objective)(v, problem) + multipliers @ rows[1:]
    multipliers = jnp.concatenate([-slope.sum()[None], multipliers])
    active = (multipliers > jnp.sqrt(jnp.finfo(v.dtype).eps)).at[0].set(True)

    # The Hessian of the Lagrangian is diagonal at the solution.
    multiplier = multipliers[1] / problem.max_kl
    diagonal = problem.target_weight * new + multiplier * (
        new if direction == "new-old" else probs
    )
    inverse = jnp.where(diagonal > 0, 1.0 / jnp.where(diagonal > 0, diagonal, 1.0), 0.0)

    length = jnp.sqrt((rows**2) @ inverse)
    scale = jnp.where(
        active & (length > 0), 1.0 / jnp.where(length > 0, length, 1.0), 0.0
    )
    unit = rows * scale[:, None]
    schur = (unit * inverse[None]) @ unit.T + jnp.diag(jnp.where(scale > 0, 0.0, 1.0))
    along = solve_positive(schur, unit @ (inverse * v_bar))
    direction_of_v = inverse * (v_bar - along @ unit)
    pulled = pull_back(
        objective,
        constraints,
        v,
        multipliers,
        active,
        (direction_of_v, along * scale),
        valid,
        problem,
    )
    return None, None, None, pulled


_attach.defvjp(_attach_forward, _attach_backward)
