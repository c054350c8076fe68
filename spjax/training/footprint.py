"""How much memory a sweep takes, known before anything compiles, and how many lanes are worked on at once.

The estimate counts the lanes' states, what they write in a chunk, and what a lane needs while it computes: the most that is alive
at one time in the traced program, which holds the rollout. The program's own constant comes on top: what the process holds when
the estimate is made, and what compiling adds to that.
"""

import dataclasses
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.core import Jaxpr, Literal

from spjax.cores import num_cores
from spjax.training.lanes import Calls
from spjax.training.program import Program

SHARE = 0.7  # of the free memory that a sweep may take
MOST_AT_ONCE = 256  # lanes of a block on CPU: enough for every core, and soon through
MOST_ON_DEVICE = (
    1024  # lanes of a block on one accelerator, which more do not fill better
)
COMPILING = 300 * 2**20  # bytes that a compiler leaves behind
PER_ARRAY = 1200  # bytes around the numbers of an array on CPU
MARGIN = 1.4  # what the compiler needs of what is alive in the traced program


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Of one lane, in bytes."""

    state: int  # between iterations
    results: int  # of a chunk
    working: int  # while it computes, beside both

    @classmethod
    def of(cls, program: Program, length: int) -> "Footprint":
        """Returns that of a program of one lane, for chunks of `length` iterations."""
        traced = program.trace(length)
        state, *results = traced.out_info
        around = PER_ARRAY if isinstance(program.layout, Calls) else 0
        return cls(
            _bytes(state) + around * len(jax.tree.leaves(state)),
            _bytes(results) + around * len(jax.tree.leaves(results)),
            int(MARGIN * alive(traced.jaxpr.jaxpr)),
        )

    def on_cpu(self, num_kept: int, at_once: int) -> int:
        """Returns what a sweep adds to the process: so many lanes kept in memory, so many of them in a block."""
        saved = at_once * (self.state + self.results)  # as arrays on the host
        kept = max(num_kept, at_once) * self.state + at_once * self.results
        return kept + saved + min(num_cores(), at_once) * self.working

    def on_device(self, at_once: int) -> int:
        """Returns what a block takes of the memory of an accelerator."""
        return at_once * (2 * self.state + self.results + self.working)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many lanes are worked on at once, and whether the others stay in memory meanwhile."""

    at_once: int
    resident: bool
    memory: int  # bytes at the peak, of the process or of one accelerator
    why: str | None = None  # one sentence, where the sweep is split

    def after_lack(self, block: int) -> "Plan":
        """Returns the plan when memory ran out under this one, with a block of so many."""
        return dataclasses.replace(self, at_once=max(1, block // 2), resident=False)


def check_at_once(at_once: object) -> None:
    """Checks how many lanes a user wants at once.

    Raises:
        ValueError: it is no count.
    """
    if at_once is None:
        return
    if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
        raise ValueError(
            f"lanes_at_once must be a whole number of at least 1, got {at_once!r}"
        )


def plan(program: Program, length: int, num_lanes: int, at_once: int | None) -> Plan:
    """Returns how a sweep is worked on.

    Args:
        program: of one of its lanes.
        length: iterations of a chunk.
        num_lanes: how many there are.
        at_once: what the user wants; None for what fits.
    """
    footprint = Footprint.of(program, length)
    free = free_memory()
    if not isinstance(program.layout, Calls):
        return _on_device(footprint, num_lanes, at_once, free)
    held = held_memory() + COMPILING
    room = int(SHARE * free) - COMPILING
    fits = max(1, (room // (footprint.on_cpu(1, 1)))) if room > 0 else 1
    most = at_once or min(MOST_AT_ONCE, fits)
    block = min(num_lanes, most)
    resident = block == num_lanes or footprint.on_cpu(num_lanes, block) <= room
    memory = held + footprint.on_cpu(num_lanes if resident else 0, block)
    return Plan(block, resident, memory, _why(num_lanes, block, at_once, fits, memory))


def _on_device(
    footprint: Footprint, num_lanes: int, at_once: int | None, free: int
) -> Plan:
    devices = jax.device_count()
    fits = max(1, devices * int(SHARE * free / footprint.on_device(1)))
    block = min(num_lanes, at_once or min(MOST_ON_DEVICE * devices, fits))
    memory = footprint.on_device(-(-block // devices))
    return Plan(
        block, block == num_lanes, memory, _why(num_lanes, block, at_once, fits, memory)
    )


def _why(
    num_lanes: int, block: int, at_once: int | None, fits: int, memory: int
) -> str | None:
    if block == num_lanes:
        return None
    blocks = -(-num_lanes // block)
    reason = (
        "as you asked"
        if at_once
        else f"since more do not fit into memory, {amount(memory)} of which they take"
        if block == fits
        else "so that results are saved and shown as they come"
    )
    return f"{num_lanes} runs in {blocks} blocks of {block}, {reason}"


def alive(program: Jaxpr) -> int:
    """Returns the most bytes that are alive at one time inside a traced program, its arguments apart."""
    last: dict[Any, int] = {}
    for number, equation in enumerate(program.eqns):
        last |= {
            value: number for value in equation.invars if not isinstance(value, Literal)
        }
    last |= {
        value: len(program.eqns)
        for value in program.outvars
        if not isinstance(value, Literal)
    }
    now = most = 0
    held: dict[Any, int] = {}
    for number, equation in enumerate(program.eqns):
        inside = max(map(alive, _inner(equation)), default=0)
        made = {value: _bytes(value.aval) for value in equation.outvars}
        most = max(most, now + sum(made.values()) + inside)
        for value, size in made.items():
            if last.get(value, -1) > number:
                held[value] = size
                now += size
        for value in set(last).intersection(
            one for one in equation.invars if not isinstance(one, Literal)
        ):
            if last[value] == number:
                now -= held.pop(value, 0)
    return most


def amount(size: int) -> str:
    """Returns for example "640 MB" or "3.2 GB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def held_memory() -> int:
    """Returns the bytes that this process holds now, or held at most where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return peak_memory()


def peak_memory() -> int:
    """Returns the most bytes that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def free_memory() -> int:
    """Returns the bytes that can be had: of an accelerator's memory, or of the machine's, or what a container is left."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        known = device.memory_stats() or {}
        if "bytes_limit" in known:
            return int(known["bytes_limit"] - known.get("bytes_in_use", 0))
    found = [number for number in (_machine(), _container()) if number is not None]
    return min(found, default=2**62)


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        known = dict(line.split(":", 1) for line in lines)
        return 1024 * int(known["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def _container(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Returns what the limit of a control group leaves, of version 2 or 1."""
    for limit, used in (
        (root / "memory.max", root / "memory.current"),
        (
            root / "memory" / "memory.limit_in_bytes",
            root / "memory" / "memory.usage_in_bytes",
        ),
    ):
        try:
            return max(0, int(limit.read_text()) - int(used.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return None


def _bytes(tree: Any) -> int:
    sizes = [
        int(np.prod(leaf.shape)) * _width(leaf.dtype)
        for leaf in jax.tree.leaves(tree)
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    ]
    return sum(sizes)


def _width(dtype: Any) -> int:
    """Returns the bytes of a number; a key has two of four."""
    return 8 if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) else dtype.itemsize


def _inner(equation: Any) -> Iterator[Jaxpr]:
    """Yields the programs inside an equation: bodies of loops, branches, functions."""
    for parameter in equation.params.values():
        several = parameter if isinstance(parameter, tuple | list) else (parameter,)
        for one in several:
            program = getattr(one, "jaxpr", one)
            if isinstance(program, Jaxpr):
                yield program
