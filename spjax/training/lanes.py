"""Where the lanes of a sweep run: as calls from the threads of a CPU, or vmapped and sharded over accelerators.

On CPU the compiled program is that of one lane, and a lane is a call of it. So a lane computes the same bits whether it runs
alone or among hundreds, a lane that skips its context update does not pay for its neighbours', the working set of a lane stays
in the cache, and no core waits before the last lane; measured, that is as fast as vmapping.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypedDict, Unpack

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.stages import Traced
from jaxtyping import PyTree

from spjax.cores import num_cores, working

# every lane on the devices: all in a tuple (`Calls`), or in one pytree with the lane axis first (`Vmapped`)
Lanes: TypeAlias = PyTree

# of lanes; `finished=` may be a function to call when a lane is through, where they finish one by one
Compiled: TypeAlias = Callable[..., Lanes]


class JitOptions(TypedDict, total=False):
    """Options of ``jax.jit``."""

    donate_argnums: int | Sequence[int]
    compiler_options: dict[str, bool]


@dataclasses.dataclass(frozen=True)
class Layout(abc.ABC):
    """How lanes lie on the hardware, and how a function of one lane runs on all of them."""

    num_lanes: int
    room: int | None = None  # lanes that a program has room for; None for these

    @property
    @abc.abstractmethod
    def batch(self) -> int:
        """How many lanes a compiled function takes; what was compiled for one layout serves all with the same number."""

    @property
    @abc.abstractmethod
    def workers(self) -> tuple[int, str]:
        """How many lanes run at the same time, and what a lane runs on."""

    @abc.abstractmethod
    def to_devices(self, host: PyTree) -> Lanes:
        """Returns the lanes of arrays [lane, ...]."""

    @abc.abstractmethod
    def to_host(self, lanes: Lanes) -> PyTree:
        """Returns NumPy arrays [lane, ...]."""

    @abc.abstractmethod
    def abstract(self, lane: PyTree) -> Lanes:
        """Returns shapes and dtypes of all lanes, from those of one."""

    @abc.abstractmethod
    def part(self, lanes: Lanes, choose: Callable[[PyTree], PyTree]) -> Lanes:
        """Returns of every lane what `choose` takes out of it."""

    @abc.abstractmethod
    def one(self, lanes: Lanes, index: int) -> PyTree:
        """Returns a single lane, on the devices."""

    @abc.abstractmethod
    def trace(
        self,
        function: Callable[..., PyTree],
        lanes: tuple[Lanes, ...],
        *shared: PyTree,
        **options: Unpack[JitOptions],
    ) -> Traced:
        """Returns what is to be compiled for `batch` lanes, from the function of one lane.

        Args:
            function: of one lane; what all lanes share comes last.
            lanes: arguments, or their shapes and dtypes.
            shared: the same for what all lanes share.
            options: of ``jax.jit``.
        """

    @abc.abstractmethod
    def ready(self, compiled: Callable[..., PyTree], num_arguments: int) -> Compiled:
        """Returns the function of all lanes, from the one that was compiled, which has so many arguments of lanes."""

    def compile(
        self,
        function: Callable[..., PyTree],
        lanes: tuple[Lanes, ...],
        *shared: PyTree,
        **options: Unpack[JitOptions],
    ) -> Compiled:
        """Returns the compiled function of all lanes, from the function of one lane; see `trace`."""
        traced = self.trace(function, lanes, *shared, **options)
        return self.ready(executable(traced), len(lanes))


class Calls(Layout):
    """For CPU: a lane is a call, and as many threads as there are cores make the calls."""

    @property
    def batch(self) -> int:
        """One, whatever their number."""
        return 1

    @property
    def workers(self) -> tuple[int, str]:
        """Cores, or fewer if there are not so many lanes."""
        return min(num_cores(), self.num_lanes), "core"

    def to_devices(self, host: PyTree) -> Lanes:
        """Returns a tuple of lanes."""

        def lane(index: int) -> PyTree:
            return jax.tree.map(lambda leaf: leaf[index], host)

        lanes = tuple(lane(index) for index in range(self.num_lanes))
        return jax.device_put(lanes, jax.local_devices()[0])

    def to_host(self, lanes: Lanes) -> PyTree:
        """Returns copies."""
        return jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)

    def abstract(self, lane: PyTree) -> Lanes:
        """Returns a tuple of the same."""
        return (lane,) * self.num_lanes

    def part(self, lanes: Lanes, choose: Callable[[PyTree], PyTree]) -> Lanes:
        """Chooses lane by lane."""
        return tuple(choose(lane) for lane in lanes)

    def one(self, lanes: Lanes, index: int) -> PyTree:
        """Returns it as it is."""
        return lanes[index]

    def trace(
        self,
        function: Callable[..., PyTree],
        lanes: tuple[Lanes, ...],
        *shared: PyTree,
        **options: Unpack[JitOptions],
    ) -> Traced:
        """Traces one lane."""
        return _traced(function, options, *(argument[0] for argument in lanes), *shared)

    def ready(self, compiled: Callable[..., PyTree], num_arguments: int) -> Compiled:
        """Calls it for lane after lane, on every core."""

        def call(
            *arguments: PyTree, finished: Callable[[], object] | None = None
        ) -> Lanes:
            each = list(zip(*arguments[:num_arguments], strict=True))
            shared = arguments[num_arguments:]

            def run(lane: tuple[PyTree, ...]) -> PyTree:
                after = jax.block_until_ready(compiled(*lane, *shared))
                if finished is not None:
                    finished()
                return after

            num_threads = min(num_cores(), len(each))
            threads = ThreadPoolExecutor(num_threads)
            try:
                with working(num_threads):
                    return tuple(threads.map(run, each))
            finally:  # after Ctrl-C, lanes that run cannot be stopped and nobody waits for them
                threads.shutdown(wait=False, cancel_futures=True)

        return call


class Vmapped(Layout):
    """For accelerators: every device vmaps its lanes; the last lane is repeated until they divide evenly, or fill the room."""

    @property
    def batch(self) -> int:
        """All, and those that are repeated."""
        devices = self.workers[0]
        return -(-(self.room or self.num_lanes) // devices) * devices

    @property
    def workers(self) -> tuple[int, str]:
        """Devices, or fewer if there are not so many lanes."""
        return min(jax.local_device_count(), self.room or self.num_lanes), "device"

    def to_devices(self, host: PyTree) -> Lanes:
        """Returns sharded arrays [lane, ...]."""
        lanes = np.minimum(np.arange(self.batch), self.num_lanes - 1)
        return jax.device_put(
            jax.tree.map(lambda leaf: leaf[lanes], host), self._sharding
        )

    def to_host(self, lanes: Lanes) -> PyTree:
        """Leaves the repeated lanes out."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.num_lanes], lanes)

    def abstract(self, lane: PyTree) -> Lanes:
        """Returns shapes with the lane axis first, and how it is sharded."""

        def of_all(leaf: PyTree) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(
                (self.batch, *leaf.shape), leaf.dtype, sharding=self._sharding
            )

        return jax.tree.map(of_all, lane)

    def part(self, lanes: Lanes, choose: Callable[[PyTree], PyTree]) -> Lanes:
        """Chooses from all lanes at once."""
        return choose(lanes)

    def one(self, lanes: Lanes, index: int) -> PyTree:
        """Returns it on the first device."""
        lane = jax.tree.map(lambda leaf: leaf[index], lanes)
        return jax.device_put(lane, jax.local_devices()[0])

    def trace(
        self,
        function: Callable[..., PyTree],
        lanes: tuple[Lanes, ...],
        *shared: PyTree,
        **options: Unpack[JitOptions],
    ) -> Traced:
        """Traces all lanes together."""

        def on_all(*arguments: PyTree) -> Lanes:
            each, shared = arguments[: len(lanes)], arguments[len(lanes) :]
            vmapped = jax.vmap(lambda *lane: function(*lane, *shared))
            mesh, specs = self._sharding.mesh, self._sharding.spec
            return jax.shard_map(
                vmapped, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False
            )(*each)

        return _traced(on_all, options, *lanes, *shared)

    def ready(self, compiled: Callable[..., PyTree], num_arguments: int) -> Compiled:
        """Returns it as it is: all lanes finish together."""

        def call(
            *arguments: PyTree, finished: Callable[[], object] | None = None
        ) -> Lanes:
            return compiled(*arguments)

        return call

    @property
    def _sharding(self) -> NamedSharding:
        return NamedSharding(
            Mesh(np.asarray(jax.local_devices()[: self.workers[0]]), ("lanes",)),
            P("lanes"),
        )


def _traced(
    function: Callable[..., PyTree], options: JitOptions, *arguments: PyTree
) -> Traced:
    """Returns the traced function, in single precision whatever JAX_ENABLE_X64 says.

    What needs more asks for it itself, see `spjax.solvers.precision`.
    """
    with jax.enable_x64(False):
        return jax.jit(function, **options).trace(*arguments)


def executable(traced: Traced) -> Callable[..., PyTree]:
    """Returns the compiled function, in single precision too."""
    with jax.enable_x64(False):
        lowered = traced.lower()
    compiled: Callable[..., PyTree] = lowered.compile()
    return compiled
