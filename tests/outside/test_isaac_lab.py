"""The curriculum term for Isaac Lab and mjlab, in an environment that resets as theirs do; tensors are NumPy arrays here."""

import importlib.util
import sys
import types

import numpy as np
import pytest

import spjax
from tests.docs.running import ROOT
from tests.outside.tasks import INITIAL, SPACE, TARGET, Notebook


class Tensor(np.ndarray):
    """What the term does with tensors."""

    def cpu(self):
        return self

    def to(self, device):
        return self

    def numpy(self):
        return np.asarray(self)


class ManagerTermBase:
    """As in both projects."""

    def __init__(self, cfg, env):
        self.cfg, self._env = cfg, env


def tensor(array):
    return np.asarray(array).view(Tensor)


@pytest.fixture
def term_class(monkeypatch):
    torch = types.ModuleType("torch")
    torch.zeros = lambda size, device: tensor(np.zeros(size, np.float32))
    torch.arange = lambda count, device: tensor(np.arange(count))
    torch.from_numpy = tensor
    managers = types.ModuleType("isaaclab.managers")
    managers.ManagerTermBase = ManagerTermBase
    modules = {
        "torch": torch,
        "isaaclab": types.ModuleType("isaaclab"),
        managers.__name__: managers,
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location(
        "term", ROOT / "docs" / "outside" / "isaac_lab.py"
    )
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded.Teach


class World:
    """An environment of four instances, whose manager calls the term first when some are reset."""

    num_envs, device = 4, "cpu"

    def __init__(self, term_class, make_teacher):
        self.episode_length_buf = tensor(np.zeros(4, int))
        sums = {name: tensor(np.zeros(4, np.float32)) for name in ("near", "effort")}
        self.reward_manager = types.SimpleNamespace(_episode_sums=sums)
        time_outs = tensor(np.zeros(4, bool))
        self.termination_manager = types.SimpleNamespace(time_outs=time_outs)
        self.params = {"make_teacher": make_teacher, "num_episodes": 2}
        cfg = types.SimpleNamespace(params=self.params)
        self.term = term_class(cfg=cfg, env=self)

    def run(self, near, effort, time_outs):
        self.episode_length_buf += 1
        self.reward_manager._episode_sums["near"] += np.float32(near)
        self.reward_manager._episode_sums["effort"] += np.float32(effort)
        self.termination_manager.time_outs[:] = time_outs

    def reset(self, env_ids):
        said = self.term(self, env_ids, **self.params)
        for sums in self.reward_manager._episode_sums.values():
            sums[env_ids] = 0
        self.episode_length_buf[env_ids] = 0
        return said


def test_every_reset_tells_what_ended_and_gives_the_next_context(term_class):
    teacher = spjax.NumpyTeacher(Notebook(), SPACE, INITIAL, TARGET)
    world = World(term_class, lambda: teacher)
    assert world.reset(slice(None)) == {}
    first = np.array(world.contexts)
    assert first.shape == (4, 2)
    assert teacher.recorded == 0

    world.run([1, 2, 3, 4], [-0.5] * 4, [False, True, False, False])
    world.run([1, 2, 3, 4], [-0.5] * 4, [False, True, False, False])
    world.reset(tensor([2]))
    assert teacher.recorded == 1
    world.reset(tensor([1, 0]))
    assert teacher.recorded == 0
    state = teacher.state_dict()
    np.testing.assert_array_equal(state["state/context"][:3], first[[2, 1, 0]])
    np.testing.assert_allclose(state["state/episode_return"][:3], [5, 3, 1])
    np.testing.assert_array_equal(state["state/success"][:3], [False, True, False])
    assert state["state/matches"][:3].all()
    np.testing.assert_array_equal(world.contexts[3], first[3])  # still running
    # what failed is played again by whoever is reset next, what did not is new
    np.testing.assert_array_equal(world.contexts[2], first[2])
    assert world.contexts[1].tolist() not in first.tolist()
