"""What an update is stated as, in numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Gaussian
from spjax.self_paced.statement import Inputs, Mode, Static, clean, state_problem
from spjax.solvers.augmented_lagrangian import DEFAULT_CONFIG

VALUES = [1.0, 3.0, 100.0, 5.0]  # the third is masked out: the performance is 3
MASK = [True, True, False, True]


def stated(performance_bound, reached=False, bounded=True, max_kl=0.02, **changes):
    old = Gaussian.from_std((1.0,), (2.0,))
    inputs = {
        "old": old,
        "target": Gaussian.from_std((4.0,), (0.5,)),
        "contexts": jnp.array([[0.0], [1.0], [jnp.nan], [3.0]]),
        "values": jnp.array(VALUES),
        "mask": jnp.array(MASK),
        "alpha": jnp.asarray(0.7),
        "performance_bound": jnp.asarray(performance_bound),
        "reached": jnp.asarray(reached),
        "max_kl": jnp.asarray(max_kl),
        "std_floor": None,
    }
    static = Static(bounded, "old-new", "float32", DEFAULT_CONFIG, False)

    @jax.jit
    def state(inputs):
        usable, finite = clean(inputs)
        return state_problem(static, finite, usable)

    return state(Inputs(**(inputs | changes)))


@pytest.mark.parametrize(
    ("bound", "reached", "mode"),
    [
        (2.9, False, Mode.TARGET),
        (2.9, True, Mode.TARGET),
        (3.0, False, Mode.TARGET),
        (3.1, False, Mode.REWARD),
        (3.1, True, Mode.FROZEN),
    ],
)
def test_the_mean_of_the_episodes_alone_decides_what_an_update_is(bound, reached, mode):
    problem, found = stated(bound, reached)
    assert int(found) == mode
    assert float(problem.slack) == pytest.approx(3.0 - bound, abs=1e-5)
    assert bool(problem.bounded) == (mode == Mode.TARGET)
    assert (float(problem.performance_weight) > 0) == (mode == Mode.REWARD)
    assert (float(problem.target_weight) > 0) == (mode == Mode.TARGET)
    np.testing.assert_allclose(problem.weights, [1 / 3, 1.0, 0.0, 5 / 3], rtol=1e-6)


def test_alpha_is_the_weight_of_the_target_in_units_of_that_of_the_performance():
    problem, mode = stated(0.0, bounded=False)
    assert int(mode) == Mode.PROPORTION
    weights = float(problem.target_weight), float(problem.performance_weight)
    assert weights[0] / weights[1] == pytest.approx(0.7, rel=1e-5)
    assert float(problem.radius) == pytest.approx(0.2, rel=1e-6)


def test_a_trust_region_of_zero_keeps_everything_and_divides_by_nothing():
    problem, _ = stated(0.0, max_kl=0.0)
    assert (float(problem.radius), float(problem.max_kl)) == (0.0, 1.0)


def test_a_value_that_is_not_finite_freezes_the_update():
    values = jnp.array([1.0, jnp.inf, 100.0, 5.0])
    problem, mode = stated(0.0, values=values)
    assert int(mode) == Mode.FROZEN
    assert float(problem.performance_weight) == float(problem.target_weight) == 0
