"""Where the lanes of a sweep run: as calls from the threads of a CPU, or vmapped and sharded over accelerators.

On CPU the compiled program is that of one lane, and a lane is a call of it. So a lane computes the same bits whether it runs
alone or among hundreds, a lane that skips its context update does not pay for its neighbours', the working set of a lane stays
in the cache, and no core waits before the last lane; measured, that is as fast as vmapping.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from spjax.cores import num_cores, working

# every lane on the devices: all in a tuple (`Calls`), or in one pytree with the lane axis first (`Vmapped`)
Lanes: TypeAlias = PyTree
Compiled = Callable[..., Lanes]


@dataclasses.dataclass(frozen=True)
class Layout(abc.ABC):
    """How lanes lie on the hardware, and how a function of one lane runs on all of them."""

    num_lanes: int

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
    def compile(
        self,
        function: Callable[..., Any],
        lanes: tuple[Lanes, ...],
        *shared: Any,
        **options: Any,
    ) -> Compiled:
        """Returns the compiled function of all lanes, from the function of one lane.

        Args:
            function: of one lane; what all lanes share comes last.
            lanes: arguments, or their shapes and dtypes.
            shared: the same for what all lanes share.
            options: of ``jax.jit``.
        """


class Calls(Layout):
    """For CPU: a lane is a call, and as many threads as there are cores make the calls."""

    @property
    def workers(self) -> tuple[int, str]:
        """Cores, or fewer if there are not so many lanes."""
        return min(num_cores(), self.num_lanes), "core"

    def to_devices(self, host: PyTree) -> Lanes:
        """Returns a tuple of lanes."""

        def lane(index: int) -> PyTree:
            return jax.tree.map(lambda leaf: leaf[index], host)

        return tuple(
            jax.device_put(lane(index), jax.devices()[0])
            for index in range(self.num_lanes)
        )

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

    def compile(
        self,
        function: Callable[..., Any],
        lanes: tuple[Lanes, ...],
        *shared: Any,
        **options: Any,
    ) -> Compiled:
        """Compiles for one lane."""
        compiled = _compiled(
            function, options, *(argument[0] for argument in lanes), *shared
        )

        def call(*arguments: PyTree) -> Lanes:
            each, shared = (
                zip(*arguments[: len(lanes)], strict=True),
                arguments[len(lanes) :],
            )
            num_threads, _ = self.workers
            threads = ThreadPoolExecutor(num_threads)
            try:
                with working(num_threads):
                    return tuple(
                        threads.map(
                            lambda lane: jax.block_until_ready(
                                compiled(*lane, *shared)
                            ),
                            each,
                        )
                    )
            finally:  # after Ctrl-C, lanes that run cannot be stopped and nobody waits for them
                threads.shutdown(wait=False, cancel_futures=True)

        return call


class Vmapped(Layout):
    """For accelerators: every device vmaps its lanes; the last lane is repeated until they divide evenly."""

    @property
    def workers(self) -> tuple[int, str]:
        """Devices, or fewer if there are not so many lanes."""
        return min(jax.device_count(), self.num_lanes), "device"

    def to_devices(self, host: PyTree) -> Lanes:
        """Returns sharded arrays [lane, ...]."""
        lanes = np.minimum(np.arange(self._padded), self.num_lanes - 1)
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
                (self._padded, *leaf.shape), leaf.dtype, sharding=self._sharding
            )

        return jax.tree.map(of_all, lane)

    def part(self, lanes: Lanes, choose: Callable[[PyTree], PyTree]) -> Lanes:
        """Chooses from all lanes at once."""
        return choose(lanes)

    def one(self, lanes: Lanes, index: int) -> PyTree:
        """Returns it on the first device."""
        lane = jax.tree.map(lambda leaf: leaf[index], lanes)
        return jax.device_put(lane, jax.devices()[0])

    def compile(
        self,
        function: Callable[..., Any],
        lanes: tuple[Lanes, ...],
        *shared: Any,
        **options: Any,
    ) -> Compiled:
        """Compiles for all lanes together."""

        def on_all(*arguments: PyTree) -> Lanes:
            each, shared = arguments[: len(lanes)], arguments[len(lanes) :]
            vmapped = jax.vmap(lambda *lane: function(*lane, *shared))
            mesh, specs = self._sharding.mesh, self._sharding.spec
            return jax.shard_map(
                vmapped, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False
            )(*each)

        return _compiled(on_all, options, *lanes, *shared)

    @property
    def _padded(self) -> int:
        devices = self.workers[0]
        return -(-self.num_lanes // devices) * devices

    @property
    def _sharding(self) -> NamedSharding:
        return NamedSharding(
            Mesh(np.asarray(jax.devices()[: self.workers[0]]), ("lanes",)), P("lanes")
        )


def _compiled(
    function: Callable[..., Any], options: Mapping[str, Any], *arguments: Any
) -> Compiled:
    """Returns the compiled function, in single precision whatever JAX_ENABLE_X64 says.

    What needs more asks for it itself, see `spjax.solvers.precision`.
    """
    with jax.enable_x64(False):
        lowered = jax.jit(function, **options).lower(*arguments)
    return lowered.compile()
