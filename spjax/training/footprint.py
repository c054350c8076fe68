"""How much memory a sweep takes, known before anything compiles, and how many lanes are worked on at once.

The estimate counts the lanes' states, what they write in a chunk, and what a lane needs while it computes: the most that is alive
at one time in the traced program, which holds the rollout. On CPU three things come on top: what the process holds already, the
most that compiling takes, by the equations of the traced program, and what stays of it, which the lanes are added to. A
program that was compiled before is read from the cache and takes less than a small sweep's estimate, which compiling makes up.
"""

import dataclasses
import math
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import PyTree

from spjax.cores import num_cores
from spjax.training.lanes import Calls
from spjax.training.program import Program

SHARE = 0.7  # of the free memory that a sweep may take
MOST_AT_ONCE = 256  # lanes of a block on CPU: enough for every core, and soon through
MOST_ON_DEVICE = (
    1024  # lanes of a block on one accelerator, which more do not fill better
)
COMPILING, PER_EQUATION = 395_000_000, 77_000  # bytes at its peak, for CPU
REMAINS = 440_000_000  # bytes of compiled programs and of libraries that a run loads
MADE, PLACED = (
    2_000,
    4_200,
)  # bytes around an array that a program made or that the host placed, on CPU
MARGIN = 1.4  # what the compiler needs of what is alive in the traced program


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Of one lane, in bytes."""

    state: int  # numbers that are kept between iterations
    results: int  # numbers of a chunk
    working: int  # while it computes, beside both
    arrays: tuple[int, int, int] = (0, 0, 0)  # of state, results, settings
    equations: int = 0  # of the traced program

    @classmethod
    def of(cls, program: Program, length: int) -> "Footprint":
        """Returns that of a program of one lane, for chunks of `length` iterations."""
        traced = program.trace(length)
        state, *results = traced.out_info
        trees = state, results, program.experiments
        return cls(
            _bytes(state),
            _bytes(results),
            int(MARGIN * alive(traced.jaxpr.jaxpr)),
            tuple(len(jax.tree.leaves(tree)) for tree in trees),  # type: ignore[arg-type]
            equations(traced.jaxpr.jaxpr),
        )

    def on_cpu(self, num_kept: int, at_once: int) -> int:
        """Returns what lanes add to the process: so many kept in memory, so many of them in a block."""
        of_state, of_results, of_settings = self.arrays
        kept = self.state + MADE * of_state
        of_block = self.results + MADE * of_results + PLACED * of_settings
        saved = self.state + self.results  # as arrays on the host
        return (
            max(num_kept, at_once) * kept
            + at_once * (of_block + saved)
            + min(num_cores(), at_once) * self.working
        )

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
    footprint, free = Footprint.of(program, length), free_memory()
    if isinstance(program.layout, Calls):
        return plan_on_cpu(footprint, free, num_lanes, at_once)
    return plan_on_devices(
        footprint, free, num_lanes, at_once, jax.local_device_count()
    )


def plan_on_cpu(
    footprint: Footprint, free: int, num_lanes: int, at_once: int | None
) -> Plan:
    """Returns the plan for a machine with so many free bytes."""
    room = int(SHARE * free) - REMAINS
    fits = max(1, room // footprint.on_cpu(1, 1))
    block = min(num_lanes, at_once or min(MOST_AT_ONCE, fits))
    resident = block == num_lanes or footprint.on_cpu(num_lanes, block) <= room
    lanes = footprint.on_cpu(num_lanes if resident else 0, block)
    peak = max(COMPILING + PER_EQUATION * footprint.equations, REMAINS + lanes)
    why = _why(num_lanes, block, at_once, fits, lanes)
    return Plan(block, resident, held_memory() + peak, why)


def plan_on_devices(
    footprint: Footprint, free: int, num_lanes: int, at_once: int | None, devices: int
) -> Plan:
    """Returns the plan for accelerators with so many free bytes each."""
    fits = max(1, devices * int(SHARE * free / footprint.on_device(1)))
    block = min(num_lanes, at_once or min(MOST_ON_DEVICE * devices, fits))
    memory = footprint.on_device(-(-block // devices))
    why = _why(num_lanes, block, at_once, fits, memory)
    return Plan(block, block == num_lanes, memory, why)


def _why(
    num_lanes: int, block: int, at_once: int | None, fits: int, memory: int
) -> str | None:
    if block == num_lanes:
        return None
    blocks = -(-num_lanes // block)
    reason = (
        ("as you asked" if at_once <= fits else "which may not fit into memory")
        if at_once
        else f"since more do not fit into memory; a block takes {amount(memory)} of it"
        if block == fits
        else "so that results are saved and shown as they come"
    )
    return f"{num_lanes} runs in {blocks} blocks of {block}, {reason}"


def alive(program: Jaxpr) -> int:
    """Returns the most bytes that are alive at one time inside a traced program, its arguments apart."""
    last: dict[Var, int] = {}
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
    held: dict[Var, int] = {}
    for number, equation in enumerate(program.eqns):
        inside = max(map(alive, _inner(equation)), default=0)
        made = {value: _size(value.aval) for value in equation.outvars}
        most = max(most, now + sum(made.values()) + inside)
        for value, size in made.items():
            if last.get(value, -1) > number:
                held[value] = size
                now += size
        for used in equation.invars:
            if not isinstance(used, Literal) and last[used] == number:
                now -= held.pop(used, 0)
    return most


def equations(program: Jaxpr) -> int:
    """Returns how many a traced program has, those of loops and branches once."""
    return sum(1 + sum(map(equations, _inner(one))) for one in program.eqns)


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
    device = jax.local_devices()[0]
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


def _bytes(tree: PyTree) -> int:
    return sum(map(_size, jax.tree.leaves(tree)))


def _size(array: object) -> int:
    """Returns the bytes of an array's numbers, of a key two of four each; 0 of what is no array, such as an effect."""
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        return 0
    keys = jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return math.prod(array.shape) * (8 if keys else array.dtype.itemsize)


def _inner(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """Yields the programs inside an equation: bodies of loops, branches, functions."""
    for parameter in equation.params.values():
        several = parameter if isinstance(parameter, tuple | list) else (parameter,)
        for one in several:
            program = getattr(one, "jaxpr", one)
            if isinstance(program, Jaxpr):
                yield program
