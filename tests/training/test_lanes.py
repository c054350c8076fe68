"""Both layouts run a function of one lane on all lanes; on CPU it is compiled for one lane, whatever their number."""

import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.training.lanes import Calls, Vmapped

LAYOUTS = pytest.mark.parametrize("layout", [Calls, Vmapped])


def scaled_sum(lane, factor, shared):
    return {
        "sum": factor * lane["values"].sum() + shared,
        "largest": lane["values"].max(),
    }


@LAYOUTS
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_lane_gets_what_the_function_returns_for_it(layout, count):
    placed = layout(count)
    host = {"values": np.arange(3.0 * count, dtype=np.float32).reshape(count, 3)}
    lanes, factors = (
        placed.to_devices(host),
        placed.to_devices(np.arange(count, dtype=np.float32)),
    )
    np.testing.assert_array_equal(placed.to_host(lanes)["values"], host["values"])
    after = placed.compile(scaled_sum, (lanes, factors), jnp.float32(0))(
        lanes, factors, jnp.float32(7)
    )
    np.testing.assert_array_equal(
        placed.to_host(after)["sum"], np.arange(count) * host["values"].sum(axis=1) + 7
    )
    largest = placed.part(after, lambda lane: lane["largest"])
    np.testing.assert_array_equal(placed.to_host(largest), host["values"].max(axis=1))


@LAYOUTS
def test_shapes_compile_what_arrays_do(layout):
    placed = layout(3)
    lanes = placed.to_devices(np.ones((3, 2), np.float32))
    shapes = placed.abstract(jax.ShapeDtypeStruct((2,), jnp.float32))
    np.testing.assert_array_equal(
        placed.to_host(placed.compile(jnp.sum, (shapes,))(lanes)), [2, 2, 2]
    )


def test_on_cpu_one_lane_is_compiled_whatever_their_number():
    shapes = []

    def function(lane):
        shapes.append(lane.shape)
        return lane + 1

    for count in (1, 2, 5):
        lanes = Calls(count).to_devices(np.zeros((count, 4), np.float32))
        Calls(count).compile(function, (lanes,))(lanes)
    assert shapes == [(4,)]


@pytest.fixture
def ctrl_c():
    """SIGINT raises KeyboardInterrupt, also where the suite runs in the background of a shell, which ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_nobody_waits_for_a_lane_after_ctrl_c():
    running, release, done = threading.Event(), threading.Event(), threading.Event()

    def wait(value):
        running.set()
        release.wait(30)
        done.set()
        return value

    def function(lane):
        return jax.pure_callback(wait, jax.ShapeDtypeStruct((), jnp.float32), lane)

    lanes = Calls(2).to_devices(np.zeros(2, np.float32))
    call = Calls(2).compile(function, (lanes,))
    this = threading.get_ident()
    threading.Thread(
        target=lambda: running.wait() and signal.pthread_kill(this, signal.SIGINT)
    ).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call(lanes)
        assert not done.is_set()
    finally:
        release.set()


def test_what_a_lane_raises_ends_the_call():
    def fail(value):
        raise OSError("no such lane")

    def function(lane):
        return jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), lane)

    lanes = Calls(2).to_devices(np.zeros(2, np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such lane"):
        Calls(2).compile(function, (lanes,))(lanes)


def test_a_program_with_room_for_more_lanes_serves_fewer():
    full, fewer = Vmapped(4), Vmapped(3, room=4)
    assert full.batch == fewer.batch == 4
    call = full.compile(
        jnp.sum, (full.abstract(jax.ShapeDtypeStruct((2,), jnp.float32)),)
    )
    lanes = fewer.to_devices(np.arange(6, dtype=np.float32).reshape(3, 2))
    np.testing.assert_array_equal(fewer.to_host(call(lanes)), [1, 5, 9])


def test_each_lane_is_told_of_when_it_is_through():
    lanes = Calls(5).to_devices(np.zeros(5, np.float32))
    told = []
    call = Calls(1).compile(jnp.cos, (lanes,))  # compiled for whatever number
    call(lanes, finished=lambda: told.append(1))
    assert len(told) == 5
