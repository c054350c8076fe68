"""Movement primitives against NumPy, differences and the properties that they must have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.episodic import ProMP

REACHER = ProMP(20, -0.2, 1.2, 0.03)
CUP = ProMP(9, -0.01, 1.01, 0.0035)
PHASE = np.linspace(0, 1, 150)


@pytest.mark.parametrize("primitive", [REACHER, CUP])
def test_the_trajectory_is_the_weighted_mean_of_normalised_bumps(primitive):
    random = np.random.default_rng(0)
    weights = random.normal(size=(primitive.num_bases, 2))
    centres = np.linspace(
        primitive.first_centre, primitive.last_centre, primitive.num_bases
    )
    bumps = np.exp(-((PHASE[:, None] - centres) ** 2) / (2 * primitive.variance))
    expected = bumps @ weights / bumps.sum(axis=1, keepdims=True)
    found = primitive.positions(jnp.asarray(weights), jnp.asarray(PHASE))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("primitive", [REACHER, CUP])
def test_the_velocity_is_the_time_derivative_of_the_position(primitive, key):
    weights = jax.random.normal(key, (primitive.num_bases, 3))

    def position(second):
        return primitive.positions(weights, second[None] / 3.5)[0]

    seconds = jnp.asarray([0.0, 0.4, 1.7, 3.5])
    expected = jax.vmap(jax.jacfwd(position))(seconds)
    np.testing.assert_allclose(
        primitive.velocities(weights, seconds / 3.5, 3.5),
        expected,
        rtol=1e-4,
        atol=1e-4,
    )


def test_equal_weights_give_a_constant_far_outside_the_centres_too():
    phase = jnp.asarray([-50.0, 0.0, 0.3, 1.0, 50.0])
    np.testing.assert_allclose(
        CUP.positions(jnp.full((9, 1), 2.0), phase), 2.0, rtol=1e-6
    )
    np.testing.assert_allclose(
        CUP.velocities(jnp.full((9, 1), 2.0), phase, 1.0), 0.0, atol=2e-2
    )
    assert np.isfinite(
        jax.grad(lambda w: CUP.positions(w, phase).sum())(jnp.ones((9, 1)))
    ).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 0.0, 1.0, 0.1), "^num_bases .* must be at least 1, got 0$"),
        ((3, 0, 1, 0.0), "^variance of .* got 0.0$"),
    ],
)
def test_what_is_no_primitive_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ProMP(*settings)
