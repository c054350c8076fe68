"""What iterations cut: shares of episodes and slots, counted by hand and against the rollout's own records."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest
from flax import struct

import spjax
from spjax import catalogue
from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.training.borders import borders
from tests.probe import Probe
from tests.training.conftest import tiny


@struct.dataclass
class FiveSteps(Probe):
    """Ends after five steps."""

    horizon = 5


def act(key, observation):
    return jnp.zeros(1), ()


def iterations(env, key, num_steps, count, num_envs=2):
    """Yields the slots before and after each iteration, and its episodes; contexts say in which iteration they were drawn."""

    def drawn_in(number):
        return lambda key, last: (jnp.full((1,), number / 100), ())

    slots = init_slots(env, jax.random.fold_in(key, 0), num_envs, drawn_in(0), ())
    for number in range(1, count + 1):
        before, keys = slots, jax.random.fold_in(key, number)
        slots, _, episodes, _ = rollout(
            env, keys, before, act, drawn_in(number), num_steps, 0.9
        )
        yield before, slots, episodes


def numbers(found):
    """Returns the three shares; None where there is none."""
    maybe = [
        float(share.value) if share.present else None
        for share in (found.crossed_fraction, found.stale_fraction)
    ]
    return [*maybe, float(found.cut_fraction)]


@pytest.mark.parametrize(
    ("num_steps", "expected"),
    [
        # steps 1-7, 8-14, ...: an episode ends at 5, 10, 15, ...
        (7, [[0, 1, 1], [1, 1, 1], [0.5, 0.5, 1]]),
        # an episode that begins with the iteration is not cut, but its context is from before
        (5, [[0, 1, 0], [0, 1, 0]]),
        (10, [[0, 0.5, 0], [0, 0.5, 0]]),
        # longer than an iteration: nothing ends, then what began two iterations ago
        (2, [[None, None, 1], [None, None, 1], [1, 1, 1], [None, None, 1], [1, 1, 0]]),
    ],
)
def test_shares_are_those_counted_on_the_fingers(num_steps, expected, key):
    found = [
        numbers(borders(before, after, num_steps, episodes.mask.sum()))
        for before, after, episodes in iterations(
            FiveSteps(), key, num_steps, len(expected)
        )
    ]
    assert found == expected


@pytest.mark.slow
@struct.dataclass
class EndsByChance(Probe):
    """Ends after a random number of steps, nine at most."""

    horizon = 9

    def dynamics(self, key, state, action):
        after = super().dynamics(key, state, action)
        return after.replace(terminated=jax.random.bernoulli(key, 0.2))


@pytest.mark.slow
def test_shares_are_those_of_the_records_where_slots_end_at_different_times(key):
    """An episode of L steps that ended at step t of the iteration began before it if L > t."""
    num_crossed, num_stale = 0, 0
    for number, (before, after, episodes) in enumerate(
        iterations(EndsByChance(), key, 6, 8, num_envs=20), start=1
    ):
        ended = np.asarray(episodes.mask)
        step = np.repeat(np.arange(1, 7), 20)[ended]
        crossed = np.asarray(episodes.length)[ended] > step
        drawn_in = np.asarray(episodes.context)[ended, 0].round(2) * 100
        stale = drawn_in < number - 0.5
        cut = (np.asarray(after.env_state.time_step) > 0).mean()

        found = numbers(borders(before, after, 6, episodes.mask.sum()))
        expected = [crossed.mean(), stale.mean(), cut]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        num_crossed, num_stale = num_crossed + crossed.sum(), num_stale + stale.sum()
    assert num_stale > num_crossed > 10


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_every_step_based_run_says_what_its_borders_cut(agent, tmp_path):
    """Slots of 64 steps and episodes of at most 100: what ends has mostly begun before."""
    small = {
        "ppo": tiny().agent,
        "sac": catalogue.make(
            "agent",
            "sac",
            num_envs=4,
            num_steps=64,
            hidden=(8,),
            batch_size=8,
            replay_size=400,
            learning_starts=1000,
        ),
    }
    config = dataclasses.replace(
        tiny(seeds=(1,), num_iterations=4),
        agent=small[agent],
        teacher=catalogue.make("teacher", "default"),
    )
    folder = spjax.train(config, tmp_path / "run", progress=False)
    rows = pq.read_table(folder / "metrics").to_pylist()
    for row in rows:
        shares = [row[f"borders.{name}_fraction"] for name in ("crossed", "stale")]
        if row["episodes"] == 0:
            assert shares == [None, None]
            continue
        begun = round(shares[0] * row["episodes"])
        assert 0 <= begun <= min(4, row["episodes"])
        assert shares[0] <= shares[1] <= 1
    assert {row["borders.cut_fraction"] for row in rows} <= {0.0, 0.25, 0.5, 0.75, 1.0}


def test_whole_rollouts_have_no_borders():
    config = spjax.preset("gate-global", "sprl")
    experiment = config.experiment(config.lanes()[0])
    assert experiment.collector.borders(None, None, jnp.zeros((), jnp.int32)) is None
