"""Sweeps on a Ray cluster: two nodes on this machine, bound to loopback, one of which is lost in the middle."""

import os
import signal
import subprocess
from contextlib import suppress

import pytest

import spjax
from spjax.training.progress import SweepProgress
from spjax.training.train import Interrupted
from tests.training.conftest import tiny
from tests.training.test_resume import assert_same_run

# nothing is sent anywhere, workers do not give way, and 127.0.0.1 is not replaced by another address
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

NODE = {
    "num_cpus": 1,
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 2**27,
    "include_log_monitor": False,
}

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def cluster():
    """A head and a second node of a core each."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop("Ray is not installed: pip install 'spjax[ray]'")
    head = NODE | {"include_dashboard": False, "no_monitor": True}
    cluster = Cluster(True, head_node_args=head)
    cluster.second = cluster.add_node(**NODE)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which Ray takes in this process
    yield cluster
    cluster.shutdown()


def lose(cluster, node):
    """Lets a node go as a machine does that loses its power: with all its processes."""
    (raylet,) = (info.process.pid for info in node.all_processes["raylet"])
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(raylet)], capture_output=True, check=True
    )
    cluster.remove_node(node, allow_graceful=False)
    for pid in map(int, listed.stdout.split()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_sweep_that_loses_a_node_and_is_stopped_has_the_bits_of_one_machine(
    cluster, finished, tmp_path, monkeypatch, capsys
):
    def happening(bar, iteration, metrics, snapshot):
        if iteration == 2:
            lose(cluster, cluster.second)
        if iteration == 4:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(SweepProgress, "update", happening)
    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match=r"^stopped at iteration 4; ") as stopped:
        spjax.train(tiny(), folder, engine="ray", address=cluster.address)
    assert stopped.value.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    said = capsys.readouterr().out
    assert "3 runs on 2 cores of 2 nodes" in said
    assert "was lost; done again from iteration 2: " in said

    monkeypatch.undo()
    spjax.resume(folder, progress=False)
    assert_same_run(finished, folder)
    assert {file.name for file in folder.iterdir()} == {
        file.name for file in finished.iterdir()
    }
