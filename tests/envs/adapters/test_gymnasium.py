"""Tasks as Gymnasium environments: its own checks, its three ways to start anew, and what is refused."""

import dataclasses
import importlib
import sys
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax.contexts import Gaussian
from spjax.envs.point_mass import PointMass
from tests.own_parts import HitTheMark
from tests.probe import ConstantReward

gymnasium = pytest.importorskip(
    "gymnasium", reason="needs gymnasium, which '.[dev]' brings"
)

check_env = importlib.import_module("gymnasium.utils.env_checker").check_env
adapter = importlib.import_module("spjax.envs.adapters.gymnasium")
TaskEnv, TaskVectorEnv = adapter.TaskEnv, adapter.TaskVectorEnv
AutoresetMode = gymnasium.vector.AutoresetMode
ResetNeeded = gymnasium.error.ResetNeeded

TASK = HitTheMark()
COUNT = 3
MODES = list(AutoresetMode)


@struct.dataclass
class Breaks(ConstantReward):
    """Its physics fail in the third step."""

    horizon = 10

    def dynamics(self, key, state, action):
        after = super().dynamics(key, state, action)
        fails = after.observation[1] >= 3
        nan = jnp.full_like(after.observation, jnp.nan)
        return dataclasses.replace(
            after, observation=jnp.where(fails, nan, after.observation)
        )

    def terminates(self, time_step):
        return jnp.asarray(False)


@struct.dataclass
class Staggered(HitTheMark):
    """Ends where it is near the mark, so that instances end at different times."""

    def dynamics(self, key, state, action):
        after = super().dynamics(key, state, action)
        return dataclasses.replace(after, terminated=after.success)


@pytest.fixture(scope="module")
def env():
    return TaskEnv(TASK)


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, PointMass(dimensions=2)])
def test_gymnasium_finds_nothing_to_complain_about(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*(infinity|-inf|symmetric).*")
        check_env(TaskEnv(task), skip_render_check=True)


def test_an_episode_runs_in_the_context_of_the_options_to_the_horizon(env):
    observation, info = env.reset(seed=1, options={"context": [0.5]})
    np.testing.assert_allclose(observation, [0.0, 0.5])
    np.testing.assert_allclose(info["context"], [0.5])
    for step in range(1, 6):
        observation, reward, terminated, truncated, info = env.step(np.float32([0.2]))
        place = 0.1 * step
        np.testing.assert_allclose(observation, [place, 0.5], rtol=1e-5)
        assert reward == pytest.approx(np.exp(-abs(place - 0.5)), rel=1e-5)
        assert info["success"] is (abs(place - 0.5) < 0.2)
        assert (terminated, truncated) == (False, step == 5)
    with pytest.raises(ResetNeeded, match="no episode is running"):
        env.step(np.float32([0.2]))


def test_actions_are_clipped_to_their_bounds(env):
    env.reset(options={"context": [0.5]})
    assert env.step(np.float32([7.0]))[0][0] == pytest.approx(0.5)


def test_a_seed_makes_an_episode_its_context_included_and_no_seed_goes_on(env):
    def episodes(*seeds):
        found = []
        for seed in seeds:
            _, info = env.reset(seed=seed)
            found.append(info["context"][0])
        return found

    first = episodes(3, None, None)
    assert first == episodes(3, None, None)
    assert len({*first, *episodes(4)}) == 4


def test_noise_is_of_the_seed():
    env = TaskEnv(PointMass(dimensions=2))

    def last(seed):
        env.reset(seed=seed, options={"context": [0.0, 8.0]})
        for _ in range(3):
            observation, *_ = env.step(np.zeros(2, np.float32))
        return observation

    np.testing.assert_array_equal(last(1), last(1))
    assert (last(1) != last(2))[:4].all()


def test_contexts_come_from_the_target_or_from_the_source_that_is_given():
    def contexts(env):
        return np.array([env.reset(seed=i)[1]["context"][0] for i in range(40)])

    assert contexts(TaskEnv(TASK)).mean() == pytest.approx(1.5, abs=0.06)
    away = TaskEnv(TASK, contexts=Gaussian.from_std((-1.0,), (0.1,)))
    assert contexts(away).mean() == pytest.approx(-1.0, abs=0.06)
    numbers = iter(range(40))
    called = TaskEnv(TASK, contexts=lambda count: [[next(numbers) / 40]] * count)
    np.testing.assert_allclose(contexts(called), np.arange(40) / 40)


def test_what_a_step_gave_is_the_callers_own(env):
    observation, info = env.reset(seed=0)
    kept, context = observation.copy(), info["context"].copy()
    env.step(np.float32([1.0]))
    np.testing.assert_array_equal(observation, kept)
    observation[:] = 7.0
    info["context"][:] = 7.0
    after, *_, info = env.step(np.float32([0.0]))
    assert after[0] == pytest.approx(0.5)
    np.testing.assert_array_equal(info["context"], context)


def test_physics_that_fail_end_the_episode_and_nothing_is_infinite():
    env = TaskEnv(Breaks())
    env.reset(seed=0)
    for _ in range(3):
        observation, reward, terminated, truncated, info = env.step(np.zeros(1))
    assert np.isfinite(observation).all()
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["success"] is False


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_many_side_by_side_do_what_gymnasium_makes_of_single_ones(mode):
    task = Staggered()
    many = TaskVectorEnv(task, COUNT, autoreset_mode=mode)
    each = gymnasium.vector.SyncVectorEnv(
        [lambda: TaskEnv(task)] * COUNT, autoreset_mode=mode
    )
    assert many.metadata["autoreset_mode"] is mode
    for space in ("observation_space", "action_space", "single_action_space"):
        assert getattr(many, space) == getattr(each, space)
    assert_same(many.reset(seed=5), each.reset(seed=5))
    rng, ends = np.random.default_rng(0), 0
    for _ in range(25):
        actions = rng.uniform(-1, 1, (COUNT, 1)).astype(np.float32)
        ours, theirs = many.step(actions), each.step(actions)
        assert_same(ours, theirs)
        ended = ours[2] | ours[3]
        ends += ended.sum()
        if mode is AutoresetMode.DISABLED and ended.any():
            assert_same(
                many.reset(options={"reset_mask": ended}),
                each.reset(options={"reset_mask": ended.copy()}),
            )
    assert ends > 2 * COUNT


def assert_same(ours, theirs):
    """Compares what step or reset gave, info included."""
    for one, other in zip(ours[:-1], theirs[:-1], strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert_same_info(ours[-1], theirs[-1])


def assert_same_info(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, one in ours.items():
        other = theirs[name]
        if isinstance(one, dict):
            assert_same_info(one, other)
        elif one.dtype == object:
            assert [x is None for x in one] == [x is None for x in other]
            for x, y in zip(one, other, strict=True):
                if x is not None:
                    np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)


def test_the_next_step_after_an_end_starts_anew_with_reward_zero_whatever_the_action():
    many = TaskVectorEnv(TASK, 2, contexts=lambda count: np.full((count, 1), -1.0))
    many.reset(options={"contexts": [[0.0], [1.0]]})
    many.step(np.zeros((2, 1)))
    many.reset(options={"reset_mask": np.array([False, True])})
    for _ in range(4):
        *_, truncated, info = many.step(np.zeros((2, 1)))
    np.testing.assert_array_equal(truncated, [True, False])
    action = np.float32([[np.nan], [1.0]])
    observations, rewards, terminated, truncated, info = many.step(action)
    np.testing.assert_allclose(observations[0], [0.0, -1.0])
    assert rewards[0] == 0
    np.testing.assert_array_equal(truncated, [False, True])
    assert not terminated.any()
    np.testing.assert_array_equal(info["_success"], [False, True])
    np.testing.assert_allclose(info["context"][:, 0], [-1.0, -1.0])


def test_the_same_step_returns_the_next_episode_and_keeps_the_last_one_in_info():
    many = TaskVectorEnv(TASK, 2, autoreset_mode="SameStep")
    many.reset(seed=0, options={"context": [0.5]})
    for _ in range(5):
        observations, rewards, _, truncated, info = many.step(np.full((2, 1), 0.2))
    assert truncated.all()
    np.testing.assert_allclose(rewards, 1.0, rtol=1e-5)
    np.testing.assert_array_equal(observations[:, 0], 0.0)
    np.testing.assert_allclose(np.stack(info["final_obs"])[:, 0], 0.5, rtol=1e-5)
    assert info["final_info"]["success"].all()
    np.testing.assert_allclose(info["final_info"]["context"], 0.5)
    assert "success" not in info
    assert not many.step(np.zeros((2, 1)))[3].any()


def test_where_nothing_starts_anew_by_itself_the_caller_must():
    many = TaskVectorEnv(TASK, 2, autoreset_mode=AutoresetMode.DISABLED)
    many.reset(seed=0)
    for _ in range(5):
        many.step(np.zeros((2, 1)))
    with pytest.raises(ResetNeeded, match=r"the episodes of \[0, 1\] have ended"):
        many.step(np.zeros((2, 1)))
    many.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match=r"the episodes of \[1\] have ended"):
        many.step(np.zeros((2, 1)))
    mask = np.array([False, True])
    options = {"reset_mask": mask, "contexts": np.array([[np.nan], [0.7]])}
    observations, info = many.reset(options=options)
    assert set(options) == {"reset_mask", "contexts"}
    assert observations[1, 1] == pytest.approx(0.7)
    np.testing.assert_array_equal(info["_context"], mask)
    many.step(np.zeros((2, 1)))


def test_seeds_are_one_to_count_on_from_or_one_for_each():
    many = TaskVectorEnv(TASK, 3)
    one = many.reset(seed=4)[0]
    np.testing.assert_array_equal(one, many.reset(seed=[4, 5, 6])[0])
    assert (one != many.reset()[0])[:, 1].all()


BAD_OPTIONS = [
    ({"context": [3.0]}, r"context: mark = 3 lies outside its bounds \[-2, 2\] m"),
    ({"context": [np.nan]}, "context: mark = nan lies outside"),
    ({"context": [1.0, 1.0]}, r"context needs 1 values \(mark\), got 2"),
    ({"context": 1.0}, r"context must have shape \(1,\), got \(\)"),
    ({"task": [1.0]}, "unknown option 'task' of reset, known: context"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD_OPTIONS)
def test_options_that_say_nothing_right_are_one_sentence(env, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        env.reset(options=options)


BAD_VECTOR_OPTIONS = [
    ({"contexts": [[0.0]]}, r"contexts must have shape \(2, 1\), got \(1, 1\)"),
    ({"contexts": [[0.0], [9.0]]}, r"contexts\[1\]: mark = 9 lies outside"),
    ({"contexts": [[0.0], [np.inf]]}, r"contexts\[1\]: mark = inf lies outside"),
    ({"contexts": [[0.0]] * 2, "context": [0.0]}, "give either context"),
    ({"reset_mask": np.ones(3, bool)}, "reset_mask must be 2 truth values"),
    ({"reset_mask": np.ones(2)}, "reset_mask must be 2 truth values"),
    ({"reset_mask": np.zeros(2, bool)}, "at least one True"),
    ({"mask": np.ones(2, bool)}, "unknown option 'mask'"),
]


@pytest.fixture(scope="module")
def two():
    return TaskVectorEnv(TASK, 2)


@pytest.mark.parametrize(("options", "sentence"), BAD_VECTOR_OPTIONS)
def test_options_of_many_that_say_nothing_right_are_one_sentence(
    two, options, sentence
):
    with pytest.raises(ValueError, match=sentence):
        two.reset(options=options)


def test_what_else_is_refused(env, two):
    with pytest.raises(ResetNeeded):
        TaskVectorEnv(TASK, 2).step(np.zeros((2, 1)))
    with pytest.raises(ResetNeeded, match="reset all instances once"):
        TaskVectorEnv(TASK, 2).reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded):
        TaskEnv(TASK).step(np.zeros(1))
    with pytest.raises(ValueError, match=r"seed must be one number or 2 .* got 3"):
        two.reset(seed=[1, 2, 3])
    two.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions must have shape \(2, 1\), got"):
        two.step(np.zeros((1, 1)))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must be finite, got"):
        env.step(np.float32([np.nan]))
    with pytest.raises(ValueError, match="num_envs must be a whole number of at least"):
        TaskVectorEnv(TASK, 0)
    with pytest.raises(ValueError, match="is not a valid AutoresetMode"):
        TaskVectorEnv(TASK, 2, autoreset_mode="Sometimes")
    with pytest.raises(ValueError, match=r"must give shape \(2, 1\), got \(1, 1\)"):
        TaskVectorEnv(TASK, 2, contexts=lambda count: [[0.0]]).reset()
    with pytest.raises(ValueError, match="context 0 of the source: mark = 5 lies"):
        TaskEnv(TASK, contexts=lambda count: [[5.0]]).reset()


def test_the_spaces_are_those_of_the_task(env):
    assert env.observation_space.shape == (TASK.observation_size,)
    np.testing.assert_array_equal(env.action_space.low, TASK.action_lower)
    np.testing.assert_array_equal(env.action_space.high, TASK.action_upper)


@pytest.mark.parametrize(
    "module", ["spjax.envs.adapters.gymnasium", "spjax.outside.gymnasium"]
)
def test_without_gymnasium_one_sentence_says_how_to_get_it(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'spjax\[gymnasium\]'"):
        importlib.import_module(module)
