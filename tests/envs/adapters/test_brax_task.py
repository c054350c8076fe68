"""A task as an environment of Brax is the task itself, bit for bit."""

import importlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax.envs.wrappers import training
from flax import struct

from spjax.contexts import Gaussian
from spjax.envs.adapters.brax import BraxTask
from spjax.envs.gate import Gate
from spjax.envs.point_mass import PointMass
from spjax.promotion import lenient
from tests.envs.adapters.walk import Walk

TASK = Walk()
ENV = BraxTask(TASK)
CONTEXT = jnp.asarray([10.0])


@pytest.fixture(scope="module")
def step():
    return jax.jit(ENV.step)


def at(place, key, time_step=0):
    """Returns a state at a place in the context 10 m."""
    state = ENV.reset_in(key, CONTEXT)
    task_state = state.pipeline_state.replace(
        physics=jnp.asarray([place]), time_step=jnp.asarray(time_step, jnp.int32)
    )
    return state.replace(pipeline_state=task_state)


@pytest.mark.parametrize("raw", [True, False], ids=["of Brax", "of JAX"])
def test_reset_and_step_are_the_tasks_own_for_the_same_keys(raw, step):
    key = jax.random.PRNGKey(5) if raw else jax.random.key(5)
    key_context, key_episode = jax.random.split(jax.random.key(5))
    context = TASK.target.sample(key_context, TASK.context_space)
    key_reset, key_later = jax.random.split(key_episode)
    state, own = ENV.reset(key), TASK.reset(key_reset, context)
    jax.tree.map(np.testing.assert_array_equal, state.pipeline_state, own)

    own_step = jax.jit(TASK.step)
    for action in (0.25, -0.5):
        key_step, key_later = jax.random.split(key_later)
        own = own_step(key_step, own, jnp.asarray([-2.0 + (action + 1) / 2 * 8.0]))
        state = step(state, jnp.asarray([action]))
        jax.tree.map(np.testing.assert_array_equal, state.pipeline_state, own)
        np.testing.assert_array_equal(state.obs, own.observation)
        assert float(state.reward) == float(own.reward)
    assert state.obs[0] != state.obs[1]


def test_actions_span_the_bounds_of_the_tasks_and_are_clipped():
    actions = jnp.asarray([[-3.0], [-1.0], [0.0], [0.5], [1.0], [9.0]])
    np.testing.assert_allclose(
        ENV.scaled(actions)[:, 0], [-2.0, -2.0, 2.0, 4.0, 6.0, 6.0], rtol=1e-6
    )
    wide = BraxTask(PointMass()).scaled(jnp.asarray([0.1, -1.0]))
    np.testing.assert_allclose(wide, [1.0, -10.0], rtol=1e-6)
    assert (ENV.action_size, ENV.observation_size, ENV.dt) == (1, 2, 0.5)


def test_done_is_where_the_task_ended_and_not_at_its_horizon(step, key):
    crossing = step(at(9.5, jax.random.fold_in(key, 0)), jnp.ones(1))
    assert (float(crossing.done), float(crossing.metrics["success"])) == (1.0, 0.0)
    short = step(at(9.0, jax.random.fold_in(key, 1)), jnp.asarray([-0.75]))
    assert (float(short.done), float(short.metrics["success"])) == (0.0, 0.0)
    last = step(at(8.0, jax.random.fold_in(key, 2), time_step=3), jnp.asarray([-0.5]))
    assert (float(last.done), float(last.metrics["success"])) == (0.0, 1.0)


def test_braxs_own_wrappers_cut_at_the_horizon_as_a_truncation():
    env = training.wrap(ENV, TASK.horizon)
    state = env.reset(jax.random.split(jax.random.PRNGKey(0), 3))
    step = lenient()(jax.jit(env.step))
    for time in range(1, TASK.horizon + 1):
        assert not state.done.any()
        state = step(state, jnp.full((3, 1), -0.5))
        np.testing.assert_array_equal(state.info["steps"], time)
    assert state.done.all()
    np.testing.assert_array_equal(state.info["truncation"], 1.0)
    state = step(state, jnp.full((3, 1), -0.5))
    np.testing.assert_array_equal(state.info["steps"], 1)


def test_what_is_not_finite_ends_with_reward_0_and_the_last_finite_observation(
    step, key
):
    before = at(-4.0, key)
    state = step(before, -jnp.ones(1))
    assert (float(state.done), float(state.reward)) == (1.0, 0.0)
    np.testing.assert_array_equal(state.obs, before.pipeline_state.observation)
    assert float(state.metrics["success"]) == 0.0
    assert all(
        np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.pipeline_state)
    )


def test_contexts_come_from_the_distribution_that_is_given_or_the_target(key):
    def drawn(env):
        reset = jax.vmap(env.reset)(jax.random.split(jax.random.clone(key), 200))
        return np.asarray(reset.pipeline_state.context)

    narrow = drawn(BraxTask(TASK, contexts=Gaussian.from_std((2.0,), (0.01,))))
    assert narrow.mean() == pytest.approx(2.0, abs=0.01)
    assert narrow.std() == pytest.approx(0.01, rel=0.2)
    assert drawn(ENV).mean() == pytest.approx(10.0, abs=0.2)
    assert len(np.unique(drawn(ENV))) == 200


@struct.dataclass
class Boundless(Walk):
    action_upper = (float("inf"),)
    name = "boundless"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BraxTask("walk"), "needs a task such as .*, got 'walk'"),
        (
            lambda: BraxTask(PointMass(dimensions=5)),
            r"task.dimensions must lie in \[2, 3\], got 5",
        ),
        (
            lambda: BraxTask(TASK, contexts=(2.5, 0.5)),
            "contexts must be a distribution",
        ),
        (lambda: BraxTask(Gate()), "played step by step, gate-precision is played"),
        (lambda: BraxTask(Boundless()), "needs bounded actions, those of boundless"),
        (
            lambda: BraxTask(TASK, contexts=Gaussian.from_std((50.0,), (1.0,))),
            "contexts.*goal = 50",
        ),
    ],
)
def test_what_cannot_be_an_environment_is_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence) as found:
        make()
    assert not re.search(r"[.!]\s|\n", str(found.value))


def test_without_brax_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "brax", None)
    monkeypatch.delitem(sys.modules, "spjax.envs.adapters.brax")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'spjax\[brax\]'"):
        importlib.import_module("spjax.envs.adapters.brax")
