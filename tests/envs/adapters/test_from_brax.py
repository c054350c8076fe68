"""An environment of Brax as a task: its context is in the physics, and nothing else changes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax.envs.fast import Fast
from brax.envs.wrappers.training import VmapWrapper

import spjax
from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.envs.adapters.brax import FromBrax
from spjax.promotion import lenient
from spjax.runs.read import load_run
from spjax.teachers import Target
from spjax.training.config import RunConfig
from tests.envs.adapters.slider import OfPlayground, OnRail, Slider
from tests.training.conftest import TINY

TASK = Slider()
STEPS = 3


def played(keys, contexts, action):
    """Returns the states [time, episode] of episodes that push with the same force."""

    def control_step(states, _):
        after = jax.vmap(lambda state: TASK.step(jax.random.key(0), state, action))(
            states
        )
        return after, after

    start = jax.vmap(TASK.reset)(keys, contexts)
    _, later = jax.lax.scan(control_step, start, length=STEPS)
    return jax.tree.map(
        lambda one, rest: jnp.concatenate([one[None], rest]), start, later
    )


@pytest.fixture(scope="module")
def both():
    """Returns the same episodes of the task in three masses, and of the environment itself, whose mass is 1 kg."""
    contexts, action = jnp.asarray([[1.0], [2.0], [0.5]]), jnp.asarray([0.8])
    bits = jax.random.split(jax.random.PRNGKey(2), 3)
    bits = jnp.stack([bits[0]] * 3)  # all start at the same place
    env = OnRail()

    def own(bits):
        first = jax.tree.map(jnp.asarray, env.reset(bits))

        def control_step(state, _):
            after = env.step(state, action)
            return after, after

        _, later = jax.lax.scan(control_step, first, length=STEPS)
        return jax.tree.map(
            lambda one, rest: jnp.concatenate([one[None], rest]), first, later
        )

    states = jax.jit(
        lambda bits: played(jax.random.wrap_key_data(bits), contexts, action)
    )(bits)
    with lenient():
        return jax.device_get((states, jax.jit(own)(bits[0])))


@pytest.mark.slow
def test_in_the_default_context_it_is_the_environment_itself(both):
    states, own = both
    for found, wanted in zip(
        jax.tree.leaves(states.physics), jax.tree.leaves(own), strict=True
    ):
        np.testing.assert_array_equal(found[:, 0], wanted)
    np.testing.assert_array_equal(states.observation[:, 0, :2], own.obs)
    np.testing.assert_array_equal(states.reward[:, 0], own.reward)
    np.testing.assert_array_equal(states.terminated[:, 0], own.done > 0)


def test_the_context_is_in_the_physics_and_in_the_observation(both):
    states, _ = both
    speed = states.observation[-1, :, 1]
    # Newton: what a constant force gives is inverse to the mass
    np.testing.assert_allclose(speed, 0.8 * 0.05 * STEPS / np.array([1, 2, 0.5]), 1e-4)
    np.testing.assert_array_equal(states.observation[-1, :, 2], [1.0, 2.0, 0.5])
    np.testing.assert_array_equal(states.physics.info["n"][:, 0], np.arange(STEPS + 1))


def test_what_is_asked_of_the_environment_is_passed_on():
    assert (TASK.observation_size, TASK.action_lower, TASK.action_upper) == (
        3,
        (-1.0,),
        (1.0,),
    )
    assert TASK.control_period == pytest.approx(0.05)
    assert Slider()._made is TASK._made
    assert Slider(stiff=True)._made is not TASK._made


def test_the_environment_is_never_changed(both):
    np.testing.assert_array_equal(TASK._made.env.sys.link.inertia.mass, [1.0])


@pytest.mark.slow
def test_every_reset_of_a_rollout_is_in_a_context_of_its_own(key):
    def assign(key, last):
        return TASK.initial.sample(key, TASK.context_space), ()

    def act(key, observation):
        return jnp.ones(1), ()

    @jax.jit
    def play(key):
        key_slots, key_rollout = jax.random.split(key)
        slots = init_slots(TASK, key_slots, 20, assign, ())
        return rollout(TASK, key_rollout, slots, act, assign, 22, 0.9)

    _, transitions, episodes, failed = play(key)
    ended = np.asarray(episodes.mask)
    assert ended.sum() >= 40
    assert len(np.unique(np.asarray(episodes.context)[ended])) == ended.sum()
    assert int(failed) == 0
    # a heavier mass takes longer to where the episode ends
    length, mass = (
        np.asarray(episodes.length)[ended],
        np.asarray(episodes.context)[ended],
    )
    assert np.corrcoef(length, mass[:, 0])[0, 1] > 0.8
    np.testing.assert_array_equal(np.asarray(episodes.success)[ended], length < 20)
    assert (np.asarray(transitions.next_observation)[..., 0].max()) > 0.1


@pytest.mark.slow
def test_spjax_trains_on_it(tmp_path):
    config = RunConfig(
        task=OfPlayground(),
        agent=dataclasses.replace(TINY, num_steps=32, hidden=(4,)),
        teacher=Target(),
        num_iterations=1,
        evaluate_every=1,
        evaluation_episodes=2,
    )
    run = load_run(spjax.train(config, tmp_path / "run", progress=False))
    rows = run.evaluation.to_pydict()
    assert rows["iteration"][-1] == 1
    assert np.isfinite(rows["discounted_return"]).all()


def test_an_environment_with_the_surface_of_playground_is_a_task_too(key):
    task = OfPlayground()
    key_reset, key_step = jax.random.split(key)
    state = task.reset(key_reset, jnp.asarray([99.0]))
    np.testing.assert_array_equal(state.context, [4.0])
    state = task.step(key_step, state, jnp.ones(1))
    np.testing.assert_array_equal(state.observation, [4.0])
    assert (task.observation_size, task.control_period) == (1, 0.02)
    np.testing.assert_array_equal(task._made.env.mjx_model.push, [1.0])


class Wrapped(Slider):
    name = "wrapped"

    def make(self):
        return VmapWrapper(OnRail())


class NoSystem(Slider):
    def make(self):
        return Fast()


class Dictionary(OfPlayground):
    name = "dictionary"

    def observe(self, state):
        return FromBrax.observe(self, state)


class Flat(OfPlayground):
    name = "flat"

    def observe(self, state):
        return state.obs["state"][0]


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (Wrapped(), "wrapped needs an environment without wrappers, got VmapWrapper"),
        (NoSystem(), "Fast has no 'sys'; say in NoSystem.system_name"),
        (Dictionary(), "dictionary observes privileged_state, state; let its"),
        (Flat(), r"flat must observe one vector, got an array of shape \(\)"),
    ],
)
def test_what_cannot_be_a_task_is_one_sentence(task, sentence):
    with pytest.raises(ValueError, match=sentence):
        _ = task.observation_size
