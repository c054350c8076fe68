"""How a Gaussian stays inside the space, and what its check refuses."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import ContextSpace, Gaussian
from spjax.contexts.sampling import sample_inside

SPACE = ContextSpace(
    names=("position", "friction"),
    units=("m", "1"),
    lower=(-4.0, 0.0),
    upper=(4.0, 2.4),
)
WIDE = Gaussian.from_std([3.5, 0.2], [2.0, 0.5])


def test_clipped_draws_are_the_free_draws_moved_to_the_bounds(key):
    free = WIDE.sample_many(jax.random.clone(key), None, 200)
    clipped = WIDE.sample_many(key, SPACE, 200)
    np.testing.assert_array_equal(clipped, SPACE.clip(free))
    assert np.any(clipped != free)


def test_a_single_clipped_draw_is_the_first_child_of_the_key(key):
    alone = WIDE.sample(jax.random.split(jax.random.clone(key), 3)[0], SPACE)
    np.testing.assert_array_equal(WIDE.sample_many(key, SPACE, 3)[0], alone)


def test_redrawn_contexts_are_those_of_the_episodic_agents(key):
    redraw = dataclasses.replace(WIDE, outside="redraw")
    means = jnp.broadcast_to(WIDE.mean, (50, 2))
    expected = sample_inside(
        jax.random.clone(key), means, WIDE.chol, SPACE.lower, SPACE.upper
    )
    np.testing.assert_array_equal(redraw.sample_many(key, SPACE, 50), expected)


def test_redrawn_contexts_follow_the_truncated_density_and_pile_up_nowhere(key):
    redraw = Gaussian(
        jnp.array([4.0, 1.2]), jnp.diag(jnp.array([1.0, 0.1])), outside="redraw"
    )
    draws = np.asarray(redraw.sample_many(key, SPACE, 4000))[:, 0]
    assert draws.max() < 4.0
    np.testing.assert_allclose(
        4.0 - draws.mean(), np.sqrt(2 / np.pi), atol=0.05
    )  # mean of a half normal


def test_one_redrawn_context_lies_inside(key):
    redraw = Gaussian(
        jnp.array([6.0, 1.2]), jnp.diag(jnp.array([2.0, 0.1])), outside="redraw"
    )
    draws = jax.vmap(lambda key: redraw.sample(key, SPACE))(jax.random.split(key, 100))
    assert np.all(np.asarray(draws)[:, 0] < 4.0)


def test_without_a_space_no_draw_is_moved(key):
    draws = dataclasses.replace(WIDE, outside="redraw").sample_many(key, None, 2000)
    np.testing.assert_allclose(np.asarray(draws).mean(axis=0), WIDE.mean, atol=0.2)
    assert np.asarray(draws)[:, 0].max() > 4.0


def test_the_summary_has_mean_and_marginal_deviations():
    summary = Gaussian(
        jnp.array([1.0, 2.0]), jnp.array([[3.0, 0.0], [3.0, 4.0]])
    ).summary()
    np.testing.assert_allclose(summary.mean, [1.0, 2.0])
    np.testing.assert_allclose(summary.std, [3.0, 5.0])


def test_a_value_on_the_bound_is_inside_in_single_precision_too():
    Gaussian.from_std(jnp.asarray([-4.0, 2.4], jnp.float32), [1.0, 1.0]).check(
        SPACE, "teacher.target"
    )


@pytest.mark.parametrize(
    ("gaussian", "sentence"),
    [
        (
            Gaussian.from_std([5.0, 1.0], [1.0, 1.0]),
            r"teacher.target.mean: position = 5 lies outside its bounds \[-4, 4\] m",
        ),
        (
            Gaussian.from_std([1.0], [1.0]),
            r"teacher.target.mean needs 2 values \(position, friction\), got 1",
        ),
        (
            Gaussian(jnp.zeros(2), jnp.eye(3)),
            r"teacher.target.std needs 2 values \(position, friction\), got 3",
        ),
        (
            Gaussian(jnp.zeros(2), jnp.diag(jnp.array([1.0, 0.0]))),
            "teacher.target.std of friction must be positive",
        ),
        (
            Gaussian(jnp.zeros(2), jnp.eye(2), outside="wrap"),
            '"clip" or "redraw", got \'wrap\'',
        ),
    ],
)
def test_a_gaussian_that_does_not_fit_the_space_is_refused_in_one_sentence(
    gaussian, sentence
):
    with pytest.raises(ValueError, match=sentence):
        gaussian.check(SPACE, "teacher.target")


def test_how_draws_stay_inside_is_static():
    chex.assert_trees_all_equal_structs(WIDE, Gaussian(jnp.ones(2), jnp.eye(2)))
    assert jax.tree.structure(WIDE) != jax.tree.structure(
        dataclasses.replace(WIDE, outside="redraw")
    )
