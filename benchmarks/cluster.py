"""A sweep on two nodes of a Ray cluster beside the same on one machine: ``python -m benchmarks.cluster [--seeds 16]``.

Both nodes are on this machine, bound to loopback, with half its cores each. A sweep is trained without them and with them, in
turns. Every lane must end with the same bits. The overhead is that of the time from the end of the first chunk to that of the
last, so without what starting takes, which is said apart. Writes ``benchmarks/results/cluster.json``.
"""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# before Ray is imported: nothing is sent anywhere, workers do not give way, 127.0.0.1 stays what it is
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

import jax
import numpy as np
import tyro
from ray.cluster_utils import Cluster

import spjax
from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.cores import num_cores
from spjax.runs.results import write_records_beside
from spjax.training.following import Report
from spjax.training.train import restore

RESULTS = Path(__file__).parent / "results" / "cluster.json"


def main(
    seeds: int = 16, iterations: int = 60, evaluate_every: int = 20, repeats: int = 3
) -> None:
    """Compares the two.

    Args:
        seeds: lanes of the sweep.
        iterations: of each lane.
        evaluate_every: iterations between evaluations, at which workers wait for each other.
        repeats: of both.
    """
    config = dataclasses.replace(
        spjax.preset("point-mass-3d"),
        seeds=tuple(range(1, seeds + 1)),
        num_iterations=iterations,
        evaluate_every=evaluate_every,
    )
    overheads, starts = [], []
    same = np.ones(seeds, bool)
    with tempfile.TemporaryDirectory() as runs, two_nodes() as address:
        for repeat in range(repeats):
            alone, here = Path(runs) / f"alone-{repeat}", Timed()
            spjax.train(config, alone, progress=False, callback=here)
            there, spread = Path(runs) / f"spread-{repeat}", Timed()
            spjax.train(
                config,
                there,
                progress=False,
                callback=spread,
                engine="ray",
                address=address,
            )
            overheads.append(spread.training / here.training - 1)
            starts.append(spread.starting)
            same &= same_bits(alone, there)
            print(
                f"{here.training:.1f} s on one machine, {spread.training:.1f} s on two nodes; "
                f"{same.sum()} of {seeds} lanes with identical bits"
            )
    repeated = list(range(1, repeats + 1))
    shared = {
        "experiment": "cluster",
        "env": "point-mass-3d",
        "agent": "ppo",
        "teacher": "self-paced",
        "schedule": "proportion",
        "iterations": iterations,
        "settings": {"lanes": seeds, "evaluate_every": evaluate_every},
        "command": command_line("benchmarks.cluster"),
        "packages": ("ray",),
    }
    write_records_beside(
        RESULTS,
        [
            measured_here(
                metric="lanes with identical bits",
                seeds=config.seeds,
                values=same.astype(float),
                **shared,
            ),
            measured_here(
                metric="overhead of two local nodes",
                seeds=repeated,
                values=overheads,
                **shared,
            ),
            measured_here(
                metric="seconds to the first trained chunk on two local nodes",
                seeds=repeated,
                values=starts,
                **shared,
            ),
        ],
    )


class Timed:
    """Notes when the chunks of a run are saved."""

    def __init__(self) -> None:
        self._begun, self._at = time.perf_counter(), list[float]()

    def __call__(self, report: Report) -> None:
        """Notes one."""
        self._at.append(time.perf_counter())

    @property
    def starting(self) -> float:
        """Seconds up to the first chunk, that included."""
        return self._at[0] - self._begun

    @property
    def training(self) -> float:
        """Seconds from the first chunk to the last."""
        return self._at[-1] - self._at[0]


@contextmanager
def two_nodes() -> Iterator[str]:
    """Starts two nodes, and gives the address of their cluster."""
    node = {
        "num_cpus": max(1, num_cores() // 2),
        "node_ip_address": "127.0.0.1",
        "object_store_memory": 2**27,
    }
    cluster = Cluster(True, head_node_args=node | {"include_dashboard": False})
    try:
        cluster.add_node(**node)
        yield cluster.address
    finally:
        cluster.shutdown()


def same_bits(one: Path, other: Path) -> np.ndarray:
    """Says for each lane whether every leaf of the final states is the same."""
    pairs = zip(_leaves(one), _leaves(other), strict=True)
    return np.all([_equal(a, b) for a, b in pairs], axis=0)


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    as_bytes = (
        np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8) for x in (a, b)
    )
    return np.equal(*as_bytes).all(axis=1)


def _leaves(folder: Path) -> list[np.ndarray]:
    _, program, states = restore(folder)
    return jax.tree.leaves(program.to_host(states))


if __name__ == "__main__":
    tyro.cli(main)
