"""What every registered step-based environment must do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax import catalogue
from spjax.envs.adapters.policy_search import PolicySearch
from tests.built_in import built_in

TASKS = {name: catalogue.make("task", name) for name in built_in("task")}
STEP_BASED = [name for name, task in TASKS.items() if task.collected == "slots"]
EPISODIC = [name for name, task in TASKS.items() if task.collected == "rollouts"]


@pytest.fixture(params=STEP_BASED)
def env(request):
    return TASKS[request.param]


def corners(env):
    space = env.context_space
    return jnp.asarray(
        np.array(np.meshgrid(*zip(space.lower, space.upper, strict=True)))
        .reshape(space.size, -1)
        .T,
        jnp.float32,
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


@pytest.mark.slow
def test_states_stay_finite_at_the_corners_of_the_context_space_under_extreme_actions(
    env, key
):
    contexts = corners(env)
    count = len(contexts)
    state = jax.vmap(env.reset)(
        jax.random.split(jax.random.fold_in(key, 0), count), contexts
    )
    step = jax.jit(jax.vmap(env.step))
    for t in range(30):
        sign = jax.random.rademacher(
            jax.random.fold_in(key, 1 + t), (count, len(env.action_lower)), float
        )
        state = step(
            jax.random.split(jax.random.fold_in(key, 1000 + t), count),
            state,
            1e3 * sign,
        )
        assert all(
            jnp.isfinite(leaf).all() for leaf in (state.observation, state.reward)
        )
        np.testing.assert_array_equal(state.context, contexts)
        assert not (state.terminated & state.truncated).any()


@pytest.mark.slow
def test_jit_equals_eager_and_vmap_equals_a_loop(env, key):
    contexts = corners(env)[:4]
    indices = jnp.arange(len(contexts))
    states = [
        env.reset(jax.random.fold_in(key, i), context)
        for i, context in enumerate(contexts)
    ]
    action = jnp.asarray(env.action_upper) * 0.3
    looped = [
        env.step(jax.random.fold_in(key, 100 + i), state, action)
        for i, state in enumerate(states)
    ]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *states)
    mapped = jax.jit(
        jax.vmap(lambda i, s: env.step(jax.random.fold_in(key, 100 + i), s, action))
    )(indices, stacked)
    for a, b in zip(
        jax.tree.leaves(jax.tree.map(lambda *x: jnp.stack(x), *looped)),
        jax.tree.leaves(mapped),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


IN_JAX = [
    name for name, task in TASKS.items() if task.physics_scene() is None
]  # no simulator to derive through


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STEP_BASED if name in IN_JAX])
def test_the_reward_of_a_step_has_a_finite_gradient_at_the_corners_and_under_extreme_actions(
    name, key
):
    env = TASKS[name]
    contexts = corners(env)
    count = len(contexts)

    def reward(physics, context, action, state, key):
        return env.step(
            key, state.replace(physics=physics, context=context), action
        ).reward

    gradient = jax.jit(jax.vmap(jax.grad(reward, argnums=(0, 1, 2))))
    step = jax.jit(jax.vmap(env.step))
    state = jax.vmap(env.reset)(
        jax.random.split(jax.random.fold_in(key, 0), count), contexts
    )
    for t in range(30):
        keys = jax.random.split(jax.random.fold_in(key, 1000 + t), count)
        sign = jax.random.rademacher(
            jax.random.fold_in(key, 1 + t), (count, len(env.action_lower)), float
        )
        for action in (
            jnp.zeros_like(sign),
            sign * jnp.asarray(env.action_upper)[None],
            1e3 * sign,
        ):
            found = gradient(
                state.physics, state.context, action, state, jax.random.clone(keys)
            )
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
        state = step(keys, state, 1e3 * sign)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EPISODIC if name in IN_JAX])
def test_the_reward_of_a_rollout_has_a_finite_gradient_whatever_the_parameters(
    name, key
):
    task = TASKS[name]
    space, size = task.context_space, task.parameter_size
    lower, upper = (
        np.maximum(task.parameter_lower, -10.0),
        np.minimum(task.parameter_upper, 10.0),
    )
    thetas = jax.random.uniform(
        jax.random.fold_in(key, 0), (256, size), minval=lower, maxval=upper
    )
    thetas = thetas * jnp.asarray([0.0, 0.1, 1.0, 30.0])[jnp.arange(256) % 4, None]
    contexts = corners(task)[jnp.arange(256) // 4 % 2**space.size]
    keys = jax.random.split(jax.random.fold_in(key, 1), 256)

    def reward(theta, context, key):
        return task.rollout(key, theta, context).reward

    rewards, gradients = jax.jit(jax.vmap(jax.value_and_grad(reward, argnums=(0, 1))))(
        thetas, contexts, keys
    )
    assert np.isfinite(rewards).all()
    assert all(np.isfinite(leaf).all() for leaf in gradients)
    if not np.isin(rewards, (0.0, 1.0)).all():  # a success has no slope
        assert (np.asarray(gradients[0]) != 0).any()


def test_a_name_is_that_of_the_catalogue_and_settings_go_through_json_unchanged():
    for name, task in TASKS.items():
        assert catalogue.name_of(task) == name
        assert catalogue.build(catalogue.spell(task)) == task
        if not isinstance(
            task, PolicySearch
        ):  # which bears the name of the task that it searches in
            assert task.name == name


@pytest.mark.parametrize("name", STEP_BASED)
def test_a_step_counts_time_and_cuts_at_the_horizon_what_has_not_ended(name, key):
    env = TASKS[name]
    start = env.reset(jax.random.fold_in(key, 0), env.target.summary().mean)
    step = jax.jit(env.step)
    zero = jnp.zeros(len(env.action_lower))
    first = step(jax.random.fold_in(key, 1), start, zero)
    assert (int(first.time_step), bool(first.truncated)) == (1, False)
    late = start.replace(time_step=jnp.asarray(env.horizon - 1, jnp.int32))
    last = step(jax.random.fold_in(key, 2), late, zero)
    assert (int(last.time_step), bool(last.terminated), bool(last.truncated)) == (
        env.horizon,
        False,
        True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STEP_BASED)
def test_actions_outside_the_bounds_act_like_those_at_the_bounds(name, key):
    env = TASKS[name]
    start = env.reset(jax.random.fold_in(key, 0), env.target.summary().mean)
    step = jax.jit(env.step)
    key_step = jax.random.fold_in(key, 1)
    far = step(key_step, start, 1e3 * jnp.ones(len(env.action_lower)))
    at = step(jax.random.clone(key_step), start, jnp.asarray(env.action_upper))
    jax.tree.map(np.testing.assert_array_equal, far, at)


@pytest.mark.slow
@pytest.mark.parametrize("name", EPISODIC)
def test_the_states_of_a_rollout_end_with_its_outcome(name, key):
    task = TASKS[name]
    contexts = task.initial.sample_many(
        jax.random.fold_in(key, 0), task.context_space, 8
    )
    thetas = 0.3 * jax.random.normal(
        jax.random.fold_in(key, 1), (8, task.parameter_size)
    )
    keys = jax.random.split(jax.random.fold_in(key, 2), 8)
    outcome = jax.jit(jax.vmap(task.rollout))(keys, thetas, contexts)
    states = jax.jit(jax.vmap(task.states))(jax.random.clone(keys), thetas, contexts)
    assert states.time_step.shape == (8, task.horizon + 1)
    rows = np.arange(8), np.asarray(outcome.length)
    np.testing.assert_array_equal(states.success[rows], outcome.success)
    assert (states.terminated | states.truncated)[rows].all()
    ended = np.cumsum(np.asarray(states.terminated | states.truncated), axis=1) > 0
    np.testing.assert_array_equal(ended.argmax(axis=1), outcome.length)
    points = jax.vmap(jax.vmap(task.trace))(states)
    assert points.shape == (8, task.horizon + 1, 2)
    assert np.isfinite(points).all()


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(
        ValueError,
        match=r"^unknown task 'point-mas-3d'; did you mean 'point-mass-3d'\?$",
    ):
        catalogue.make("task", "point-mas-3d")
