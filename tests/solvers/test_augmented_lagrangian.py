import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from spjax.promotion import lenient
from spjax.solvers.augmented_lagrangian import (
    Result,
    SolverConfig,
    _State,
    _update_multipliers,
    solve,
)
from spjax.solvers.implicit import Model


def distance(z, point):
    return ((z - point) ** 2).sum()


def ball(z, point):
    return (z**2).sum()[None] - 1.0


@functools.cache
def projection(config=None):
    """Projection onto the unit ball: z = point / max(1, |point|), multiplier max(0, |point| - 1)."""
    config = config or SolverConfig()
    return jax.jit(
        lambda point: solve(distance, ball, jnp.zeros_like(point), point, config=config)
    )


@pytest.mark.parametrize("scale", [0.3, 2.0, 50.0])
def test_projection_onto_a_ball_has_its_closed_form(scale):
    with jax.enable_x64(True):
        point = scale * np.array([0.6, -0.8, 0.0])
        solution = jax.device_get(projection()(jnp.asarray(point)))
    assert solution.result == Result.CONVERGED
    np.testing.assert_allclose(solution.z, point / max(1.0, scale), atol=1e-7)
    np.testing.assert_allclose(
        solution.multipliers, [max(0.0, scale - 1)], atol=1e-6 * max(1.0, scale)
    )
    assert (np.asarray(solution.z) ** 2).sum() <= 1
    assert solution.kkt <= 1e-8


def test_the_generic_quasi_newton_optimiser_of_optax_finds_the_same_minimum():
    lbfgs = optax.lbfgs()
    inner = optax.GradientTransformationExtraArgs(
        lbfgs.init, lenient()(lbfgs.update)
    )  # it mixes integers
    config = SolverConfig(inner=inner, tolerance=1e-6, inner_iterations=30)
    with jax.enable_x64(True):
        point = jnp.array([1.2, -1.6, 0.0])
        solution = projection(config)(point)
    assert solution.result == Result.CONVERGED
    np.testing.assert_allclose(solution.z, [0.6, -0.8, 0.0], atol=1e-5)


def test_a_nonlinear_problem_satisfies_the_optimality_conditions():
    def banana(z, params):
        return params * (z[1] - z[0] ** 2) ** 2 + (1 - z[0]) ** 2

    def constraints(z, params):
        return jnp.stack([z[0] ** 2 + z[1] ** 2 - 1.0, z[0] - z[1] - 2.0])

    with jax.enable_x64(True):
        solution = jax.jit(
            lambda params: solve(banana, constraints, jnp.zeros(2), params)
        )(jnp.asarray(10.0))
        solution = jax.device_get(solution)
        slope = (
            jax.grad(banana)(solution.z, 10.0)
            + jax.jacobian(constraints)(solution.z, 10.0).T @ solution.multipliers
        )
    assert solution.result == Result.CONVERGED
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)
    np.testing.assert_allclose(
        (np.asarray(solution.z) ** 2).sum(), 1.0, atol=1e-7
    )  # the first constraint is active
    assert solution.multipliers[0] > 0.01
    assert solution.multipliers[1] == 0


def test_derivatives_of_the_projection_have_their_closed_form():
    with jax.enable_x64(True):
        for point in (jnp.array([1.2, -1.6, 0.5]), jnp.array([0.1, 0.2, 0.3])):
            jacobian = jax.jacrev(lambda point: projection()(point).z)(point)
            expected = jax.jacfwd(
                lambda point: point / jnp.maximum(1.0, jnp.sqrt((point**2).sum()))
            )(point)
            np.testing.assert_allclose(jacobian, expected, atol=1e-6)


def test_derivatives_of_multiplier_and_value_have_their_closed_form():
    with jax.enable_x64(True):
        point = jnp.array([1.2, -1.6, 0.0])
        multiplier = jax.grad(lambda point: projection()(point).multipliers[0])(point)
        value = jax.grad(lambda point: projection()(point).value)(point)
    np.testing.assert_allclose(
        multiplier, [0.6, -0.8, 0.0], atol=1e-6
    )  # of |point| - 1
    np.testing.assert_allclose(value, [1.2, -1.6, 0.0], atol=1e-6)  # of (|point| - 1)^2


def test_an_infeasible_start_is_returned_with_its_code():
    start = jnp.array([3.0, 0.0])
    solution = solve(distance, ball, start, jnp.zeros(2))
    assert solution.result == Result.INFEASIBLE_START
    np.testing.assert_array_equal(solution.z, start)


def test_an_optimum_with_its_multipliers_is_known_for_one_whatever_was_predicted():
    """Minimise |z - (2, 0)|^2 in the unit ball, z_1 <= 3: z = (1, 0), multipliers (1, 0); the residual is that of both."""
    constraints = jnp.array([0.0, -2.0])
    model = Model(
        value=jnp.asarray(1.0),
        constraints=constraints,
        gradient=jnp.array([-2.0, 0.0]),
        jacobian=jnp.array([[2.0, 0.0], [1.0, 0.0]]),
    )
    zero = jnp.zeros(())
    state = _State(
        start=jnp.zeros((), jnp.int32),
        z=jnp.array([1.0, 0.0]),
        multipliers=jnp.array([1.0, 0.0]),
        predicted=jnp.array([7.0, 7.0]),
        error=zero,
        penalty=zero + 15.0,
        residual=zero + jnp.inf,
        inner=(),
        inner_iterations=jnp.zeros((), jnp.int32),
        iterations=jnp.zeros((), jnp.int32),
        best_z=jnp.zeros(2),
        best_value=zero,
        kkt=zero,
        violation=zero,
        converged=jnp.asarray(False),
    )
    after = _update_multipliers(state, model, 1e-5, SolverConfig())
    assert bool(after.converged)
    assert (float(after.kkt), float(after.violation)) == (0.0, 0.0)
    np.testing.assert_allclose(after.multipliers, [1.0, 0.0], atol=1e-6)

    outside = model._replace(constraints=jnp.array([0.1, -2.0]))
    after = _update_multipliers(state, outside, 1e-5, SolverConfig())
    assert not bool(after.converged)
    assert float(after.violation) == pytest.approx(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("start", [[1.1, 0.0], [0.0, -0.9], [0.3, -0.96]])
def test_a_start_that_violates_one_of_two_constraints_a_little_is_infeasible(start):
    def lens(z, point):
        return jnp.stack([(z**2).sum() - 1.0, -z[1] - 0.8])

    start = jnp.array(start)
    solution = jax.jit(lambda p: solve(distance, lens, start, p))(jnp.zeros(2))
    assert solution.result == Result.INFEASIBLE_START
    assert solution.iterations == 0
    assert solution.kkt == jnp.inf  # it was never looked at
    np.testing.assert_array_equal(solution.z, start)
    slope = jax.grad(lambda p: solve(distance, lens, start, p).z.sum())
    np.testing.assert_array_equal(jax.jit(slope)(jnp.ones(2)), 0.0)


def test_a_start_on_the_boundary_is_feasible():
    with jax.enable_x64(True):
        start, point = jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0])
        solution = solve(distance, ball, start, point)
    assert solution.result == Result.CONVERGED
    np.testing.assert_allclose(solution.z, [0.0, 1.0], atol=1e-7)


def test_a_start_that_is_not_finite_is_returned_with_its_code_and_zero_derivatives():
    point = jnp.array([jnp.nan, 0.0, 0.0])
    solution = projection()(point)
    assert solution.result == Result.NOT_FINITE
    np.testing.assert_array_equal(solution.z, 0.0)
    np.testing.assert_array_equal(
        jax.grad(lambda point: projection()(point).z.sum())(point), 0.0
    )


def test_the_iteration_limit_returns_the_best_feasible_point_with_its_code():
    point = jnp.array([30.0, -40.0, 0.0])
    solution = projection(SolverConfig(max_iterations=2))(point)
    assert solution.result == Result.ITERATION_LIMIT
    assert solution.iterations == 2
    assert (np.asarray(solution.z) ** 2).sum() <= 1
    assert distance(solution.z, point) < distance(jnp.zeros(3), point)


def test_one_bad_lane_leaves_the_others_bit_identical():
    points = jnp.linspace(-3.0, 3.0, 24).reshape(8, 3)
    clean = jax.vmap(projection())(points)
    mixed = jax.vmap(projection())(points.at[2].set(jnp.nan))
    assert mixed.result[2] == Result.NOT_FINITE
    others = np.arange(8) != 2
    np.testing.assert_array_equal(mixed.z[others], clean.z[others])
