"""What every registered step-based environment must do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import envs


@pytest.fixture(params=[name for name in envs.names() if isinstance(envs.make(name), envs.Env)])
def env(request):
    return envs.make(request.param)


def corners(env):
    space = env.context_space
    return jnp.asarray(
        np.array(np.meshgrid(*zip(space.lower, space.upper, strict=True))).reshape(space.size, -1).T, jnp.float32
    )


def test_reset_takes_the_given_context_and_clips_it_to_the_bounds(env, key):
    space = env.context_space
    for number, context in enumerate(corners(env)):
        state = env.reset(jax.random.fold_in(key, number), context)
        np.testing.assert_array_equal(state.context, context)
        assert state.observation.shape == (env.observation_size,)
        assert int(state.time_step) == 0
    far = env.reset(jax.random.fold_in(key, 1000), 10 * corners(env)[-1] + 100)
    np.testing.assert_array_equal(far.context, jnp.asarray(space.upper, jnp.float32))


def test_states_stay_finite_at_the_corners_of_the_context_space_under_extreme_actions(env, key):
    contexts = corners(env)
    count = len(contexts)
    state = jax.vmap(env.reset)(jax.random.split(jax.random.fold_in(key, 0), count), contexts)
    step = jax.jit(jax.vmap(env.step))
    for t in range(30):
        sign = jax.random.rademacher(jax.random.fold_in(key, 1 + t), (count, len(env.action_lower)), float)
        state = step(jax.random.split(jax.random.fold_in(key, 1000 + t), count), state, 1e3 * sign)
        assert all(jnp.isfinite(leaf).all() for leaf in (state.observation, state.reward))
        np.testing.assert_array_equal(state.context, contexts)
        assert not (state.terminated & state.truncated).any()


def test_jit_equals_eager_and_vmap_equals_a_loop(env, key):
    contexts = corners(env)[:4]
    indices = jnp.arange(len(contexts))
    states = [env.reset(jax.random.fold_in(key, i), context) for i, context in enumerate(contexts)]
    action = jnp.asarray(env.action_upper) * 0.3
    looped = [env.step(jax.random.fold_in(key, 100 + i), state, action) for i, state in enumerate(states)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *states)
    mapped = jax.jit(jax.vmap(lambda i, s: env.step(jax.random.fold_in(key, 100 + i), s, action)))(indices, stacked)
    for a, b in zip(
        jax.tree.leaves(jax.tree.map(lambda *x: jnp.stack(x), *looped)), jax.tree.leaves(mapped), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"^unknown environment 'point-mas-3d'; did you mean 'point-mass-3d'\?$"):
        envs.make("point-mas-3d")
