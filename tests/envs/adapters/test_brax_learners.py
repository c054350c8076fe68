"""Brax's own PPO and SAC train with a teacher in their programs."""

import functools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax.training.agents.ppo import networks as ppo_networks
from brax.training.agents.ppo import train as ppo
from brax.training.agents.sac import networks as sac_networks
from brax.training.agents.sac import train as sac

from spjax.envs.adapters.brax import BraxTask, mend, wrap
from spjax.envs.adapters.brax.learners import replicated
from spjax.promotion import lenient
from tests.envs.adapters.walk import Counting, Walk

TASK = Walk()
SLOTS, STEPS, EVERY = 4, 10, 5
SHARED = {
    "episode_length": TASK.horizon,
    "num_timesteps": SLOTS * STEPS,
    "num_envs": SLOTS,
    "num_evals": 2,
    "num_eval_envs": 8,
    "max_devices_per_host": 1,
}
LEARNERS = {
    "ppo": functools.partial(
        ppo.train,
        unroll_length=5,
        batch_size=SLOTS,
        num_minibatches=1,
        num_updates_per_batch=1,
        normalize_observations=True,
        network_factory=functools.partial(
            ppo_networks.make_ppo_networks,
            policy_hidden_layer_sizes=(4,),
            value_hidden_layer_sizes=(4,),
        ),
    ),
    "sac": functools.partial(
        sac.train,
        min_replay_size=8,
        batch_size=8,
        max_replay_size=64,
        network_factory=functools.partial(
            sac_networks.make_sac_networks, hidden_layer_sizes=(4,)
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_it_trains_and_the_teacher_learns_in_its_program(name):
    reports, progress = [], []
    with lenient():
        _, params, _ = LEARNERS[name](
            environment=BraxTask(TASK),
            eval_env=BraxTask(TASK, contexts=TASK.target),
            wrap_env_fn=wrap(Counting(), EVERY, report=reports.append),
            progress_fn=lambda steps, metrics: progress.append((steps, metrics)),
            **SHARED,
        )
    jax.effects_barrier()
    assert len(reports) == STEPS // EVERY
    # an episode of 4 steps at most ends in every 5 of each slot
    assert all(report.episodes >= SLOTS for report in reports)
    assert [steps for steps, _ in progress] == [0, SLOTS * STEPS]
    for _, metrics in progress:
        assert 1 <= metrics["eval/avg_episode_length"] <= TASK.horizon
        assert 0 <= metrics["eval/episode_success"] <= 1
        assert np.isfinite(metrics["eval/episode_discounted_return"])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


def test_jax_stays_as_it_is_and_what_it_lacks_is_in_braxs_own_modules():
    mend()
    assert not hasattr(jax, "device_put_replicated")
    for module in (ppo, sac, sys.modules["brax.training.pmap"]):
        assert module.jax.device_put_replicated is replicated
        assert module.jax.numpy is jnp
        assert module.jax.Array is jax.Array
    once = ppo.jax
    mend()
    assert ppo.jax is once


def test_nothing_is_mended_where_jax_lacks_nothing(monkeypatch):
    untouched = types.ModuleType("brax.training.pmap")
    untouched.jax = jax
    monkeypatch.setitem(sys.modules, "brax.training.pmap", untouched)
    monkeypatch.setattr(jax, "device_put_replicated", replicated, raising=False)
    mend()
    assert untouched.jax is jax


def test_a_copy_of_every_leaf_lies_on_every_device():
    devices = jax.local_devices()
    tree = replicated({"a": jnp.arange(3), "b": 1.5}, devices)
    np.testing.assert_array_equal(tree["a"], [[0, 1, 2]] * len(devices))
    np.testing.assert_array_equal(tree["b"], [1.5] * len(devices))
    for leaf in tree.values():
        shards = leaf.addressable_shards
        assert [shard.device for shard in shards] == devices
        assert all(shard.data.shape[0] == 1 for shard in shards)
