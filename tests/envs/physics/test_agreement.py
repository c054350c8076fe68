"""Both engines from the same start under the same controls; MJX is compiled once for all of these."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.envs import BallCatching
from spjax.envs.physics import make
from tests.envs.physics import scenes

STEPS = 50  # 0.5 s
FREE, NET, FLOOR, WALL, POST, BROKEN = range(6)


@pytest.fixture(scope="module")
def runs():
    """States [engine, instance, time, ...] of six instances: native first, then MJX."""
    throws = {
        FREE: ((1.5, 0.0, 1.6), (0.3, 0.2, 1.0), scenes.place()),
        NET: ((0.654, 0.214, 0.639), (0.0, 0.0, -0.5), scenes.place()),
        FLOOR: ((1.5, 0.0, 0.4), (0.0, 0.0, 0.0), scenes.place()),
        WALL: ((1.5, 0.0, 0.6), (2.0, 0.0, 1.0), scenes.place(wall=(2.0, 0.0, 0.5))),
        POST: (
            (1.5, 0.0, 0.6),
            (2.0, 0.0, 1.0),
            scenes.place(radius=0.3, post=(11.0, 0.1, 0.0)),
        ),
        BROKEN: ((1.5, 0.0, 1.6), (0.3, 0.2, 1.0), scenes.place()),
    }
    speeds = jnp.asarray(
        [[3.0, -2.0], [0.0, 0.0], [-3.0, 2.0], [3.9, 1.0], [1.0, 1.0], [3.0, -2.0]]
    )
    swing = jnp.cos(jnp.linspace(0.0, 3.0, STEPS))
    actions = speeds[:, None] * swing[None, :, None]
    actions = actions.at[BROKEN, 7, 0].set(jnp.nan)

    def run(engine):
        physics = make(scenes.SCENE, engine)
        states = [
            scenes.start(physics, jnp.asarray(b), jnp.asarray(v), fields=f)
            for b, v, f in throws.values()
        ]
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        follow = jax.vmap(lambda state, action: scenes.follow(physics, state, action))
        return jax.jit(follow, compiler_options=physics.compiler_options)(
            states, actions
        )

    return jax.tree.map(np.asarray, (run("native"), run("mjx")))


@pytest.mark.slow
def test_one_control_step_agrees_to_a_hundred_thousandth(runs):
    native, mjx = runs
    for name in ("qpos", "qvel", "act"):
        one, two = getattr(native, name)[:, 0], getattr(mjx, name)[:, 0]
        error = np.abs(one - two).max(axis=1) / np.abs(one).max(axis=1).clip(1e-3)
        assert error.max() <= 1e-5, name


def test_half_a_second_without_contact_agrees_to_a_thousandth_in_positions(runs):
    native, mjx = runs
    assert not native.contacts[FREE].any()
    assert np.abs(native.qpos[FREE, :, :2]).max() > 0.4  # the arm has moved
    np.testing.assert_allclose(mjx.qpos[FREE], native.qpos[FREE], atol=1e-3)
    np.testing.assert_allclose(mjx.qvel[FREE], native.qvel[FREE], atol=1e-2)


@pytest.mark.parametrize("instance", [NET, FLOOR, WALL, POST])
def test_the_same_contact_ends_the_motion_at_the_same_place(runs, instance):
    native, mjx = runs
    expected = [instance == NET, instance != NET]
    assert native.contacts[instance, -1].tolist() == expected
    assert mjx.contacts[instance, -1].tolist() == expected
    np.testing.assert_allclose(
        mjx.qpos[instance, -1, 2:5], native.qpos[instance, -1, 2:5], atol=1e-3
    )
    np.testing.assert_array_equal(native.contacts[instance], mjx.contacts[instance])


def test_a_bad_control_fails_its_instance_alone_at_its_step_in_both(runs):
    for states in runs:
        expected = np.zeros((6, STEPS), bool)
        expected[BROKEN, 7:] = True
        np.testing.assert_array_equal(states.failed, expected)
        np.testing.assert_array_equal(states.qpos[BROKEN, :7], states.qpos[FREE, :7])
        np.testing.assert_array_equal(
            states.qpos[BROKEN, 7:],
            np.repeat(states.qpos[FREE, 6:7], STEPS - 7, axis=0),
        )


def test_mjx_asks_for_fast_kinematics_where_it_runs_on_cpu():
    """XLA fuses the poses of a chain of bodies into one loop that computes them again for each entry."""
    assert make(scenes.SCENE, "mjx").compiler_options == {
        "xla_cpu_use_fusion_emitters": False
    }
    assert make(scenes.SCENE, "native").compiler_options == {}
    for engine in ("native", "mjx"):
        env = dataclasses.replace(BallCatching(), engine=engine)
        assert env.compiler_options == env._physics.compiler_options
