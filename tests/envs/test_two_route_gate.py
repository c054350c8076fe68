"""The two-route gate: who gets through, where the others end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.envs.two_route_gate import TwoRouteGate

TASK = TwoRouteGate(gust=0.0)


@pytest.mark.parametrize(
    ("theta", "context", "reward", "length"),
    [
        ((4.0, 2.0), (4.0, 0.2), 1.0, 50),
        ((-3.9, -1.9), (-4.0, 0.2), 1.0, 50),
        ((3.7, 2.0), (4.0, 0.2), 0.0, 20),  # the first wall
        ((4.0, 2.3), (4.0, 0.2), 0.0, 40),  # the second one
        ((0.5, 0.25), (0.5, 1.0), 0.0, 20),  # the pillar
        ((1.0, 0.5), (1.0, 1.0), 1.0, 50),  # beside it
    ],
)
def test_a_mass_gets_through_both_gates_or_ends_at_a_wall(
    theta, context, reward, length
):
    outcome = TASK.rollout(jax.random.key(0), jnp.array(theta), jnp.array(context))
    assert (float(outcome.reward), int(outcome.length)) == (reward, length)
    assert bool(outcome.success) == (reward == 1.0)
    states = TASK.states(jax.random.key(0), jnp.array(theta), jnp.array(context))
    x, y = np.asarray(states.physics).T
    assert (x[0], y[0]) == (0.0, 5.0)
    assert y[-1] == pytest.approx(5.0 - 0.1 * length, abs=1e-5)
    wall = 1 if length == 40 else 0 if length == 20 else 1
    assert x[-1] == pytest.approx(theta[wall], abs=1e-5)


def test_a_gust_moves_both_places_by_its_standard_deviation():
    task = TwoRouteGate(gust=0.1)
    keys = jax.random.split(jax.random.key(1), 4_000)
    narrow = jnp.array([4.0, 0.1])
    outcome = jax.vmap(lambda key: task.rollout(key, jnp.array([4.0, 2.0]), narrow))(
        keys
    )
    assert float(outcome.reward.mean()) == pytest.approx(0.6827**2, abs=0.03)


def test_the_scenery_has_a_gap_in_each_wall_and_none_behind_the_pillar():
    gaps = [(a[1][0], b[0][0]) for a, b in zip(*[iter(TASK.scenery((4.0, 0.2)))] * 2, strict=True)]  # fmt: skip
    np.testing.assert_allclose(gaps, [(3.8, 4.2), (1.8, 2.2)])
    shut = TASK.scenery((0.5, 1.0))
    assert shut[0][1] == shut[1][0]


def test_the_target_has_two_modes_and_the_start_covers_both():
    TASK.initial.check(TASK.context_space, "initial")
    TASK.target.check(TASK.context_space, "target")
    TASK.initial.check_target(TASK.target)
    assert TASK.target.components.mean[:, 0].tolist() == [-4.0, 4.0]
