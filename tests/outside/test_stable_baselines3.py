"""The callback of Stable-Baselines3: with a stand-in for its protocol, and for real where it is installed."""

import importlib
import importlib.util
import re
import sys
import types

import numpy as np
import pytest

import spjax
from spjax.teachers import Random
from tests.docs.running import ROOT, run_well
from tests.outside.tasks import INITIAL, SELF_PACED, SPACE, TARGET

MODULE = "spjax.outside.stable_baselines3"
EXAMPLES = sorted((ROOT / "docs" / "outside").glob("sb3_*.py"))
INSTALLED = importlib.util.find_spec("stable_baselines3") is not None
needed = pytest.mark.skipif(
    not INSTALLED, reason="needs stable-baselines3: pip install 'spjax[sb3]'"
)


class BaseCallback:
    """What the callback of Stable-Baselines3 does for its heirs, as far as it matters here."""

    def __init__(self, verbose=0):
        self.verbose = verbose
        self.logger = types.SimpleNamespace(record=self._record)
        self.logged = {}

    def _record(self, name, value):
        self.logged[name] = value

    def on_step(self):
        return self._on_step()

    def on_rollout_end(self):
        self._on_rollout_end()


@pytest.fixture
def module(monkeypatch):
    stand_in = types.ModuleType("stable_baselines3.common.callbacks")
    stand_in.BaseCallback = BaseCallback
    for name in ("stable_baselines3", "stable_baselines3.common"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE)
    del sys.modules[MODULE]


def play(teacher, count):
    contexts = teacher.sample(count)
    teacher.record(contexts, np.zeros(count), np.zeros(count, bool))


def test_the_teacher_is_updated_at_the_end_of_a_rollout_with_enough_episodes(module):
    teacher = spjax.NumpyTeacher(Random(), SPACE)
    callback = module.TeacherCallback(teacher, num_episodes=3)
    for count, left in ((2, 2), (0, 2), (1, 0), (5, 0)):
        if count:
            play(teacher, count)
        assert callback.on_step() is True
        callback.on_rollout_end()
        assert teacher.recorded == left
    assert callback.logged == {"teacher/episodes": 5}


@pytest.mark.slow
def test_numbers_are_logged_and_means_under_the_names_of_the_dimensions(module):
    teacher = spjax.NumpyTeacher(SELF_PACED, SPACE, INITIAL, TARGET)
    callback = module.TeacherCallback(teacher)
    play(teacher, 4)
    callback.on_rollout_end()
    logged = callback.logged
    assert {"teacher/kl_to_target", "teacher/alpha", "teacher/context_mean/mass"} <= {
        *logged
    }
    assert "teacher/context_covariance" not in logged
    assert all(type(value) in (int, float) for value in logged.values())


def test_a_number_of_episodes_is_whole_and_at_least_one(module):
    teacher = spjax.NumpyTeacher(Random(), SPACE)
    with pytest.raises(ValueError, match="num_episodes must be a whole number of at"):
        module.TeacherCallback(teacher, num_episodes=0)


def test_without_stable_baselines3_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'spjax\[sb3\]'"):
        importlib.import_module(MODULE)


@needed
def test_the_stand_in_has_what_the_real_callback_has():
    real = importlib.import_module("stable_baselines3.common.callbacks").BaseCallback
    for name in ("on_step", "on_rollout_end", "logger", "_on_rollout_end"):
        assert hasattr(real, name)


@pytest.mark.slow
@needed
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_trains_and_its_teacher_learns(path, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    steps = {"sb3_ppo": 2048, "sb3_sac": 300}[path.stem]
    script = f"import sys; sys.argv = ['x', '{steps}']\n" + path.read_text()
    script = script.replace("num_episodes=10", "num_episodes=1")
    said = run_well(tmp_path, script)
    assert re.search(r"teacher/ +\|", said), said


def test_an_example_is_about_thirty_lines_long():
    assert len(EXAMPLES) == 2
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) <= 33
