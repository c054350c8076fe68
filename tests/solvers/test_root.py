import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import elementwise

from spjax.solvers.root import bracket_root
from spjax.solvers.series import expm1_minus


@pytest.mark.parametrize(
    ("function", "root"),
    [
        (lambda x: x - 0.3, 0.3),
        (lambda x: x**3 - 2.0, 2 ** (1 / 3)),
        (lambda x: jnp.exp(20 * (x - 1.5)) - 1.0, 1.5),
        (lambda x: jnp.tanh(30 * (x - 0.1)), 0.1),  # flat almost everywhere
        (lambda x: jnp.where(x < 1.7, -1.0, 1.0), 1.7),
    ],
)
def test_the_bracket_holds_the_root_and_is_as_narrow_as_asked(function, root):
    with jax.enable_x64(True):
        low, high, trips = bracket_root(
            function, jnp.asarray(0.0), jnp.asarray(2.0), 1e-12
        )
        assert function(low) <= 0 < function(high)
    assert low - 1e-12 <= root <= high + 1e-12
    assert high - low <= 2e-12
    assert trips <= 60


def test_smooth_functions_take_far_fewer_trips_than_bisection():
    with jax.enable_x64(True):
        trips = bracket_root(
            lambda x: x**3 - 2.0, jnp.asarray(0.0), jnp.asarray(2.0), 1e-12
        ).trips
    assert trips <= 12  # bisection takes 41


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x**3 - 2.0,
        lambda x: x - 0.3 + 0.2 * x**2,
        lambda x: jnp.exp(5 * (x - 1.45)) - 1.0,
        lambda x: jnp.tanh(8 * (x - 0.4)),
        lambda x: jnp.cbrt(x - 0.7),
    ],
)
def test_it_looks_at_the_points_of_chandrupatlas_method_as_scipy_has_it(function):
    ours, theirs = [], []

    def watched(x):
        jax.debug.callback(lambda at: ours.append(float(at)), x, ordered=True)
        return function(x)

    def numpy_function(x):
        theirs.extend(x)
        return np.asarray(function(jnp.asarray(x)))

    with jax.enable_x64(True):
        bracket_root(watched, jnp.asarray(0.0), jnp.asarray(2.0), 1e-9)
        jax.effects_barrier()
        elementwise.find_root(
            numpy_function,
            (np.array([0.0]), np.array([2.0])),
            tolerances={"xatol": 1e-9, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0},
        )
    count = min(len(ours), len(theirs)) - 2  # the last are moved by the tolerance
    assert count >= 6
    np.testing.assert_allclose(ours[:count], theirs[:count], atol=1e-8)


def test_without_a_root_inside_both_points_are_the_end_on_its_side():
    ends = jnp.asarray(0.0), jnp.asarray(2.0)
    assert bracket_root(lambda x: x + 1.0, *ends, 1e-6)[:2] == (0.0, 0.0)
    assert bracket_root(lambda x: x - 3.0, *ends, 1e-6)[:2] == (2.0, 2.0)


def test_exp_minus_its_tangent_does_not_cancel():
    with jax.enable_x64(True):
        for x in (-30.0, -0.5, -0.0999, -1e-3, 1e-9, 0.05, 0.1001, 3.0):
            exact = x**2 * float(
                sum(x**k / np.prod(np.arange(1.0, k + 3)) for k in range(150))
            )
            np.testing.assert_allclose(
                expm1_minus(jnp.asarray(x)),
                exact if x > -5 else np.exp(x) - 1 - x,
                rtol=1e-13,
            )
        assert jax.grad(expm1_minus)(0.0) == 0.0
        np.testing.assert_allclose(
            jax.grad(expm1_minus)(0.3), np.expm1(0.3), rtol=1e-12
        )
