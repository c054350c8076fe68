"""Charts: coordinates z around a context distribution, z = 0 the old one, in which an update is a small constrained problem.

The rules of `spjax.self_paced` speak of three functions of the new distribution alone: the importance-weighted performance, the
divergence to the target and the divergence from the old one. A family that has a chart has all rules, modes, precisions,
result codes and derivatives of the update. The unknown of the solver is y = z / radius, radius = sqrt(2 max_kl), so that the
trust region is close to the unit ball where KL is close to |z|^2 / 2.
"""

import abc
import dataclasses
import functools
from typing import ClassVar, Generic, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, PyTree

from spjax.solvers.augmented_lagrangian import Result, Solution, SolverConfig, solve
from spjax.solvers.implicit import (
    Constraints,
    Derivatives,
    Model,
    Objective,
    attach_derivatives,
)
from spjax.solvers.linalg import solve_positive

KlDirection = Literal["old-new", "new-old"]  # KL(old || new) or KL(new || old)
ACTIVE = 1e-2  # a constraint closer to zero may be broken by rounding
Family = TypeVar("Family")
Data = TypeVar("Data")


@struct.dataclass
class LocalProblem:
    """Minimise -performance_weight P(y) + target_weight KL(y || target) within the trust region.

    Constraints: KL <= max_kl, the performance bound where there is one, and what the chart itself limits.
    """

    old: PyTree  # the distribution at y = 0
    data: PyTree  # what `Chart.prepare` returned, any pytree
    weights: Float[Array, " M"]  # values / number of contexts; zero where masked out
    performance_weight: Float[Array, ""]
    target_weight: Float[Array, ""]
    max_kl: Float[Array, ""]  # > 0
    radius: Float[
        Array, ""
    ]  # sqrt(2 max_kl); 0 keeps everything at the old distribution
    slack: Float[Array, ""]  # P(old) - performance_bound
    slack_scale: Float[
        Array, ""
    ]  # > 0; of order of the change of P over the trust region
    bounded: Bool[Array, ""]  # whether P >= performance_bound is a constraint


class Gradients(NamedTuple):
    """First derivatives in z."""

    gain: Float[Array, " n"]  # of the performance
    to_target: Float[Array, " n"]  # of `Chart.kl_to_target_gain`
    from_old: Float[Array, " n"]  # of `Chart.kl_from_old`
    limits: Float[Array, "m n"]  # of `Chart.limits`


class Coefficients(NamedTuple):
    """Of the sum whose second derivative is asked for; the limits are linear and have none."""

    gain: Float[Array, ""]
    to_target: Float[Array, ""]
    from_old: Float[Array, ""]


class Chart(abc.ABC, Generic[Family, Data]):
    """Coordinates around a distribution of one family; without state, hashable, one instance serves all problems.

    A new family writes the abstract methods; the others have defaults by automatic differentiation.
    """

    has_floors: ClassVar[bool] = False  # whether `with_floor` means something

    @abc.abstractmethod
    def size(self, old: Family) -> int:
        """Returns n, the number of coordinates."""

    @abc.abstractmethod
    def prepare(
        self,
        old: Family,
        target: Family,
        contexts: Float[Array, "M dim"],
        mask: Bool[Array, " M"],
    ) -> Data:
        """Returns what the other methods need of one problem, a pytree; finite where the mask is False, too."""

    @abc.abstractmethod
    def at(self, data: Data, z: Float[Array, " n"]) -> Family:
        """Returns the distribution at ``z``; the old one at zero."""

    @abc.abstractmethod
    def coordinates(self, data: Data, new: Family) -> Float[Array, " n"]:
        """Returns where ``at`` is this distribution; exactly zero where it is the old one."""

    @abc.abstractmethod
    def log_ratios(self, data: Data, z: Float[Array, " n"]) -> Float[Array, " M"]:
        """Returns log p_new(c) - log p_old(c) for every context; anything finite where masked out."""

    @abc.abstractmethod
    def kl_from_old(
        self, data: Data, z: Float[Array, " n"], direction: KlDirection
    ) -> Float[Array, ""]:
        """Returns KL(old || new) or KL(new || old), nats, exact or an upper bound, so that KL <= max_kl is a promise."""

    @abc.abstractmethod
    def kl_to_target_gain(self, data: Data, z: Float[Array, " n"]) -> Float[Array, ""]:
        """Returns KL(new || target) - KL(old || target), nats."""

    def with_floor(self, data: Data, std_floor: Float[Array, " dim"]) -> Data:
        """Returns data with lower bounds of the standard deviations; a dimension below its floor may not shrink.

        Raises:
            ValueError: the family has no floors.
        """
        raise ValueError(
            f"std_floor is for Gaussian contexts; {type(self).__name__} has no floors: set it to None"
        )

    def limits(self, data: Data, z: Float[Array, " n"]) -> Float[Array, " m"]:
        """Returns further constraints, linear in z and feasible where <= 0; m = 0 by default."""
        return jnp.zeros(0, z.dtype)

    def rounded(self, data: Data, z: Float[Array, " n"], dtype: jnp.dtype) -> Family:
        """Returns the distribution at ``z`` in the caller's dtype; rounding may break none of the limits."""
        return jax.tree.map(lambda leaf: leaf.astype(dtype), self.at(data, z))

    def part_of(
        self,
        fraction: Float[Array, ""],
        radius: Float[Array, ""],
        y: Float[Array, " n"],
    ) -> Float[Array, " n"]:
        """Returns the z from which a solution y is rounded that has to be drawn back; all of it at 1, the old one at 0."""
        return fraction * radius * y

    def inward(
        self, problem: LocalProblem, direction: KlDirection, y: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """Returns a turn of the way from a solution y back to the old distribution that keeps it inside the constraints.

        The performance need not rise along the straight way: it may fall first, and then what rounding took from a bound
        that just held is not found again before the old distribution. On y - t (y - inward) every active constraint falls
        by at least t / 2 to first order; zero where it does so anyway.
        """
        model = local_functions(self, direction)[2].model(y, problem)
        active = model.constraints > -ACTIVE
        slopes = jnp.where(active[:, None], model.jacobian, 0.0)
        demanded = jnp.zeros_like(model.constraints).at[:2].set(0.5)
        missing = jnp.where(active, jnp.minimum(0.0, slopes @ y - demanded), 0.0)
        products = slopes @ slopes.T + jnp.diag(jnp.where(active, 0.0, 1.0))
        turn = slopes.T @ solve_positive(products, missing)  # the shortest one
        return jnp.where(jnp.isfinite(turn).all(), turn, 0.0)

    def gradients(
        self,
        data: Data,
        z: Float[Array, " n"],
        weights: Float[Array, " M"],
        direction: KlDirection,
    ) -> Gradients:
        """Returns the first derivatives; automatic unless the family writes its own."""
        return Gradients(
            gain=jax.grad(
                lambda z: performance_gain(weights, self.log_ratios(data, z))
            )(z),
            to_target=jax.grad(lambda z: self.kl_to_target_gain(data, z))(z),
            from_old=jax.grad(lambda z: self.kl_from_old(data, z, direction))(z),
            limits=jax.jacrev(lambda z: self.limits(data, z))(z),
        )

    def curvature(
        self,
        data: Data,
        z: Float[Array, " n"],
        weights: Float[Array, " M"],
        direction: KlDirection,
        coefficients: Coefficients,
    ) -> Float[Array, "n n"]:
        """Returns the second derivative of the weighted sum; automatic unless the family writes its own."""

        def weighted_sum(z: Float[Array, " n"]) -> Float[Array, ""]:
            gain = performance_gain(weights, self.log_ratios(data, z))
            to_target = self.kl_to_target_gain(data, z)
            from_old = self.kl_from_old(data, z, direction)
            return (
                coefficients.gain * gain
                + coefficients.to_target * to_target
                + coefficients.from_old * from_old
            )

        return jax.hessian(weighted_sum)(z)

    def outlying_start(self, data: Data) -> Float[Array, " n"] | None:
        """Returns a second start y for the search for outlying local optima; None where the family has none."""
        return None

    def minimise(
        self,
        problem: LocalProblem,
        direction: KlDirection,
        config: SolverConfig,
        search_outliers: bool,
    ) -> Solution:
        """Returns the solution y; by the augmented Lagrangian method, unless the family has an exact solve."""
        origin = jnp.zeros(self.size(problem.old), problem.radius.dtype)
        first = self.minimise_from(origin, problem, direction, config)
        start = self.outlying_start(problem.data) if search_outliers else None
        if start is None:
            return first
        second = self.minimise_from(start, problem, direction, config)
        better = (second.result == Result.CONVERGED) & (second.value < first.value)
        return jax.tree.map(lambda a, b: jnp.where(better, a, b), second, first)

    def minimise_from(
        self,
        start: Float[Array, " n"],
        problem: LocalProblem,
        direction: KlDirection,
        config: SolverConfig,
    ) -> Solution:
        """Returns the solution y that the augmented Lagrangian method finds from a start that keeps the constraints."""
        objective, constraints, derivatives = local_functions(self, direction)
        return solve(
            objective,
            constraints,
            start,
            problem,
            config=config,
            derivatives=derivatives,
        )

    def attach(
        self,
        problem: LocalProblem,
        direction: KlDirection,
        y: Float[Array, " n"],
        multipliers: Float[Array, " m"],
        valid: Bool[Array, ""],
    ) -> Float[Array, " n"]:
        """Returns the solution y as a differentiable function of the problem; derivatives are zero where not ``valid``."""
        return attach_derivatives(
            *local_functions(self, direction), y, multipliers, valid, problem
        )[0]


def performance_gain(
    weights: Float[Array, " M"], log_ratios: Float[Array, " M"]
) -> Float[Array, ""]:
    """Returns P(new) - P(old), P the importance-weighted mean of the values."""
    return (weights * jnp.expm1(log_ratios)).sum()


@functools.cache
def local_functions(
    chart: Chart[PyTree, PyTree], direction: KlDirection
) -> tuple[Objective, Constraints, Derivatives]:
    """Returns objective, constraints (KL, performance, limits) and derivatives of a `LocalProblem` in y."""

    def gain_at(problem: LocalProblem, z: Float[Array, " n"]) -> Float[Array, ""]:
        return performance_gain(problem.weights, chart.log_ratios(problem.data, z))

    def objective(y: Float[Array, " n"], problem: LocalProblem) -> Float[Array, ""]:
        z = problem.radius * y
        gain, kl_gain = gain_at(problem, z), chart.kl_to_target_gain(problem.data, z)
        return problem.target_weight * kl_gain - problem.performance_weight * gain

    def constraints(y: Float[Array, " n"], problem: LocalProblem) -> Float[Array, " m"]:
        z = problem.radius * y
        return constraints_at(problem, z, gain_at(problem, z))

    def constraints_at(
        problem: LocalProblem, z: Float[Array, " n"], gain: Float[Array, ""]
    ) -> Float[Array, " m"]:
        excess = chart.kl_from_old(problem.data, z, direction) / problem.max_kl - 1.0
        shortfall = jnp.where(
            problem.bounded, -(problem.slack + gain) / problem.slack_scale, -1.0
        )
        moves = problem.radius > 0
        limits = jnp.where(
            moves,
            chart.limits(problem.data, z) / jnp.where(moves, problem.radius, 1.0),
            -1.0,
        )
        return jnp.concatenate([excess[None], shortfall[None], limits])

    def model(y: Float[Array, " n"], problem: LocalProblem) -> Model:
        z = problem.radius * y
        slopes = chart.gradients(problem.data, z, problem.weights, direction)
        gain, kl_gain = gain_at(problem, z), chart.kl_to_target_gain(problem.data, z)
        value = problem.target_weight * kl_gain - problem.performance_weight * gain
        gradient = (
            problem.target_weight * slopes.to_target
            - problem.performance_weight * slopes.gain
        )
        jacobian = jnp.concatenate(
            [
                problem.radius * slopes.from_old[None] / problem.max_kl,
                jnp.where(
                    problem.bounded,
                    -problem.radius * slopes.gain / problem.slack_scale,
                    0.0,
                )[None],
                slopes.limits,  # limits are divided by the radius: their slopes in y are those in z
            ]
        )
        return Model(
            value, constraints_at(problem, z, gain), problem.radius * gradient, jacobian
        )

    def hessian(
        y: Float[Array, " n"], problem: LocalProblem, weights: Float[Array, " m"]
    ) -> Float[Array, "n n"]:
        """Returns the second derivative of objective + weights . constraints."""
        bound_weight = jnp.where(problem.bounded, weights[1] / problem.slack_scale, 0.0)
        coefficients = Coefficients(
            gain=-problem.performance_weight - bound_weight,
            to_target=problem.target_weight,
            from_old=weights[0] / problem.max_kl,
        )
        z = problem.radius * y
        return problem.radius**2 * chart.curvature(
            problem.data, z, problem.weights, direction, coefficients
        )

    return objective, constraints, Derivatives(model, hessian)


def scaled(
    chart: Chart[PyTree, PyTree], problem: LocalProblem, direction: KlDirection
) -> LocalProblem:
    """Returns the problem with objective and performance constraint divided by their slopes at the old distribution."""
    derivatives = local_functions(chart, direction)[2]
    origin = jnp.zeros(chart.size(problem.old), problem.radius.dtype)
    start = derivatives.model(origin, jax.lax.stop_gradient(problem))
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
