"""Memory of a sweep, known before compiling: counted in the traced program, and what is left of the machine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.training import footprint
from spjax.training.footprint import (
    Footprint,
    Plan,
    alive,
    check_at_once,
    plan_on_cpu,
    plan_on_devices,
)

KB = 1024


def traced(function, *arguments):
    return jax.jit(function).trace(*arguments).jaxpr.jaxpr


def test_what_is_alive_at_one_time_is_counted_and_what_is_dead_is_not():
    x = jnp.zeros(KB // 4)  # 1 KiB

    def chain(x):  # never more than two at a time
        for _ in range(5):
            x = x + 1.0
        return x

    def fan(x):  # five and the sum of two
        several = [x + float(i) for i in range(5)]
        return sum(several[1:], several[0])

    assert alive(traced(chain, x)) == 2 * KB
    assert alive(traced(fan, x)) == 6 * KB


def test_what_a_scan_collects_is_counted_in_full():
    def rollout(x):
        return jax.lax.scan(lambda carry, _: (carry, 2.0 * carry), x, None, length=100)

    counted = alive(traced(rollout, jnp.zeros(KB // 4)))
    assert 101 * KB <= counted <= 103 * KB


LANE = Footprint(state=500_000, results=0, working=0)  # 1 MB, and the copy to save


def test_a_sweep_that_fits_is_worked_on_at_once():
    found = plan_on_cpu(LANE, 10**9, 20, None)
    assert (found.at_once, found.resident, found.why) == (20, True, None)


def test_a_large_sweep_goes_in_blocks_and_stays_in_memory_where_it_fits():
    found = plan_on_cpu(LANE, 2 * 10**10, 10_000, None)
    assert (found.at_once, found.resident) == (footprint.MOST_AT_ONCE, True)
    assert found.why == (
        "10000 runs in 40 blocks of 256, so that results are saved and shown as they come"
    )


def test_blocks_are_as_small_as_memory_asks():
    free = int((footprint.REMAINS + 100 * 10**6 + 10**5) / footprint.SHARE)
    found = plan_on_cpu(LANE, free, 10_000, None)
    assert (found.at_once, found.resident) == (100, False)
    assert found.why == (
        "10000 runs in 100 blocks of 100, since more do not fit into memory; a block takes 100 MB of it"
    )
    assert plan_on_cpu(LANE, 10**6, 10_000, None).at_once == 1


def test_memory_grows_with_the_lanes_alone():
    small, large = (
        plan_on_cpu(LANE, 2 * 10**10, lanes, None).memory for lanes in (512, 1024)
    )
    assert large - small == pytest.approx(512 * 500_000, rel=0.1)


def test_what_the_user_wants_is_done():
    found = plan_on_cpu(LANE, 10**10, 10_000, 64)
    assert found.at_once == 64
    assert found.why == "10000 runs in 157 blocks of 64, as you asked"
    assert "may not fit" in plan_on_cpu(LANE, 10**9, 10_000, 5000).why
    assert found.after_lack(64) == Plan(32, False, found.memory, found.why)


def test_accelerators_share_a_block():
    lane = Footprint(state=10**6, results=0, working=8 * 10**6)
    one, four = (plan_on_devices(lane, 10**9, 500, None, n) for n in (1, 4))
    assert (one.at_once, four.at_once) == (70, 280)
    assert one.memory == four.memory == 70 * 10**7


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "many", True])
def test_a_number_at_once_that_is_none_is_one_sentence(wrong):
    with pytest.raises(
        ValueError, match=r"^lanes_at_once must be a whole number .*got"
    ):
        check_at_once(wrong)


def test_a_container_leaves_what_its_limit_says(tmp_path):
    assert footprint._container(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert footprint._container(tmp_path) is None
    (tmp_path / "memory.max").write_text("900\n")
    assert footprint._container(tmp_path) == 800


def test_bytes_of_keys_and_numbers():
    tree = [jax.random.key(1), np.zeros((2, 3), np.float32), np.int32(1)]
    assert footprint._bytes(tree) == 8 + 24 + 4
    assert [footprint.amount(size) for size in (640 * 10**6, 321 * 10**7)] == [
        "640 MB",
        "3.2 GB",
    ]
