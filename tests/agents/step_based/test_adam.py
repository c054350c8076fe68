"""Adam against NumPy, with epsilon in both places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.agents.step_based import PPO, SAC
from spjax.agents.step_based.adam import adam
from tests.agents.step_based.learning import train
from tests.probe import ConstantReward

SMALL = PPO(
    num_envs=8,
    num_steps=4,
    num_minibatches=1,
    num_epochs=1,
    hidden=(8,),
    learning_rate=1e-2,
)
EPSILON = 1e-2  # as large as the gradients, so that its place shows


def by_hand(gradients, place):
    """Returns the directions of each step, in float64, from the formulas of the article."""
    m = v = np.zeros(gradients.shape[1])
    directions = []
    for t, gradient in enumerate(gradients, start=1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        if place == "after-correction":
            m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
            directions.append(m_hat / (np.sqrt(v_hat) + EPSILON))
        else:
            rate = np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            directions.append(rate * m / (np.sqrt(v) + EPSILON))
    return np.array(directions)


@pytest.mark.parametrize("place", ["after-correction", "before-correction"])
def test_the_directions_are_those_of_the_formulas(place):
    gradients = 0.02 * np.random.default_rng(0).normal(size=(300, 4)) + [
        0.0,
        0.01,
        -0.03,
        1e-4,
    ]
    optimiser = adam(EPSILON, place)

    def step(state, gradient):
        direction, state = optimiser.update(gradient, state)
        return state, direction

    with jax.enable_x64(True):
        _, directions = jax.lax.scan(
            step, optimiser.init(jnp.zeros(4)), jnp.asarray(gradients)
        )
    np.testing.assert_allclose(directions, by_hand(gradients, place), rtol=1e-9)


def test_epsilon_before_the_correction_counts_31_6_times_as_much_at_the_first_step():
    gradient = jnp.array([1e-3])
    after, _ = adam(1e-5 * np.sqrt(1000)).update(gradient, adam(0.0).init(gradient))
    before, _ = adam(1e-5, "before-correction").update(
        gradient, adam(0.0).init(gradient)
    )
    np.testing.assert_allclose(before, after, rtol=1e-5)
    assert float(before[0]) == pytest.approx(
        1 / (1 + np.sqrt(1000) * 1e-5 / 1e-3), rel=1e-4
    )


@pytest.mark.parametrize(
    ("agent", "epsilon"), [(PPO(), 1e-5), (SAC(), 1e-8)], ids=["ppo", "sac"]
)
def test_each_learner_has_its_published_epsilon_where_the_setting_says(agent, epsilon):
    gradient = jnp.array([10 * epsilon])
    for place, times in (("after-correction", 1), ("before-correction", np.sqrt(1000))):
        optimiser = agent.replace(adam_epsilon=place)._adam
        direction, _ = optimiser.update(gradient, optimiser.init(gradient))
        assert float(direction[0]) == pytest.approx(1 / (1 + 0.1 * times), rel=1e-4)


@pytest.mark.slow
def test_the_first_step_of_ppo_is_shorter_with_epsilon_before_the_correction(key):
    """The gradients are the same, and of some parameters as small as epsilon."""
    moved = {}
    for place in ("after-correction", "before-correction"):
        agent = SMALL.replace(adam_epsilon=place)
        before = agent.init(
            jax.random.fold_in(jax.random.clone(key), 1), ConstantReward()
        )
        state, _ = train(agent, ConstantReward(), jax.random.clone(key), 1)
        steps = jax.tree.map(
            lambda a, b: jnp.abs(a - b), state.params["policy"], before.params["policy"]
        )
        moved[place] = np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(steps)])
    assert (moved["before-correction"] <= moved["after-correction"]).all()
    assert moved["before-correction"].sum() < 0.99 * moved["after-correction"].sum()
