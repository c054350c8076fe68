"""A costly reset runs in the slots that have finished, and gives what a reset of all slots gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.envs.resets import renewed
from tests.probe import MatchContext

COUNT = 37  # not a multiple of how many are reset at a time
PATTERNS = {
    "none": np.zeros(COUNT, bool),
    "all": np.ones(COUNT, bool),
    "the last": np.arange(COUNT) == COUNT - 1,
    "every third": np.arange(COUNT) % 3 == 0,
}


def start(given):
    key, number = given
    return {"drawn": jax.random.normal(key, (2,)), "number": 2 * number}


@pytest.fixture
def given(key):
    return jax.random.split(key, COUNT), jnp.arange(COUNT)


@pytest.mark.parametrize("ended", PATTERNS.values(), ids=PATTERNS)
def test_the_slots_that_ended_are_those_of_a_reset_of_all_and_the_others_stay(
    ended, given
):
    slots = {
        "drawn": jnp.full((COUNT, 2), 7.0),
        "number": jnp.full(COUNT, -1, jnp.int32),
    }
    run = jax.jit(lambda given: renewed(start, given, jnp.asarray(ended), slots, True))
    found = run(given)
    wanted = renewed(
        start, jax.tree.map(jax.random.clone, given), jnp.asarray(ended), slots, False
    )
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
    np.testing.assert_array_equal(
        found["number"], np.where(ended, 2 * np.arange(COUNT), -1)
    )
    assert (np.asarray(found["drawn"] != 7.0).all(axis=1) == ended).all()


@pytest.mark.parametrize(("ended", "rows"), [(0, 0), (1, 3), (3, 3), (4, 6), (37, 39)])
def test_no_more_slots_are_reset_than_a_few_at_a_time_need(ended, rows, given):
    seen = []

    def counted(given):
        jax.debug.callback(lambda number: seen.append(number), given[1])
        return start(given)

    slots = jax.tree.map(jnp.zeros_like, jax.vmap(start)(given))
    mask = jnp.arange(COUNT) < ended
    again = jax.tree.map(jax.random.clone, given)
    run = jax.jit(lambda given: renewed(counted, given, mask, slots, True))
    jax.block_until_ready(run(again))
    jax.effects_barrier()
    assert len(seen) == rows


@struct.dataclass
class Costly(MatchContext):
    """The same task, said to be costly."""

    costly_reset = True


def test_a_rollout_is_the_same_but_for_rounding_whether_a_reset_is_costly_or_not(key):
    def act(key, observation):
        return jax.random.normal(key, (1,)), ()

    def played(env):
        def assign(key, last):
            return env.initial.sample(key, env.context_space), ()

        key_slots, key_rollout = jax.random.split(jax.random.clone(key))
        slots = init_slots(env, key_slots, 20, assign, ())
        return rollout(env, key_rollout, slots, act, assign, 6, 0.9)

    cheap, costly = jax.jit(played, static_argnums=0), jax.jit(played, static_argnums=0)
    found, wanted = costly(Costly()), cheap(MatchContext())
    jax.tree.map(
        lambda left, right: np.testing.assert_allclose(
            left, right, rtol=1e-4, atol=1e-6
        ),
        found,
        wanted,
    )
    _, transitions, episodes, _ = found
    assert transitions.terminated.all()
    assert len(np.unique(episodes.context)) > 100  # of 120, but those at the bounds
