"""Joining a Ray cluster, https://docs.ray.io, for a run."""

import dataclasses
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import jax

from spjax.training.engines.base import Engine, Work
from spjax.training.engines.ray_cluster import Cluster

_CONNECTING = 5.0  # seconds for a cluster to answer
_PASSED_ON = ("JAX_", "XLA_")  # beginnings of variables that change what is computed


@dataclasses.dataclass(frozen=True)
class Ray(Engine):
    """The nodes of a Ray cluster that is there already."""

    address: str | None = None  # "host:port"; None for the one of this machine

    @classmethod
    def at(cls, address: str | None) -> "Ray":
        """Returns that of an address.

        Raises:
            ValueError: Ray is not installed, or nothing answers there.
        """
        try:
            import ray
        except ImportError as error:
            raise ValueError(
                "the engine ray needs Ray, which is not installed: pip install 'spjax[ray]'"
            ) from error
        if ray.is_initialized():  # by the program that trains
            return cls()
        if address == "auto":
            address = None
        return cls(_answering(address))

    @contextmanager
    def on(
        self, run: Work, say: Callable[[str], object], asked: Callable[[], bool]
    ) -> Iterator[Cluster]:
        """Connects, and waits for a worker on every node that is free."""
        import ray

        ours = not ray.is_initialized()
        variables = _variables()
        if ours:
            _connect(ray, self.address)
        cluster = Cluster(ray, run, variables)
        try:
            cluster.start(say, asked)
            yield cluster
        finally:
            cluster.end()
            if ours:
                ray.shutdown()


def _answering(address: str | None) -> str:
    """Returns the address of a cluster, "host:port", that something answers at.

    Raises:
        ValueError: nothing does.
    """
    from ray._private.services import canonicalize_bootstrap_address

    try:
        found = canonicalize_bootstrap_address(address or "auto")
    except ConnectionError:
        found = None
    except (ValueError, OSError) as error:
        raise ValueError(
            f'address must be "auto" or "host:port", got {address!r}'
        ) from error
    if found is None:
        raise ValueError(
            "this machine is in no Ray cluster; start one with `ray start --head`, join one, or name its address"
        )
    host, _, port = found.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECTING).close()
    except OSError as error:
        raise ValueError(f"no Ray cluster answers at {found}: {error}") from error
    return str(found)


def _connect(ray: ModuleType, address: str | None) -> None:
    """Connects this process; signals stay with who handles them.

    Raises:
        ValueError: the cluster is of another version, or refuses for another reason.
    """
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"cannot join the Ray cluster at {address}: {why}") from error
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)


def _variables() -> dict[str, str]:
    """Returns the environment of workers, as far as it changes what they compute or where compiled programs are kept."""
    variables = {
        name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)
    }
    kept = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return variables | ({"JAX_COMPILATION_CACHE_DIR": kept} if kept else {})
