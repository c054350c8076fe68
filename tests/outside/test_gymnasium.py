"""A teacher beside Gymnasium environments, asked at every reset and told of every end."""

import importlib

import numpy as np
import pytest

import spjax
from spjax.teachers import Random
from tests.outside.tasks import Notebook
from tests.own_parts import HitTheMark

gymnasium = pytest.importorskip(
    "gymnasium", reason="needs gymnasium, which '.[dev]' brings"
)
TaskEnv = importlib.import_module("spjax.envs.adapters.gymnasium").TaskEnv
TaughtEnv = importlib.import_module("spjax.outside.gymnasium").TaughtEnv

TASK = HitTheMark()


class Told:
    """A teacher that hands contexts out in order and writes down what it is told."""

    def __init__(self):
        self.handed = 0
        self.told = []

    def sample(self, count=1):
        self.handed += count
        return np.full((count, 1), self.handed / 10, np.float32)

    def record(self, contexts, returns, successes):
        self.told.append((contexts[0, 0], returns[0], successes[0]))


def episode(env, action=0.0, **how):
    _, info = env.reset(**how)
    context, rewards, ended = info["context"], [], False
    while not ended:
        _, reward, terminated, truncated, info = env.step(np.float32([action]))
        rewards.append(reward)
        ended = terminated or truncated
    return context, rewards, info


def test_a_context_is_asked_for_at_a_reset_and_its_episode_is_told_discounted():
    teacher = Told()
    env = TaughtEnv(TaskEnv(TASK), teacher, discount=0.5)
    context, rewards, info = episode(env)
    assert context == np.float32(0.1)
    assert info["is_success"] is info["success"] is True
    total = sum(0.5**step * reward for step, reward in enumerate(rewards))
    assert teacher.told == [(np.float32(0.1), pytest.approx(total), True)]
    context, _, info = episode(env, action=1.0)
    assert context == np.float32(0.2)
    assert info["is_success"] is False
    assert teacher.told[1][::2] == (np.float32(0.2), False)


def test_an_episode_in_a_context_of_the_callers_own_is_not_told():
    teacher = Told()
    env = TaughtEnv(TaskEnv(TASK), teacher)
    context, *_ = episode(env, options={"context": [-1.0]})
    assert context == -1
    assert teacher.handed == 0
    assert teacher.told == []


def test_an_episode_that_is_broken_off_is_not_told():
    teacher = Told()
    env = TaughtEnv(TaskEnv(TASK), teacher)
    env.reset()
    env.step(np.zeros(1))
    _, rewards, _ = episode(env)
    assert [one[:2] for one in teacher.told] == [
        (np.float32(0.2), pytest.approx(sum(rewards)))
    ]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_resets_that_gymnasium_makes_by_itself_ask_the_one_teacher_of_all(mode):
    teacher = spjax.NumpyTeacher.for_task(Notebook(), TASK)
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: TaughtEnv(TaskEnv(TASK), teacher)] * 3, autoreset_mode=mode
    )
    first = envs.reset()[1]["context"]
    for _ in range(7):
        _, _, _, _, info = envs.step(np.zeros((3, 1), np.float32))
    assert teacher.recorded == 3
    # after a failure the teacher plays the same context again
    failed = np.abs(first) >= 0.2
    assert failed.any()
    np.testing.assert_array_equal(np.isin(first, info["context"])[failed], True)
    assert teacher.update() == {"episodes": 3, "all_match": True}


class Plain(gymnasium.Env):
    """An environment of somebody else, without contexts in its options."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = observation_space
    mark = 0.0

    def reset(self, *, seed=None, options=None):
        assert not options
        return np.float32([self.mark]), {}

    def step(self, action):
        return np.float32([self.mark]), 1, False, True, {"won": self.mark > 0}


def test_environments_without_such_an_option_get_their_context_from_a_function():
    teacher = spjax.NumpyTeacher.for_task(Random(), TASK)
    env = TaughtEnv(
        Plain(),
        teacher,
        apply=lambda env, context: setattr(env, "mark", float(context[0])),
        success=lambda info: info["won"],
    )
    context, rewards, info = episode(env)
    assert env.unwrapped.mark == context[0]
    assert info["is_success"] == (context[0] > 0)
    assert rewards == [1.0]
    assert teacher.recorded == 1
    episode(env, options={"context": [0.5]})
    assert env.unwrapped.mark == 0.5
    assert teacher.recorded == 1


def test_a_discount_lies_between_zero_and_one():
    for discount in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"discount must lie in \[0, 1\], got"):
            TaughtEnv(TaskEnv(TASK), Told(), discount=discount)
